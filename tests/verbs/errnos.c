// SPDX-License-Identifier: MIT
/* Errnos that the man pages name, or that a client of the verbs tells apart, by the convention of
 * each call. Those of limits are in limits.c, of moves in moves.c, of mistakes with sentences in
 * mistakes_calls.c. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include "verbs/cases.h"
#include "verbs/duo.h"
#include "verbs/said.h"

static struct duo duo;
static struct ibv_context *ctx;

static void begin(void)
{
	struct duo_opts o = { .qp.type = IBV_QPT_RC, .together = true };

	said_begin();
	duo_open(&duo, &o);
	ctx = duo.near.dev.ctx;
}

/* An index outside is a plain failure, an empty one has no data, and reads as zeros elsewhere. */
static void gid_table(int arg)
{
	static const union ibv_gid zero;
	struct ibv_gid_entry entry, all[16];
	union ibv_gid gid;
	int empty = -1;

	(void)arg;
	begin();
	for (int i = 15; i >= 0 && empty < 0; i--) {
		want_eq(ibv_query_gid(ctx, 1, i, &gid), 0);
		if (!memcmp(&gid, &zero, sizeof(gid)))
			empty = i;
	}
	want(empty > 0);
	want_errno(ibv_query_gid_ex(ctx, 1, (uint32_t)empty, &entry, 0), ENODATA);
	want_errno(ibv_query_gid_ex(ctx, 1, 16, &entry, 0), EINVAL);
	want_errno(ibv_query_gid_ex(ctx, 2, 0, &entry, 0), EINVAL);
	want_errno(ibv_query_gid_ex(ctx, 1, 0, &entry, 1), EOPNOTSUPP); /* no flag is defined */
	want_eq(ibv_query_gid_ex(ctx, 1, 0, &entry, 0), 0);
	errno = 0;
	want_eq(ibv_query_gid_table(ctx, all, 0, 0), -EINVAL);
	want_eq(errno, EINVAL);
	want_eq(ibv_query_gid_table(ctx, all, 16, 1), -EOPNOTSUPP);
	want_eq(errno, EOPNOTSUPP);
	want(ibv_query_gid_table(ctx, all, 16, 0) >= 4);
	want_eq(ibv_query_gid(ctx, 1, 16, &gid), -1);
	want_eq(ibv_query_gid(ctx, 2, 0, &gid), -1);
}

/* Refused, and not SIGXFSZ. */
static void short_files(int arg)
{
	const struct rlimit lim = { 1 << 20, 1 << 20 };
	struct ibv_alloc_dm_attr dm = { .length = 2 << 20 };
	struct ibv_device **list;

	(void)arg;
	if (arg)
		begin();
	want_eq(setrlimit(RLIMIT_FSIZE, &lim), 0);
	if (arg) {
		want_null(ibv_alloc_dm(ctx, &dm), ENOMEM);
		return;
	}
	said_begin();
	list = ibv_get_device_list(NULL);
	want(list && list[0]);
	want_null(ibv_open_device(list[0]), EFBIG);
	said_want(SAID_NEAR,
		  "ibv_open_device: what this process publishes is longer than a file may be here; "
		  "raise the limit of file sizes (ulimit -f)");
}

static void ports_and_keys(int arg)
{
	struct ibv_port_attr port;
	__be16 pkey;

	(void)arg;
	begin();
	want_errno(ibv_query_port(ctx, 0, &port), EINVAL);
	want_errno(ibv_query_port(ctx, 2, &port), EINVAL);
	want_eq(ibv_query_pkey(ctx, 1, 1, &pkey), -1);
	want_eq(ibv_query_pkey(ctx, 2, 0, &pkey), -1);
	want_eq(ibv_get_pkey_index(ctx, 1, htobe16(0xffff)), 0);
	want_eq(ibv_get_pkey_index(ctx, 1, htobe16(0x1234)), -1);
}

/* RESET takes nothing, INIT receives alone. */
static void posts_in_reset_and_init(int arg)
{
	struct ibv_qp_init_attr_ex a = { .qp_type = IBV_QPT_RC,
					 .cap = { 2, 2, 1, 1, 0 },
					 .comp_mask = IBV_QP_INIT_ATTR_PD |
						      IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					 .send_ops_flags = IBV_QP_EX_WITH_SEND };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad_send = NULL;
	struct ibv_recv_wr rwr = { .wr_id = 1 }, *bad_recv = NULL;
	struct peer_ep ep = { .scq = NULL };
	struct ibv_qp_ex *ex;

	(void)arg;
	begin();
	a.pd = duo.near.dev.pd;
	a.send_cq = a.recv_cq = duo.near.ep.scq;
	ep.qp = ibv_create_qp_ex(ctx, &a);
	want(ep.qp);
	ex = ibv_qp_to_qp_ex(ep.qp);
	for (int i = 0; i < 2; i++) {
		want_eq(ibv_post_send(ep.qp, &wr, &bad_send), EINVAL);
		want(bad_send == &wr);
		ibv_wr_start(ex);
		ibv_wr_send(ex);
		ibv_wr_set_sge(ex, 0, 0, 0);
		want_eq(ibv_wr_complete(ex), EINVAL);
		want_eq(ibv_post_recv(ep.qp, &rwr, &bad_recv), i ? 0 : EINVAL);
		if (!i)
			want(bad_recv == &rwr);
		if (!i)
			peer_init(&ep, &duo.o.qp);
	}
	want_eq(ibv_destroy_qp(ep.qp), 0);
}

