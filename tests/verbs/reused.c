// SPDX-License-Identifier: MIT
/* A work request of UC is complete when it is sent, and then its buffer is the program's again. The
 * far side is stopped meanwhile, so that it gets what the near side's program writes there next, if
 * anything but the ring refers to the buffer. */
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "verbs/cases.h"

enum { SIZE = 64 << 10, ROUNDS = 12, OLD = 0x11, NEW = 0x77, DONE = 0 };

static const struct peer_opts opts = { .type = IBV_QPT_UC, .cap = { 8, 8, 1, 1, 0 } };

struct end {
	struct peer_dev dev;
	struct peer_ep ep;
	struct ibv_mr *mr;
	uint8_t *mem;
};

static void open_end(struct end *e, int fd)
{
	peer_open(&e->dev);
	e->mem = peer_memory(SIZE, false);
	e->mr = ibv_reg_mr(e->dev.pd, e->mem, SIZE,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	want(e->mr);
	peer_ep_create(&e->dev, &opts, &e->ep);
	e->ep.mine.va = (uintptr_t)e->mem;
	e->ep.mine.rkey = e->mr->rkey;
	peer_ep_swap(fd, &e->ep);
	peer_connect(&e->ep, &opts);
}

static void close_end(struct end *e)
{
	peer_ep_destroy(&e->ep);
	want_eq(ibv_dereg_mr(e->mr), 0);
	peer_close(&e->dev);
	munmap(e->mem, SIZE);
}

/* Takes a short message, stops, and takes the long one. */
static int far_side(int fd, void *arg)
{
	uint32_t len, none = 0;
	struct ibv_sge sg;
	struct ibv_wc wc;
	struct end e;

	(void)arg;
	open_end(&e, fd);
	sg = (struct ibv_sge){ (uintptr_t)e.mem, SIZE, e.mr->lkey };
	for (;;) {
		peer_recv(&e.ep, 0, &sg, 1);
		peer_recv(&e.ep, 1, &sg, 1);
		peer_swap(fd, &none, &len, sizeof(len));
		if (len == DONE)
			break;
		peer_poll_ok(e.ep.rcq, &wc);
		raise(SIGSTOP);
		peer_poll_ok(e.ep.rcq, &wc);
		want_eq(wc.byte_len, len);
		for (uint32_t i = 0; i < len; i++)
			want_eq(e.mem[i], OLD);
		memset(e.mem, 0, SIZE);
	}
	close_end(&e);
	return 0;
}

static void post(struct end *e, enum ibv_wr_opcode opcode, uint32_t len)
{
	struct ibv_sge sg = { (uintptr_t)e->mem, len, e->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sg,
				  .num_sge = 1,
				  .opcode = opcode,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	struct ibv_wc wc;

	wr.wr.rdma.remote_addr = e->ep.theirs.va;
	wr.wr.rdma.rkey = e->ep.theirs.rkey;
	want_eq(ibv_post_send(e->ep.qp, &wr, &bad), 0);
	peer_poll_ok(e->ep.scq, &wc);
}

static void one_round(struct end *e, pid_t pid, enum ibv_wr_opcode opcode, uint32_t len)
{
	int status;

	post(e, IBV_WR_SEND, 1);
	want_eq(waitpid(pid, &status, WUNTRACED), pid);
	want(WIFSTOPPED(status));
	memset(e->mem, OLD, len);
	post(e, opcode, len);
	memset(e->mem, NEW, len);
	want_eq(kill(pid, SIGCONT), 0);
}

/* Payload of all sizes that are not put into a record with their header, but fit into the ring. */
static void complete_is_given_back(int opcode)
{
	static const uint32_t lens[] = { 9000, 20000, 40000 };
	uint32_t none = DONE, theirs;
	struct end e;
	pid_t pid;
	int fd;

	pid = peer_fork(far_side, NULL, &fd);
	open_end(&e, fd);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		uint32_t len = lens[i % 3];

		peer_note("round %u, %u B", i, len);
		peer_swap(fd, &len, &theirs, sizeof(len));
		one_round(&e, pid, (enum ibv_wr_opcode)opcode, len);
	}
	peer_swap(fd, &none, &theirs, sizeof(none));
	want_eq(peer_wait(pid), 0);
	close_end(&e);
	close(fd);
}

static const struct test_case cases[] = {
	CASE_ARG(complete_is_given_back, IBV_WR_SEND),
	CASE_ARG(complete_is_given_back, IBV_WR_RDMA_WRITE_WITH_IMM),
};

int main(void)
{
	return CASES_RUN(cases);
}
