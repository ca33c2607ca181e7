// SPDX-License-Identifier: MIT
/* Sends datagrams, or messages of a DC initiator, to another host by address handles that have a
 * flow label. The first argument is that host's network namespace (a path), the second one "ud" or
 * "dc". The address vector of the second datagram names another port, WISH; the handle of the
 * second message has another label. */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include "mlx5dv/dc_duo.h"
#include "mlx5dv/hand.h"

enum { LABEL = 0xabcde, LABELS_PORT = 0xfcf4, WISH = 0xf234, QKEY = 0x11111111, DATAGRAMS = 2 };
enum { OTHER_LABEL = 0x2004 }; /* whose port is 0xe004: without a wish it has the socket of LABEL */

static struct ibv_ah *labelled(const struct peer_dev *d, union ibv_gid to, uint32_t label)
{
	struct ibv_ah_attr attr = { .is_global = 1,
				    .port_num = 1,
				    .grh = { .dgid = to,
					     .flow_label = label,
					     .sgid_index = peer_gid_index,
					     .hop_limit = 64 } };
	struct ibv_ah *ah = ibv_create_ah(d->pd, &attr);

	if (!ah)
		die("ibv_create_ah");
	return ah;
}

static void meet(struct hand *h, int fd)
{
	static const struct peer_opts o = { .type = IBV_QPT_UD };

	open_memory();
	endpoint(h, IBV_QPT_UD, NULL);
	peer_ep_swap(fd, &h->ep);
	peer_connect(&h->ep, &o);
}

static int receives(int fd, void *netns)
{
	int ns = open(netns, O_RDONLY | O_CLOEXEC);

	if (ns < 0 || setns(ns, CLONE_NEWNET))
		die(netns);
	meet(&b, fd);
	for (int i = 0; i < DATAGRAMS; i++)
		hand_recv(&b);
	peer_sync(fd);
	for (uint32_t i = 0; i < DATAGRAMS; i++)
		received_ok(&b, LEN + 40, i);
	return 0;
}

static int datagrams(char *netns)
{
	struct mlx5dv_ah of;
	struct mlx5dv_obj obj = { .ah = { .out = &of } };
	struct mlx5_wqe_av av;
	int fd;
	pid_t pid = peer_fork(receives, netns, &fd);

	meet(&a, fd);
	obj.ah.in = labelled(&dev, a.ep.theirs.gid, LABEL);
	want_eq(mlx5dv_init_obj(&obj, MLX5DV_OBJ_AH), 0);
	av = *of.av;
	want_eq(be16toh(av.rlid), LABELS_PORT);
	av.dqp_dct |= htobe32(a.ep.theirs.qpn);
	av.key.qkey.qkey = htobe32(QKEY);
	peer_sync(fd);
	for (uint32_t i = 0; i < DATAGRAMS; i++) {
		uint16_t at = a.sent;

		announce(&a, write_send(&a, &av, MLX5_WQE_CTRL_CQ_UPDATE, i));
		sent_ok(&a, at);
		av.rlid = htobe16(WISH);
	}
	want_eq(ibv_destroy_ah(obj.ah.in), 0);
	return peer_wait(pid);
}

static int connections(const char *netns)
{
	static struct dc_duo d;

	dc_far = netns;
	dc_open(&d, 1);
	for (uint64_t i = 0; i < 2; i++) {
		want_eq(ibv_destroy_ah(d.ah), 0);
		d.ah = labelled(&d.dev, d.to[0].gid, i ? OTHER_LABEL : LABEL);
		dc_tell(&d, (struct dc_order){ DC_RECV, .len = 8 });
		dc_post(&d, &d.i, IBV_WR_SEND, 0, 8, i);
		dc_done(&d.i, i);
	}
	dc_close(&d);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: source_port /proc/PID/ns/net ud|dc\n");
		return 2;
	}
	return strcmp(argv[2], "dc") ? datagrams(argv[1]) : connections(argv[1]);
}
