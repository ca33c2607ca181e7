// SPDX-License-Identifier: MIT
/* nth [NAMESPACE]: the far side's network namespace is that of this file (tests/wire/nth.py); else
 * both are on one host.
 * Two processes open a device, connect, exchange messages and give everything back; one call for a
 * resource fails: in the first run the first, in the second the second, and so on (failing.h). What
 * was refused works when it is asked for again, every work request completes, the bytes are right,
 * and in the end nothing is held that is not held when nothing fails. A queue pair that has no
 * memory to remember its sends ends by an error: of one such call, whose number may shift. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include "verbs/cases.h"
#include "verbs/failing.h"

static const char *far_net; /* a file; NULL: that of the near side */
static unsigned long seed; /* says which calls a sample has */

enum { PARTS = 3, LEN = 64 << 10, ROUNDS = 3, CALLS_MIN = 24, PATIENCE_MS = 60000 };
enum { ENDED = 9 /* exit status: by a completion with an error */, ENDS_MAX = 2 };

struct side {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct peer_addr mine, theirs;
	uint8_t *memory; /* what is sent, what is received, what is read */
};

/* What came of a run; the process that asked sees it. */
static struct outcome {
	long counted, fds, blocks;
} * outcome;

struct ask {
	enum failing_kind kind;
	long n; /* 0: nothing fails */
	struct outcome most; /* what may be left then */
};

/* What may be refused once. */
#define TWICE(done)                                                                                \
	do {                                                                                       \
		if (!(done) && !(done))                                                            \
			fail("%s:%d: refused twice: %s: %s", __FILE__, __LINE__, #done,            \
			     strerror(errno));                                                     \
	} while (0)

static long descriptors(void)
{
	long n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += poll(&(struct pollfd){ .fd = fd }, 1, 0) == 0;
	return n;
}

static struct ibv_context *opened(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;

	if (list)
		ibv_free_device_list(list);
	return ctx;
}

static struct ibv_qp *made(const struct side *s)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC,
					 .cap = { 16, 16, 1, 1, 0 },
					 .send_cq = s->cq,
					 .recv_cq = s->cq };

	return ibv_create_qp(s->pd, &attr);
}

static void set_up(struct side *s)
{
	TWICE(s->ctx = opened());
	TWICE(s->pd = ibv_alloc_pd(s->ctx));
	TWICE(!ibv_query_gid(s->ctx, 1, peer_gid_index, &s->mine.gid));
	TWICE(s->mr = ibv_reg_mr(s->pd, s->memory, 3 * LEN,
				 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ));
	TWICE(s->channel = ibv_create_comp_channel(s->ctx));
	TWICE(s->cq = ibv_create_cq(s->ctx, 64, NULL, s->channel, 0));
	TWICE(s->qp = made(s));
	s->mine.qpn = s->qp->qp_num;
	s->mine.psn = s->qp->qp_num & 0xffffff;
	s->mine.va = (uintptr_t)s->memory;
	s->mine.rkey = s->mr->rkey;
}

static bool moved(struct side *s, struct ibv_qp_attr a, int mask)
{
	return !ibv_modify_qp(s->qp, &a, mask | IBV_QP_STATE);
}

