// SPDX-License-Identifier: MIT
/* A program that replies to message after message, and then does not: the message that it leaves
 * without a reply is acknowledged all the same, whatever the program does instead. The first
 * argument is the network namespace of the host that replies (a path), the second one of
 *
 *	reply    it replies to the last one too
 *	poll     it polls on, and takes the message from its CQ
 *	spin     it spins on its memory, where the message is written
 *	away     it takes the message, and makes no call any more until it is told
 *	sleep    it sleeps for completions, always
 *	destroy  it takes the message and destroys its QP
 *	end      it takes the message and ends, with its QP alive; this is the only round
 *
 * The third is how many rounds of this there are. */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "verbs/peer.h"

enum { REPLIES = 6, RECEIVES = 16, BYTES = 8, LETTER = 4096 /* where the last one is written */ };

enum work { SENT, CAME };

static struct {
	const char *netns, *mode;
	unsigned int rounds;
	struct peer_dev dev;
	struct peer_ep ep;
	struct ibv_comp_channel *channel; /* NULL: it polls */
	struct ibv_mr *mr;
	volatile uint8_t *mem;
	int fd;
	unsigned int taken[2]; /* completions, by enum work */
} me;

static const struct peer_opts opts = { .type = IBV_QPT_RC,
				       .cap = { RECEIVES, RECEIVES, 1, 1, BYTES } };

static bool is(const char *mode)
{
	return !strcmp(me.mode, mode);
}

static void use_events(void)
{
	me.channel = ibv_create_comp_channel(me.dev.ctx);
	if (!me.channel)
		die("ibv_create_comp_channel");
}

static void create_ep(void)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .cap = opts.cap };

	if (!me.channel) {
		peer_ep_create(&me.dev, &opts, &me.ep);
		return;
	}
	me.ep.scq = me.ep.rcq = ibv_create_cq(me.dev.ctx, 2 * RECEIVES, NULL, me.channel, 0);
	attr.send_cq = attr.recv_cq = me.ep.scq;
	me.ep.qp = me.ep.scq ? ibv_create_qp(me.dev.pd, &attr) : NULL;
	if (!me.ep.qp)
		die("ibv_create_qp");
	me.ep.mine = (struct peer_addr){ .qpn = me.ep.qp->qp_num, .gid = me.dev.gid };
	if (ibv_req_notify_cq(me.ep.scq, 0))
		die("ibv_req_notify_cq");
}

static void start(bool events)
{
	peer_open(&me.dev);
	me.mem = peer_memory(2 * LETTER, false);
	me.mr = ibv_reg_mr(me.dev.pd, (void *)me.mem, 2 * LETTER,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (!me.mr)
		die("ibv_reg_mr");
	if (events)
		use_events();
}

static void connect_ep(void)
{
	struct ibv_sge sg = { (uintptr_t)me.mem, BYTES, me.mr->lkey };

	create_ep();
	me.ep.mine.va = (uintptr_t)me.mem + LETTER;
	me.ep.mine.rkey = me.mr->rkey;
	me.mem[LETTER] = 0;
	peer_ep_swap(me.fd, &me.ep);
	peer_connect(&me.ep, &opts);
	me.taken[SENT] = me.taken[CAME] = 0;
	for (int i = 0; i < RECEIVES; i++)
		peer_recv(&me.ep, CAME, &sg, 1);
	peer_sync(me.fd);
}

static void sleep_for_one(void)
{
	struct ibv_cq *cq;
	void *arg;

	if (ibv_get_cq_event(me.channel, &cq, &arg) || ibv_req_notify_cq(cq, 0))
		die("ibv_get_cq_event");
	ibv_ack_cq_events(cq, 1);
}

/* A completion of @which, now or earlier; any has to be a success. */
static void take(enum work which)
{
	struct ibv_wc wc;
	int n;

	while (!me.taken[which]) {
		n = ibv_poll_cq(me.ep.scq, 1, &wc);
		if (n < 0 || (n && wc.status != IBV_WC_SUCCESS))
			fail("a message fails: %s", n < 0 ? "no CQ" : ibv_wc_status_str(wc.status));
		if (n)
			me.taken[wc.wr_id]++;
		else if (me.channel)
			sleep_for_one();
	}
	me.taken[which]--;
}

static void post(bool write)
{
	uint8_t full[BYTES] = { 1 };
	struct ibv_sge sg = { (uintptr_t)full, BYTES, 0 };
	struct ibv_send_wr wr = { .wr_id = SENT,
				  .sg_list = &sg,
				  .num_sge = 1,
				  .opcode = write ? IBV_WR_RDMA_WRITE : IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE },
			   *bad;

	wr.wr.rdma.remote_addr = me.ep.theirs.va;
	wr.wr.rdma.rkey = me.ep.theirs.rkey;
	if (ibv_post_send(me.ep.qp, &wr, &bad))
		die("ibv_post_send");
}

static void ask(void)
{
	for (int i = 0; i < REPLIES; i++) {
		post(false);
		take(SENT);
		take(CAME);
	}
	post(is("spin"));
	take(SENT);
	if (is("reply"))
		take(CAME);
	if (!is("end"))
		peer_sync(me.fd);
}

static bool told(void)
{
	char c;

	return recv(me.fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
}

static void answer(void)
{
	for (int i = 0; i < REPLIES; i++) {
		take(CAME);
		post(false);
	}
	if (is("spin")) {
		while (!me.mem[LETTER])
			;
	} else {
		take(CAME);
	}
	if (is("reply"))
		post(false);
	if (is("destroy") || is("end"))
		return;
	while (is("poll") && !told())
		if (ibv_poll_cq(me.ep.rcq, 1, &(struct ibv_wc){ 0 }) < 0)
			die("ibv_poll_cq");
	peer_sync(me.fd);
}

static int far(int fd, void *arg)
{
	int netns = open(me.netns, O_RDONLY | O_CLOEXEC);

	(void)arg;
	if (netns < 0 || setns(netns, CLONE_NEWNET))
		die(me.netns);
	me.fd = fd;
	start(is("sleep"));
	for (unsigned int i = 0; i < me.rounds; i++) {
		connect_ep();
		answer();
		if (is("end"))
			return 0;
		peer_ep_destroy(&me.ep);
		if (is("destroy"))
			peer_sync(me.fd); /* the asker's */
		peer_sync(me.fd);
	}
	return 0;
}

int main(int argc, char **argv)
{
	pid_t pid;

	if (argc != 4) {
		fprintf(stderr, "usage: replies /proc/PID/ns/net MODE ROUNDS\n");
		return 2;
	}
	me.netns = argv[1];
	me.mode = argv[2];
	me.rounds = (unsigned int)strtoul(argv[3], NULL, 10);
	pid = peer_fork(far, NULL, &me.fd);
	start(false);
	for (unsigned int i = 0; i < me.rounds; i++) {
		connect_ep();
		ask();
		peer_ep_destroy(&me.ep);
		if (!is("end"))
			peer_sync(me.fd);
	}
	return peer_wait(pid);
}
