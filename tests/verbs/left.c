// SPDX-License-Identifier: MIT
/* Objects that are left behind, for tests/run/leaks.py. The arguments say how the program ends:
 * "close": it closes the device first; "fork": it has a child that exits, too; "clean": it leaves
 * none; "kinds": of all kinds. */
#include <fcntl.h>
#include <string.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <rdma/rdma_cma.h>
#include "verbs/peer.h"

static char memory[64];

__attribute__((noinline)) struct ibv_mr *make_region(struct ibv_pd *pd);
struct ibv_mr *make_region(struct ibv_pd *pd)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof(memory), 0);

	if (!mr)
		die("ibv_reg_mr");
	return mr; /* not a tail call: mr was looked at */
}

static void must(const void *p, const char *call)
{
	if (!p)
		die(call);
}
#define MUST(call) must(call, #call)

static struct rdma_cm_id *make_id(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id;

	if (!channel || rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		die("rdma_create_id");
	return id;
}

static void end_id(struct rdma_cm_id *id)
{
	struct rdma_event_channel *channel = id->channel;

	if (rdma_destroy_id(id))
		die("rdma_destroy_id");
	rdma_destroy_event_channel(channel);
}

/* Beside a PD and a region. Those that are of rdma_cm know no device. */
static void make_all_kinds(struct peer_dev *dev)
{
	struct ibv_alloc_dm_attr dm = { .length = 4096 };
	struct ibv_td_init_attr td = { 0 };
	struct ibv_counters_init_attr counters = { 0 };
	struct ibv_xrcd_init_attr domain = { .comp_mask = IBV_XRCD_INIT_ATTR_FD |
							  IBV_XRCD_INIT_ATTR_OFLAGS,
					     .fd = -1,
					     .oflags = O_CREAT };
	struct ibv_srq_init_attr srq = { .attr = { 1, 1, 0 } };
	struct ibv_wq_init_attr wq = { .wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1 };
	struct ibv_rwq_ind_table_init_attr table = { 0 };
	struct ibv_wq *of;

	MUST(make_id());
	MUST(ibv_alloc_td(dev->ctx, &td));
	MUST(ibv_alloc_dm(dev->ctx, &dm));
	MUST(ibv_create_counters(dev->ctx, &counters));
	MUST(ibv_open_xrcd(dev->ctx, &domain));
	MUST(ibv_create_comp_channel(dev->ctx));
	MUST(ibv_create_srq(dev->pd, &srq));
	wq.pd = dev->pd;
	wq.cq = ibv_create_cq(dev->ctx, 1, NULL, NULL, 0);
	MUST(wq.cq);
	of = ibv_create_wq(dev->ctx, &wq);
	MUST(of);
	table.ind_tbl = &of;
	MUST(ibv_create_rwq_ind_table(dev->ctx, &table));
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	struct peer_dev dev;
	struct ibv_cq *cq;
	struct ibv_mr *mr;

	peer_open(&dev);
	cq = ibv_create_cq(dev.ctx, 1, NULL, NULL, 0);
	if (!cq || ibv_destroy_cq(cq))
		die("ibv_create_cq");
	mr = make_region(dev.pd);
	if (!strcmp(how, "kinds"))
		make_all_kinds(&dev);
	if (!strcmp(how, "clean")) {
		end_id(make_id());
		ibv_dereg_mr(mr);
		peer_close(&dev);
	} else if (!strcmp(how, "close")) {
		ibv_close_device(dev.ctx);
	} else if (!strcmp(how, "fork")) {
		if (!fork())
			exit(0);
		wait(NULL);
	}
	return 0;
}
