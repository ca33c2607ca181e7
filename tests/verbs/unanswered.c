// SPDX-License-Identifier: MIT
/* WRITEs of UC into the memory of a process that does nothing: it is stopped. One that nothing is
 * ahead of is there when it completes (docs/design/direct-access.md). One behind a SEND that the
 * process has not taken yet does not overtake that. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "verbs/cases.h"

enum { PAGE = 4096, SENDS = 2 /* a round */, SECONDS = 10 };

static const struct peer_opts opts = { .type = IBV_QPT_UC, .cap = { 8, 8, 1, 1, 0 } };

static volatile uint32_t *shared; /* the far side's memory, which the near side sees, too */

struct end {
	struct peer_dev dev;
	struct peer_ep ep;
	struct ibv_mr *mr, *target;
	uint8_t *mem;
};

static void open_end(struct end *e, int fd)
{
	peer_open(&e->dev);
	e->mem = peer_memory(PAGE, false);
	e->mr = ibv_reg_mr(e->dev.pd, e->mem, PAGE, IBV_ACCESS_LOCAL_WRITE);
	e->target = ibv_reg_mr(e->dev.pd, (void *)(uintptr_t)shared, PAGE,
			       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	want(e->mr && e->target);
	peer_ep_create(&e->dev, &opts, &e->ep);
	e->ep.mine.va = (uintptr_t)shared;
	e->ep.mine.rkey = e->target->rkey;
	peer_ep_swap(fd, &e->ep);
	peer_connect(&e->ep, &opts);
}

static void close_end(struct end *e)
{
	peer_ep_destroy(&e->ep);
	want_eq(ibv_dereg_mr(e->mr), 0);
	want_eq(ibv_dereg_mr(e->target), 0);
	peer_close(&e->dev);
	munmap(e->mem, PAGE);
}

static void take(struct end *e)
{
	struct ibv_wc wc;

	peer_poll_ok(e->ep.rcq, &wc);
}

/* Takes the first SEND of a round, stops, takes the second, and waits for the WRITE behind it. Only
 * with the queue pair's turn does modify know that the first is wholly done. */
static int far_side(int fd, void *arg)
{
	struct ibv_qp_attr again = { .qp_state = IBV_QPS_RTS };
	struct ibv_sge sg;
	uint32_t last, none = 0;
	struct end e;

	(void)arg;
	open_end(&e, fd);
	sg = (struct ibv_sge){ (uintptr_t)e.mem, 8, e.mr->lkey };
	for (;;) {
		for (int i = 0; i < SENDS; i++)
			peer_recv(&e.ep, 0, &sg, 1);
		peer_swap(fd, &none, &last, sizeof(last));
		if (!last)
			break;
		take(&e);
		want_eq(ibv_modify_qp(e.ep.qp, &again, IBV_QP_STATE), 0);
		raise(SIGSTOP);
		take(&e);
		while (*shared != last)
			;
	}
	close_end(&e);
	return 0;
}

static void post(struct end *e, enum ibv_wr_opcode opcode, uint32_t value)
{
	struct ibv_sge sg = { (uintptr_t)e->mem, sizeof(value), e->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sg,
				  .num_sge = 1,
				  .opcode = opcode,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	struct ibv_wc wc;

	memcpy(e->mem, &value, sizeof(value));
	wr.wr.rdma.remote_addr = e->ep.theirs.va;
	wr.wr.rdma.rkey = e->ep.theirs.rkey;
	want_eq(ibv_post_send(e->ep.qp, &wr, &bad), 0);
	peer_poll_ok(e->ep.scq, &wc);
}

/* Was the first WRITE there while the far side was stopped? */
static bool round_of(struct end *e, pid_t pid, int fd, uint32_t first)
{
	uint32_t last = first + 1, none;
	bool there;
	int status;

	peer_swap(fd, &last, &none, sizeof(last));
	post(e, IBV_WR_SEND, 0);
	want_eq(waitpid(pid, &status, WUNTRACED), pid);
	want(WIFSTOPPED(status));
	post(e, IBV_WR_RDMA_WRITE, first);
	there = *shared == first;
	post(e, IBV_WR_SEND, 0);
	post(e, IBV_WR_RDMA_WRITE, last);
	want(*shared != last);
	want_eq(kill(pid, SIGCONT), 0);
	return there;
}

/* Until the two processes know of each other that they may, WRITEs go by the ring. */
static void arrives_at_once_and_in_order(int unused)
{
	time_t end = time(NULL) + SECONDS;
	uint32_t value = 1, none = 0, theirs;
	bool there = false;
	struct end e;
	pid_t pid;
	int fd;

	(void)unused;
	shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	want(shared != MAP_FAILED);
	pid = peer_fork(far_side, NULL, &fd);
	open_end(&e, fd);
	for (; !there && time(NULL) < end; value += 2)
		there = round_of(&e, pid, fd, value);
	want(there);
	peer_swap(fd, &none, &theirs, sizeof(none));
	want_eq(peer_wait(pid), 0);
	close_end(&e);
	close(fd);
}

static const struct test_case cases[] = { CASE(arrives_at_once_and_in_order) };

int main(void)
{
	return CASES_RUN(cases);
}
