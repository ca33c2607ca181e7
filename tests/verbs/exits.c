// SPDX-License-Identifier: MIT
/* A program that ends with objects alive, by exit() or by returning from main(), as many do: what
 * it has taken was executed, and the sender hears so, as it would of hardware. */
#include <stdlib.h>
#include <unistd.h>
#include "verbs/cases.h"

enum { ROUNDS = 50, BYTES = 64 };
enum { TAKES, SEES, REPLIES };

static const struct peer_opts opts = {
	.type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, BYTES }, .timeout = 8, .retry = 1
};

struct end {
	struct peer_dev dev;
	struct peer_ep ep;
	struct ibv_mr *mr;
	uint8_t *mem;
};

static void begin(struct end *e, int fd)
{
	struct ibv_sge sg;

	peer_ep_create(&e->dev, &opts, &e->ep);
	e->ep.mine.va = (uintptr_t)e->mem;
	e->ep.mine.rkey = e->mr->rkey;
	peer_ep_swap(fd, &e->ep);
	peer_connect(&e->ep, &opts);
	sg = (struct ibv_sge){ (uintptr_t)e->mem, BYTES, e->mr->lkey };
	peer_recv(&e->ep, 1, &sg, 1);
	peer_sync(fd);
}

static void open_end(struct end *e)
{
	peer_open(&e->dev);
	e->mem = peer_memory(4096, false);
	e->mr = ibv_reg_mr(e->dev.pd, e->mem, 4096,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	want(e->mr);
}

static void post(struct end *e, enum ibv_wr_opcode opcode)
{
	struct ibv_sge sg = { (uintptr_t)e->mem + BYTES, BYTES, e->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sg,
				  .num_sge = 1,
				  .opcode = opcode,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	e->mem[BYTES] = 1;
	wr.wr.rdma.remote_addr = e->ep.theirs.va;
	wr.wr.rdma.rkey = e->ep.theirs.rkey;
	want_eq(ibv_post_send(e->ep.qp, &wr, &bad), 0);
}

static void take(struct end *e)
{
	struct ibv_wc wc;

	while (!ibv_poll_cq(e->ep.scq, 1, &wc))
		;
	want_eq(wc.status, IBV_WC_SUCCESS);
}

static int other(int fd, void *arg)
{
	struct end e;

	open_end(&e);
	begin(&e, fd);
	switch (*(int *)arg) {
	case TAKES:
		take(&e);
		break;
	case SEES:
		while (!*(volatile uint8_t *)e.mem)
			;
		break;
	case REPLIES:
		take(&e);
		post(&e, IBV_WR_SEND);
		take(&e);
		break;
	}
	return 0;
}

/* A process of its own, which forks before it has a thread: gcc's ASan does not let go of its
 * allocator's locks in a child, and the engine's thread may have one. */
static int round_of(int test, void *arg)
{
	int how = *(int *)arg, fd;
	pid_t pid = peer_fork(other, arg, &fd);
	struct end e;

	(void)test;
	open_end(&e);
	begin(&e, fd);
	post(&e, how == SEES ? IBV_WR_RDMA_WRITE : IBV_WR_SEND);
	take(&e);
	if (how == REPLIES)
		take(&e);
	want_eq(peer_wait(pid), 0);
	peer_ep_destroy(&e.ep);
	want_eq(ibv_dereg_mr(e.mr), 0);
	peer_close(&e.dev);
	close(fd);
	return 0;
}

static void it_was_taken(int how)
{
	for (int i = 0; i < ROUNDS; i++) {
		int fd;

		want_eq(peer_wait(peer_fork(round_of, &how, &fd)), 0);
		close(fd);
	}
}

static const struct test_case cases[] = {
	CASE_ARG(it_was_taken, TAKES),
	CASE_ARG(it_was_taken, SEES),
	CASE_ARG(it_was_taken, REPLIES),
};

int main(void)
{
	return CASES_RUN(cases);
}