/* The first that does not fit is named, those before it are posted. */
static void lists_stop_at_the_first_that_fails(int arg)
{
	struct ibv_recv_wr rwr[32], *bad_recv = NULL;
	struct ibv_send_wr wr[3], *bad_send = NULL;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;
	struct ibv_sge sg[3];
	uint32_t n;

	(void)arg;
	begin();
	want_eq(ibv_query_qp(duo.near.ep.qp, &a, IBV_QP_CAP, &init), 0);
	n = a.cap.max_recv_wr;
	want(n < 32);
	for (uint32_t i = 0; i <= n; i++)
		rwr[i] = (struct ibv_recv_wr){ .next = i < n ? &rwr[i + 1] : NULL };
	want_eq(ibv_post_recv(duo.near.ep.qp, rwr, &bad_recv), ENOMEM);
	want(bad_recv == &rwr[n]);
	rwr[0] = (struct ibv_recv_wr){ .num_sge = (int)a.cap.max_recv_sge + 1, .sg_list = sg };
	want_eq(ibv_post_recv(duo.far.ep.qp, rwr, &bad_recv), EINVAL);
	for (int i = 0; i < 3; i++) {
		wr[i] = duo_wr(&duo, IBV_WR_RDMA_WRITE, &sg[i], 8);
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
	}
	wr[1].num_sge = (int)a.cap.max_send_sge + 1;
	want_eq(ibv_post_send(duo.near.ep.qp, wr, &bad_send), EINVAL);
	want(bad_send == &wr[1]);
	want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	wr[1].num_sge = INT_MAX; /* nothing behind the list is read */
	wr[1].send_flags |= IBV_SEND_INLINE;
	want_eq(ibv_post_send(duo.near.ep.qp, &wr[1], &bad_send), EINVAL);
	wr[1].send_flags &= ~(unsigned int)IBV_SEND_INLINE;
	wr[1].num_sge = 1;
	wr[1].opcode = (enum ibv_wr_opcode)77;
	want_eq(ibv_post_send(duo.near.ep.qp, &wr[1], &bad_send), EINVAL);
}

static void polling_by_the_extended_calls(int arg)
{
	struct ibv_cq_init_attr_ex a = { .cqe = 4, .wc_flags = 1ULL << 40 };
	struct ibv_poll_cq_attr poll = { 0 };
	struct ibv_cq_ex *cq;

	(void)arg;
	begin();
	want_null(ibv_create_cq_ex(ctx, &a), EOPNOTSUPP);
	a.wc_flags = 0;
	cq = ibv_create_cq_ex(ctx, &a);
	want(cq);
	want_eq(ibv_start_poll(cq, &poll), ENOENT);
	ibv_end_poll(cq);
	poll.comp_mask = 1;
	want_eq(ibv_start_poll(cq, &poll), EINVAL);
	want_eq(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

/* Devices' own services are for the device's own call. */
static void driver_queue_pairs(int arg)
{
	struct ibv_qp_init_attr a = { .qp_type = IBV_QPT_DRIVER, .cap = { 1, 1, 1, 1, 0 } };

	(void)arg;
	begin();
	a.send_cq = a.recv_cq = duo.near.ep.scq;
	want_null(ibv_create_qp(duo.near.dev.pd, &a), EOPNOTSUPP);
	said_want(SAID_NEAR, "ibv_create_qp: qp_type IBV_QPT_DRIVER is mlx5dv_create_qp()'s; call "
			     "that one");
}

static int attach(struct ibv_counters *c, unsigned int what, uint32_t index, uint32_t mask)
{
	struct ibv_counter_attach_attr a = { (enum ibv_counter_description)what, index, mask };

	return ibv_attach_counters_point_flow(c, &a, NULL);
}

/* Counters without a rule; with one: frames.c. */
static void counters(int arg)
{
	enum { POINTS = 32 };
	struct ibv_counters_init_attr a = { .comp_mask = 1 };
	struct ibv_counters *c;
	uint64_t values[POINTS];

	(void)arg;
	begin();
	want_null(ibv_create_counters(ctx, &a), EOPNOTSUPP);
	a.comp_mask = 0;
	c = ibv_create_counters(ctx, &a);
	want(c);
	want_eq(attach(c, IBV_COUNTER_BYTES + 1, 0, 0), ENOTSUP);
	want_eq(attach(c, IBV_COUNTER_BYTES, 0, 1), EINVAL);
	want_eq(attach(c, IBV_COUNTER_BYTES, POINTS, 0), EINVAL);
	for (uint32_t i = 0; i < POINTS; i++)
		want_eq(attach(c, IBV_COUNTER_PACKETS, i, 0), 0);
	want_eq(attach(c, IBV_COUNTER_PACKETS, 0, 0), ENOMEM);
	want_eq(ibv_read_counters(c, values, POINTS - 1, 0), EINVAL);
	want_eq(ibv_read_counters(c, values, POINTS, 2), EINVAL);
	want_eq(ibv_read_counters(c, values, POINTS, 0), 0);
	want_eq(values[POINTS - 1], 0);
	want_eq(ibv_destroy_counters(c), 0);
}

/* There is nothing to switch on, so it is never too late for it: not after a registration either,
 * which elsewhere makes it EINVAL. */
static void forking(int arg)
{
	(void)arg;
	begin();
	want_eq(ibv_fork_init(), 0);
	want_eq(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
}

static const struct test_case cases[] = {
	CASE_ARG(short_files, 0),
	CASE_ARG(short_files, 1),
	CASE(counters),
	CASE(forking),
	CASE(gid_table),
	CASE(ports_and_keys),
	CASE(posts_in_reset_and_init),
	CASE(lists_stop_at_the_first_that_fails),
	CASE(polling_by_the_extended_calls),
	CASE(driver_queue_pairs),
};

int main(void)
{
	return CASES_RUN(cases);
}
