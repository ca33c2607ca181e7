// SPDX-License-Identifier: MIT
/* pthread_cancel at a network: what posts and polls ask of the kernel there, once for a packet or
 * once in a while, ends no thread, and the queue pair can be destroyed afterwards. One end of a
 * veth is ours, nobody is behind the other. Needs a network namespace that it may change. */
#include <stdlib.h>
#include <string.h>
#include "verbs/cancelled.h"
#include "verbs/ether.h"

enum { LEN = 64, QKEY = 0x11111111 };

static struct peer_dev dev;
static struct peer_ep ep;
static struct ibv_mr *mr;
static uint8_t memory[4096];
static bool through; /* the thread has come back from all its calls */

/* Before any case. */
static void make_net(void)
{
	static const char *const commands[] = {
		"ip link add softhca0 type veth peer name softhca1",
		"ip addr add 10.9.0.1/24 dev softhca0",
		"ip link set softhca1 up",
		"ip link set softhca0 up",
		"until ip -o link show softhca0 | grep -q 'state UP'; do :; done",
	};

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (system(commands[i]))
			fail("%s", commands[i]);
	want_eq(setenv("SOFTHCA_DEVICES", "mlx5_0=softhca0", 1), 0);
}

static void open_net(void)
{
	peer_open(&dev);
	mr = ibv_reg_mr(dev.pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	want(mr);
}

static void run_and_destroy(void *(*f)(void *), struct ibv_qp *qp)
{
	run_cancelled(f);
	want(through);
	want_eq(ibv_destroy_qp(qp), 0);
	want_eq(ibv_dereg_mr(mr), 0);
}

static bool post(struct ibv_qp *qp, struct ibv_ah *ah, enum ibv_wc_status status)
{
	struct ibv_sge sg = { (uintptr_t)memory, LEN, mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sg,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	struct ibv_wc wc;
	int got;

	if (ah) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = 0xffffff;
		wr.wr.ud.remote_qkey = QKEY;
	}
	if (ibv_post_send(qp, &wr, &bad))
		return false;
	do
		got = ibv_poll_cq(qp->send_cq, 1, &wc);
	while (!got);
	return got == 1 && wc.status == status;
}

/* --- frames --- */

static struct ether raw;

static void *sends_frames(void *arg)
{
	be_cancelled();
	for (int i = 0; i < 3; i++)
		if (!post(raw.qp, NULL, IBV_WC_SUCCESS))
			return arg;
	through = true;
	return arg;
}

static void frames_end_no_thread(int arg)
{
	(void)arg;
	open_net();
	ether_open(&dev, 0, &raw);
	memset(memory, 2, LEN); /* no frame of the interface to itself */
	run_and_destroy(sends_frames, raw.qp);
}

/* --- nobody answers --- */

static void connect_to_nobody(void)
{
	static const struct peer_opts o = { .type = IBV_QPT_RC,
					    .mtu = IBV_MTU_1024,
					    .cap = { 4, 4, 1, 1, 0 },
					    .timeout = 8,
					    .retry = 1 };

	peer_ep_create(&dev, &o, &ep);
	ep.theirs = ep.mine;
	ep.theirs.gid.raw[15] = 9;
	peer_connect(&ep, &o);
}

static void *gives_up(void *arg)
{
	be_cancelled();
	through = post(ep.qp, NULL, IBV_WC_RETRY_EXC_ERR);
	return arg;
}

static void silence_ends_no_thread(int arg)
{
	(void)arg;
	open_net();
	connect_to_nobody();
	run_and_destroy(gives_up, ep.qp);
}

/* --- groups --- */

static void open_datagrams(void)
{
	static const struct peer_opts o = { .type = IBV_QPT_UD,
					    .qkey = QKEY,
					    .cap = { 4, 4, 1, 1, 0 } };

	peer_ep_create(&dev, &o, &ep);
	peer_connect(&ep, &o);
}

static struct ibv_ah *group;

static void *sends_to_group(void *arg)
{
	be_cancelled();
	through = post(ep.qp, group, IBV_WC_SUCCESS);
	return arg;
}

static void groups_end_no_thread(int arg)
{
	static const union ibv_gid to = { .raw = { [10] = 0xff, 0xff, 239, 1, 2, 3 } };
	struct ibv_ah_attr a = { .is_global = 1, .port_num = 1 };

	(void)arg;
	open_net();
	open_datagrams();
	a.grh.dgid = to;
	a.grh.sgid_index = PEER_GID_INDEX;
	a.grh.hop_limit = 1;
	group = ibv_create_ah(dev.pd, &a);
	want(group);
	run_and_destroy(sends_to_group, ep.qp);
	want_eq(ibv_destroy_ah(group), 0);
}

static const struct test_case list[] = {
	CASE(frames_end_no_thread),
	CASE(silence_ends_no_thread),
	CASE(groups_end_no_thread),
};

int main(void)
{
	make_net();
	return CASES_RUN(list);
}
