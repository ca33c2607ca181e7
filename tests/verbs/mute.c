// SPDX-License-Identifier: MIT
/* A peer of the same host that takes what is sent and answers nothing: all that it says is lost on
 * the way, but its process lives and its ring is read. Each work request ends by the QP's ordinary
 * timeout and retries. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include "verbs/cases.h"

enum { LEN = 64, WORK = 4, PATIENCE_MS = 60000 };

static const struct peer_opts opts = {
	.type = IBV_QPT_RC, .cap = { WORK, WORK, 1, 1, 0 }, .timeout = 8, .retry = 1
};

struct side {
	struct peer_dev dev;
	struct peer_ep ep;
	struct ibv_mr *mr;
	uint8_t memory[4096];
};

static void open_side(struct side *s, int fd)
{
	struct ibv_sge sg;

	peer_open(&s->dev);
	s->mr = ibv_reg_mr(s->dev.pd, s->memory, sizeof(s->memory),
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	want(s->mr);
	peer_ep_create(&s->dev, &opts, &s->ep);
	s->ep.mine.va = (uintptr_t)s->memory;
	s->ep.mine.rkey = s->mr->rkey;
	peer_ep_swap(fd, &s->ep);
	peer_connect(&s->ep, &opts);
	sg = (struct ibv_sge){ (uintptr_t)s->memory, LEN, s->mr->lkey };
	for (uint64_t i = 0; i < WORK; i++)
		peer_recv(&s->ep, 100 + i, &sg, 1);
	peer_sync(fd);
}

/* *@arg: it polls. Else its engine alone takes what comes. */
static int mute(int fd, void *arg)
{
	struct side *s = calloc(1, sizeof(*s));
	bool polls = *(int *)arg;
	struct ibv_wc wc;
	char end;

	want(s);
	want_eq(setenv("SOFTHCA_FAULT", "loss=100%", 1), 0);
	open_side(s, fd);
	if (polls)
		for (;;) /* it is killed */
			ibv_poll_cq(s->ep.rcq, 1, &wc);
	want_eq(read(fd, &end, 1), 0); /* the other side has closed */
	return 0;
}

static void post(struct side *s, uint64_t id, enum ibv_wr_opcode op)
{
	struct ibv_sge sg = { (uintptr_t)s->memory, LEN, s->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = id,
				  .sg_list = &sg,
				  .num_sge = 1,
				  .opcode = op,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	wr.wr.rdma.remote_addr = s->ep.theirs.va;
	wr.wr.rdma.rkey = s->ep.theirs.rkey;
	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		sg.length = 8;
		wr.wr.atomic.remote_addr = s->ep.theirs.va;
		wr.wr.atomic.rkey = s->ep.theirs.rkey;
		wr.wr.atomic.compare_add = 1;
	}
	want_eq(ibv_post_send(s->ep.qp, &wr, &bad), 0);
}

/* The first ends by RETRY_EXC, those behind it are flushed. */
static void all_end(struct side *s)
{
	struct ibv_wc wc;

	for (uint64_t i = 0; i < WORK; i++) {
		want(peer_poll(s->ep.scq, &wc, PATIENCE_MS));
		if (wc.wr_id >= 100) {
			i--; /* a receive: the QP is in ERR */
			continue;
		}
		want_eq(wc.wr_id, i);
		want_eq(wc.status, i ? IBV_WC_WR_FLUSH_ERR : IBV_WC_RETRY_EXC_ERR);
	}
}

static void silence_ends(int polls)
{
	static const enum ibv_wr_opcode ops[WORK] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE,
						      IBV_WR_RDMA_READ,
						      IBV_WR_ATOMIC_FETCH_AND_ADD };
	struct side *s = calloc(1, sizeof(*s));
	pid_t pid;
	int fd;

	want(s);
	pid = peer_fork(mute, &polls, &fd);
	open_side(s, fd);
	for (uint64_t i = 0; i < WORK; i++)
		post(s, i, ops[i]);
	all_end(s);
	close(fd);
	kill(pid, SIGKILL);
	peer_wait(pid);
}

static const struct test_case cases[] = {
	CASE_ARG(silence_ends, 0),
	CASE_ARG(silence_ends, 1),
};

int main(void)
{
	return CASES_RUN(cases);
}
