// SPDX-License-Identifier: MIT
/* Sends one short message and one of PACKETS packets to a host that has posted RECEIVES receives,
 * on a queue pair that mlx5dv_create_qp() has made. The first argument is that host's network
 * namespace (a path), the second one "messages" or "packets": what takes a credit there. */
#include <fcntl.h>
#include <infiniband/mlx5dv.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include "verbs/peer.h"

enum { RECEIVES = 3, PACKETS = 16, MTU = 1024, SHORT = 8, LONG = PACKETS * MTU };

static struct {
	const char *netns;
	uint32_t flags; /* MLX5DV_QP_CREATE_* */
	struct peer_dev dev;
	struct peer_ep ep;
	struct ibv_mr *mr;
	uint8_t *mem;
	int fd;
} me;

static const struct peer_opts opts = { .type = IBV_QPT_RC, .mtu = IBV_MTU_1024 };

static void start(void)
{
	struct mlx5dv_qp_init_attr dv = { .comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS,
					  .create_flags = me.flags };
	struct ibv_qp_init_attr_ex a = { .qp_type = IBV_QPT_RC,
					 .cap = { RECEIVES, RECEIVES, 1, 1, 0 },
					 .comp_mask = IBV_QP_INIT_ATTR_PD };

	peer_open(&me.dev);
	me.mem = peer_memory(LONG, false);
	me.mr = ibv_reg_mr(me.dev.pd, me.mem, LONG, IBV_ACCESS_LOCAL_WRITE);
	a.pd = me.dev.pd;
	a.send_cq = a.recv_cq = me.ep.scq = me.ep.rcq =
		ibv_create_cq(me.dev.ctx, 2 * RECEIVES, NULL, NULL, 0);
	me.ep.qp = mlx5dv_create_qp(me.dev.ctx, &a, &dv);
	if (!me.mr || !me.ep.qp)
		die("mlx5dv_create_qp");
	me.ep.mine = (struct peer_addr){ .qpn = me.ep.qp->qp_num, .psn = 7, .gid = me.dev.gid };
	peer_ep_swap(me.fd, &me.ep);
	peer_connect(&me.ep, &opts);
}

static void completes(void)
{
	struct ibv_wc wc;

	if (!peer_poll(me.ep.scq, &wc, 20000))
		fail("no completion");
	if (wc.status != IBV_WC_SUCCESS)
		fail("%s", ibv_wc_status_str(wc.status));
}

static void sends(uint32_t len)
{
	struct ibv_sge sg = { (uintptr_t)me.mem, len, me.mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sg,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	if (ibv_post_send(me.ep.qp, &wr, &bad))
		die("ibv_post_send");
	completes();
}

static int far(int fd, void *arg)
{
	int netns = open(me.netns, O_RDONLY | O_CLOEXEC);
	struct ibv_sge sg;

	(void)arg;
	if (netns < 0 || setns(netns, CLONE_NEWNET))
		die(me.netns);
	me.fd = fd;
	start();
	sg = (struct ibv_sge){ (uintptr_t)me.mem, LONG, me.mr->lkey };
	for (int i = 0; i < RECEIVES; i++)
		peer_recv(&me.ep, 0, &sg, 1);
	peer_sync(me.fd);
	completes();
	completes();
	peer_sync(me.fd);
	return 0;
}

int main(int argc, char **argv)
{
	pid_t pid;

	if (argc != 3) {
		fprintf(stderr, "usage: credits /proc/PID/ns/net messages|packets\n");
		return 2;
	}
	me.netns = argv[1];
	if (!strcmp(argv[2], "packets"))
		me.flags = MLX5DV_QP_CREATE_PACKET_BASED_CREDIT_MODE;
	pid = peer_fork(far, NULL, &me.fd);
	start();
	peer_sync(me.fd);
	sends(SHORT);
	sends(LONG);
	peer_sync(me.fd);
	return peer_wait(pid);
}
