// SPDX-License-Identifier: MIT
/* Messages of services without answers for a process that is stopped. A WRITE of UC that nothing is
 * ahead of is there when it completes (docs/design/direct-access.md). One behind a SEND that the
 * process has not taken yet does not overtake that. Whoever sends more than there is room for waits
 * 5 seconds, and not for ever. */
#include <poll.h>
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

/* Takes the first SEND of a round, stops, takes the second, and waits for the WRITE behind it. A
 * query takes the queue pair's turn, so behind it the first is wholly done; a modify would too, but
 * it publishes the queue pair anew, and the next WRITE would go by the ring. */
static int far_side(int fd, void *arg)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
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
		want_eq(ibv_query_qp(e.ep.qp, &attr, IBV_QP_STATE, &init), 0);
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

enum { MANY = 20000, LONG = 2048, LAST = 77 };

static struct peer_opts many(enum ibv_qp_type type)
{
	return (struct peer_opts){ .type = type, .cap = { 64, 64, 1, 1, 0 }, .mtu = IBV_MTU_4096 };
}

struct one {
	struct peer_dev dev;
	struct peer_ep ep;
	struct ibv_mr *mr;
	uint32_t *word; /* of a message */
};

static void open_one(struct one *o, enum ibv_qp_type type, int fd)
{
	struct peer_opts opt = many(type);
	uint8_t *mem = peer_memory(PAGE, false);

	peer_open(&o->dev);
	o->mr = ibv_reg_mr(o->dev.pd, mem, PAGE, IBV_ACCESS_LOCAL_WRITE);
	want(o->mr);
	peer_ep_create(&o->dev, &opt, &o->ep);
	peer_ep_swap(fd, &o->ep);
	peer_connect(&o->ep, &opt);
	o->word = (uint32_t *)(void *)(mem + (type == IBV_QPT_UD ? 40 : 0));
}

/* Stops behind the first message; goes on until the last one comes. */
static int stops(int fd, void *arg)
{
	uint32_t none = 0;
	struct ibv_sge sg;
	struct ibv_wc wc;
	struct one o;

	open_one(&o, *(enum ibv_qp_type *)arg, fd);
	sg = (struct ibv_sge){ (uintptr_t)o.mr->addr, PAGE, o.mr->lkey };
	peer_recv(&o.ep, 0, &sg, 1);
	peer_swap(fd, &none, &none, sizeof(none));
	peer_poll_ok(o.ep.rcq, &wc);
	raise(SIGSTOP);
	do {
		peer_recv(&o.ep, 0, &sg, 1);
		peer_poll_ok(o.ep.rcq, &wc);
	} while (*o.word != LAST);
	peer_swap(fd, &none, &none, sizeof(none));
	return 0;
}

static void send_one(struct one *o, struct ibv_ah *ah, uint32_t word)
{
	struct ibv_sge sg = { (uintptr_t)o->mr->addr, LONG, o->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sg,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	struct ibv_wc wc;

	*(uint32_t *)o->mr->addr = word;
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = o->ep.theirs.qpn;
	wr.wr.ud.remote_qkey = 0x11111111;
	want_eq(ibv_post_send(o->ep.qp, &wr, &bad), 0);
	peer_poll_ok(o->ep.scq, &wc);
}

static void waits_5_seconds(int type)
{
	enum ibv_qp_type t = (enum ibv_qp_type)type;
	struct pollfd done = { .events = POLLIN };
	struct ibv_ah *ah = NULL;
	uint32_t none = 0;
	struct one o;
	int status;
	pid_t pid;

	pid = peer_fork(stops, &t, &done.fd);
	open_one(&o, t, done.fd);
	if (t == IBV_QPT_UD)
		ah = peer_ah(&o.dev, &o.ep.theirs);
	peer_swap(done.fd, &none, &none, sizeof(none));
	send_one(&o, ah, 0);
	want_eq(waitpid(pid, &status, WUNTRACED), pid);
	want(WIFSTOPPED(status));
	for (unsigned int i = 0; i < MANY; i++)
		send_one(&o, ah, 0);
	want_eq(kill(pid, SIGCONT), 0);
	do
		send_one(&o, ah, LAST);
	while (!poll(&done, 1, 0));
	peer_swap(done.fd, &none, &none, sizeof(none));
	want_eq(peer_wait(pid), 0);
}

static const struct test_case cases[] = {
	CASE(arrives_at_once_and_in_order),
	CASE_ARG(waits_5_seconds, IBV_QPT_UD),
	CASE_ARG(waits_5_seconds, IBV_QPT_UC),
};

int main(void)
{
	return CASES_RUN(cases);
}