static void connect_to(struct side *s)
{
	const struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT,
					  .port_num = 1,
					  .qp_access_flags = IBV_ACCESS_REMOTE_READ };
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR,
				   .path_mtu = IBV_MTU_4096,
				   .dest_qp_num = s->theirs.qpn,
				   .rq_psn = s->theirs.psn,
				   .max_dest_rd_atomic = 1,
				   .min_rnr_timer = 12,
				   .ah_attr = { .is_global = 1, .port_num = 1 } };
	const struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS,
					 .sq_psn = s->mine.psn,
					 .timeout = far_net ? 14 : 18,
					 .retry_cnt = 7,
					 .rnr_retry = 7,
					 .max_rd_atomic = 1 };

	rtr.ah_attr.grh.dgid = s->theirs.gid;
	rtr.ah_attr.grh.sgid_index = peer_gid_index;
	rtr.ah_attr.grh.hop_limit = 64;
	TWICE(moved(s, init, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	TWICE(moved(s, rtr,
		    IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	TWICE(moved(s, rts,
		    IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			    IBV_QP_MAX_QP_RD_ATOMIC));
}

static bool posted_recv(struct side *s)
{
	struct ibv_sge sg = { (uintptr_t)s->memory + LEN, LEN, s->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sg, .num_sge = 1 }, *bad;

	return !ibv_post_recv(s->qp, &wr, &bad);
}

static bool posted(struct side *s, enum ibv_wr_opcode opcode, uint32_t len)
{
	struct ibv_sge sg = { (uintptr_t)s->memory, len, s->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sg,
				  .num_sge = 1,
				  .opcode = opcode,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	if (opcode == IBV_WR_RDMA_READ) {
		sg.addr += 2 * (uint64_t)LEN;
		wr.wr.rdma.remote_addr = s->theirs.va;
		wr.wr.rdma.rkey = s->theirs.rkey;
	}
	return !ibv_post_send(s->qp, &wr, &bad);
}

static void look_at(const struct ibv_wc *wc)
{
	if (wc->status && failing_name())
		_exit(ENDED);
	if (wc->status)
		fail("completion: %s, vendor_err 0x%x", ibv_wc_status_str(wc->status),
		     wc->vendor_err);
}

static void finish(struct side *s, int n)
{
	struct ibv_wc wc;

	for (int i = 0; i < n; i++) {
		if (!peer_poll(s->cq, &wc, PATIENCE_MS))
			fail("no completion");
		look_at(&wc);
	}
}

/* As finish(1), by the channel. */
static void finish_by_event(struct side *s)
{
	struct pollfd p = { .fd = s->channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *ctx;

	TWICE(!ibv_req_notify_cq(s->cq, 0));
	if (ibv_poll_cq(s->cq, 1, &wc) == 1) {
		look_at(&wc);
		return;
	}
	if (poll(&p, 1, PATIENCE_MS) != 1)
		fail("no event");
	TWICE(!ibv_get_cq_event(s->channel, &cq, &ctx));
	ibv_ack_cq_events(cq, 1);
	finish(s, 1);
}

static void exchange(struct side *s, int fd, bool near)
{
	for (int i = 0; i < ROUNDS; i++) {
		uint32_t len = i ? LEN : 64;

		pattern_fill(s->memory, len, i + 10 * near, 0);
		TWICE(posted_recv(s));
		peer_sync(fd);
		TWICE(posted(s, IBV_WR_SEND, len));
		finish(s, 2);
		want_eq(pattern_check(s->memory + LEN, len, i + 10 * !near, 0), len);
		TWICE(posted(s, IBV_WR_RDMA_READ, len));
		finish_by_event(s);
		want_eq(pattern_check(s->memory + 2 * LEN, len, i + 10 * !near, 0), len);
		peer_sync(fd);
	}
}

static void tear_down(struct side *s)
{
	want_eq(ibv_destroy_qp(s->qp), 0);
	want_eq(ibv_destroy_cq(s->cq), 0);
	want_eq(ibv_destroy_comp_channel(s->channel), 0);
	want_eq(ibv_dereg_mr(s->mr), 0);
	want_eq(ibv_dealloc_pd(s->pd), 0);
	want_eq(ibv_close_device(s->ctx), 0);
}

static void work(int fd, bool near)
{
	struct side s = { .memory = calloc(3, LEN) };

	want(s.memory);
	set_up(&s);
	peer_swap(fd, &s.mine, &s.theirs, sizeof(s.mine));
	connect_to(&s);
	peer_sync(fd);
	exchange(&s, fd, near);
	tear_down(&s);
	free(s.memory);
}

static int far_side(int fd, void *arg)
{
	(void)arg;
	peer_note("far side");
	if (far_net)
		want_eq(setns(open(far_net, O_RDONLY | O_CLOEXEC), CLONE_NEWNET), 0);
	work(fd, false);
	peer_sync(fd);
	return 0;
}

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* The engine's thread gives back what it had for the far side. */
static void settle(long most_fds, long most_blocks)
{
	long end = now_ms() + PATIENCE_MS / 4;

	while ((descriptors() > most_fds || failing_blocks() > most_blocks) && now_ms() < end)
		sched_yield();
	outcome->fds = descriptors();
	outcome->blocks = failing_blocks();
}

/* In a process of its own. */
static int one_run(int fd, void *arg)
{
	const struct ask *ask = arg;
	long fds;
	pid_t pid;
	int far;

	peer_note("run %ld", ask->n);
	pid = peer_fork(far_side, NULL, &far);
	failing_begin(ask->kind, ask->n);
	work(far, true);
	outcome->counted = failing_end();
	if (failing_name())
		peer_note("run %ld: %s failed", ask->n, failing_name());
	fds = descriptors();
	peer_sync(far);
	want_eq(peer_wait(pid), 0);
	close(far);
	if (ask->n)
		settle(ask->most.fds, ask->most.blocks);
	else
		/* without @far, and less of the contact */
		settle(fds - (far_net ? 1 : 2), LONG_MAX);
	close(fd);
	return 0;
}

/* False: its queue pair has ended by an error. */
static bool run(struct ask ask)
{
	int fd;
	pid_t pid = peer_fork(one_run, &ask, &fd);
	int status = peer_wait(pid);

	close(fd);
	if (status && status != ENDED)
		fail("run %ld: exit status %d", ask.n, status);
	return !status;
}

/* In PARTS cases, each of which may take a minute. Between hosts each run takes longer: of a part
 * one run in PARTS, another one each time, unless all are asked for. */
static long step(void)
{
	return far_net && !cases_full() ? PARTS * PARTS : PARTS;
}

static void each_fails_once(int arg)
{
	const int kind = arg % FAILING_KINDS, part = arg / FAILING_KINDS;
	struct outcome whole;
	long ends = 0, n = 1 + part;

	outcome = mmap(NULL, sizeof(*outcome), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	want(outcome != MAP_FAILED);
	run((struct ask){ .kind = kind });
	whole = *outcome;
	want(whole.counted >= CALLS_MIN);
	if (step() > PARTS)
		n += (long)(seed % PARTS) * PARTS;
	for (; n <= whole.counted; n += step()) {
		if (!run((struct ask){ kind, n, whole }))
			want(++ends <= ENDS_MAX);
		else if (outcome->fds > whole.fds || outcome->blocks > whole.blocks)
			fail("run %ld: %ld descriptors and %ld blocks are left, else %ld and %ld",
			     n, outcome->fds, outcome->blocks, whole.fds, whole.blocks);
	}
}

/* What lets go needs nothing: whatever is refused, the queue pair leaves its group. */
static void detaching_is_not_refused(int kind)
{
	const union ibv_gid group = { .raw = { [10] = 0xff, 0xff, 239, 1, 2, 3 } };
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_UD, .cap = { 1, 1, 1, 1, 0 } };
	struct side s = { .memory = calloc(3, LEN) };
	struct ibv_qp *qp;
	long counted = 1;

	set_up(&s);
	attr.send_cq = attr.recv_cq = s.cq;
	qp = ibv_create_qp(s.pd, &attr);
	want(qp);
	for (long n = 1; n <= counted; n++) {
		want_eq(ibv_attach_mcast(qp, &group, 0), 0);
		failing_begin(kind, n);
		want_eq(ibv_detach_mcast(qp, &group, 0), 0);
		counted = failing_end();
		want_errno(ibv_detach_mcast(qp, &group, 0), EINVAL);
	}
	want_eq(ibv_destroy_qp(qp), 0);
	tear_down(&s);
	free(s.memory);
}

/* The last ones: not where a sanitizer allocates. */
static const struct test_case cases[] = {
	CASE_ARG(detaching_is_not_refused, FAILING_CALLS),
	CASE_ARG(each_fails_once, FAILING_CALLS),
	CASE_ARG(each_fails_once, FAILING_CALLS + FAILING_KINDS),
	CASE_ARG(each_fails_once, FAILING_CALLS + 2 * FAILING_KINDS),
	CASE_ARG(detaching_is_not_refused, FAILING_MEMORY),
	CASE_ARG(each_fails_once, FAILING_MEMORY),
	CASE_ARG(each_fails_once, FAILING_MEMORY + FAILING_KINDS),
	CASE_ARG(each_fails_once, FAILING_MEMORY + 2 * FAILING_KINDS),
};

int main(int argc, char **argv)
{
	const char *given = getenv("SOFTHCA_SEED");

	far_net = argc > 1 ? argv[1] : NULL;
	seed = given ? strtoul(given, NULL, 0) : (unsigned long)getpid() % PARTS;
	if (step() > PARTS)
		printf("# SOFTHCA_SEED=%lu\n", seed);
	return cases_run(cases, sizeof(cases) / sizeof(cases[0]) / (failing_has_memory() ? 1 : 2));
}
