// SPDX-License-Identifier: MIT
/* Two processes meet, and one system call of their handshake fails: recvmsg or sendmsg, the first,
 * the second, and so on, on either side. Both send and hear of it, with any timeout. */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "verbs/cases.h"

enum { LEN = 64, CALLS = 6, PATIENCE_MS = 60000 };

static int countdown; /* the call that fails is the one that finds 1; atomic */
static bool receives; /* recvmsg() fails, else sendmsg(); atomic */

static bool fails(bool receiving, int fd)
{
	int type = 0;
	socklen_t len = sizeof(type);

	if (__atomic_load_n(&receives, __ATOMIC_RELAXED) != receiving)
		return false;
	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) || type != SOCK_SEQPACKET)
		return false;
	return __atomic_fetch_sub(&countdown, 1, __ATOMIC_RELAXED) == 1;
}

/* In place of the C library's, for the libraries, too: so they are not hidden. */
#pragma GCC visibility push(default)
ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	if (fails(true, fd)) {
		errno = ENOMEM;
		return -1;
	}
	return syscall(SYS_recvmsg, fd, m, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	if (fails(false, fd)) {
		errno = ENOBUFS;
		return -1;
	}
	return syscall(SYS_sendmsg, fd, m, flags);
}
#pragma GCC visibility pop

struct side {
	struct peer_dev dev;
	struct peer_ep ep;
	struct ibv_mr *mr;
	uint8_t memory[4096];
};

struct ask {
	bool child; /* the child's call fails, else the parent's */
	bool receives;
	int call;
};

static void open_side(struct side *s, int fd, const struct ask *ask, bool mine)
{
	/* A try takes hours: another way is found without one when the first is dead. */
	const struct peer_opts opts = {
		.type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 }, .timeout = 31, .retry = 7
	};
	struct ibv_sge sg;

	peer_open(&s->dev);
	s->mr = ibv_reg_mr(s->dev.pd, s->memory, sizeof(s->memory), IBV_ACCESS_LOCAL_WRITE);
	want(s->mr);
	peer_ep_create(&s->dev, &opts, &s->ep);
	if (mine) { /* before the other side can begin */
		__atomic_store_n(&receives, ask->receives, __ATOMIC_RELAXED);
		__atomic_store_n(&countdown, ask->call, __ATOMIC_RELAXED);
	}
	peer_ep_swap(fd, &s->ep);
	peer_connect(&s->ep, &opts);
	sg = (struct ibv_sge){ (uintptr_t)s->memory, LEN, s->mr->lkey };
	peer_recv(&s->ep, 1, &sg, 1);
	peer_sync(fd);
}

static void send_and_hear(struct side *s)
{
	struct ibv_sge sg = { (uintptr_t)s->memory + LEN, LEN, s->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 2,
				  .sg_list = &sg,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	struct ibv_wc wc;

	want_eq(ibv_post_send(s->ep.qp, &wr, &bad), 0);
	for (int i = 0; i < 2; i++) {
		want(peer_poll(s->ep.scq, &wc, PATIENCE_MS));
		want_eq(wc.status, IBV_WC_SUCCESS);
	}
}

/* No call after the first need be made at all. */
static void has_failed(const struct ask *ask)
{
	if (ask->call == 1)
		want(__atomic_load_n(&countdown, __ATOMIC_RELAXED) < 1);
}

static int far_side(int fd, void *arg)
{
	const struct ask *ask = arg;
	struct side *s = calloc(1, sizeof(*s));

	want(s);
	peer_note("far side");
	open_side(s, fd, ask, ask->child);
	send_and_hear(s);
	if (ask->child)
		has_failed(ask);
	peer_sync(fd);
	return 0;
}

static void meet(struct ask ask)
{
	struct side *s = calloc(1, sizeof(*s));
	pid_t pid;
	int fd;

	want(s);
	peer_note("call %d of %s fails on the %s side", ask.call,
		  ask.receives ? "recvmsg" : "sendmsg", ask.child ? "far" : "near");
	pid = peer_fork(far_side, &ask, &fd);
	open_side(s, fd, &ask, !ask.child);
	send_and_hear(s);
	if (!ask.child)
		has_failed(&ask);
	peer_sync(fd);
	want_eq(peer_wait(pid), 0);
	close(fd);
}

static void a_failed_call_loses_nothing(int arg)
{
	meet((struct ask){ .child = arg & 1, .receives = arg & 2, .call = arg / 4 % CALLS + 1 });
}

#define CALL(n)                                                                                    \
	CASE_ARG(a_failed_call_loses_nothing, 4 * (n)),                                            \
		CASE_ARG(a_failed_call_loses_nothing, 4 * (n) + 1),                                \
		CASE_ARG(a_failed_call_loses_nothing, 4 * (n) + 2),                                \
		CASE_ARG(a_failed_call_loses_nothing, 4 * (n) + 3)

static const struct test_case cases[] = { CALL(0), CALL(1), CALL(2), CALL(3), CALL(4), CALL(5) };

int main(void)
{
	return CASES_RUN(cases);
}
