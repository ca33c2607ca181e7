// SPDX-License-Identifier: MIT
/* What a peer may try: guessed keys, ranges that wrap, lengths that overflow, memory that goes
 * away on either side. No crash, no hang, no byte outside a region; the completions say what
 * happened. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "verbs/cases.h"
#include "verbs/duo.h"

enum { BYTES = 1 << 16, PAGE = 4096 };

static struct duo duo;

static void begin(void)
{
	struct duo_opts o = { .qp = { .type = IBV_QPT_RC, .cap = { 16, 16, 8, 8, 64 } } };

	duo_open(&duo, &o);
	duo_tell(&duo, (struct duo_order){ DUO_FILL, .id = 99 });
}

static void far_untouched(void)
{
	want(duo_tell(&duo, (struct duo_order){ DUO_CHECK, .len = BYTES, .id = 99 }).found);
}

/* One exchange, after which the initiator may go at the memory by itself. */
static void warm_up(void)
{
	for (int i = 0; i < 2; i++) {
		duo_send(&duo, IBV_WR_RDMA_READ, 8);
		want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	}
}

static enum ibv_wc_status try(struct ibv_send_wr *wr)
{
	want_eq(duo_post(&duo, wr), 0);
	return duo_wc(&duo).status;
}

static bool is_atomic(enum ibv_wr_opcode op)
{
	return op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static void aim(struct ibv_send_wr *wr, uint64_t addr, uint32_t rkey)
{
	if (is_atomic(wr->opcode)) {
		wr->wr.atomic.remote_addr = addr;
		wr->wr.atomic.rkey = rkey;
	} else {
		wr->wr.rdma.remote_addr = addr;
		wr->wr.rdma.rkey = rkey;
	}
}

/* --- keys and ranges --- */

static const enum ibv_wr_opcode one_sided[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						IBV_WR_ATOMIC_FETCH_AND_ADD };

static void refused_at(enum ibv_wr_opcode op, uint64_t addr, uint32_t rkey, uint32_t len)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr = duo_wr(&duo, op, &sg, is_atomic(op) ? 8 : len);

	aim(&wr, addr, rkey);
	want_eq(try(&wr), IBV_WC_REM_ACCESS_ERR);
	duo_reconnect(&duo);
}

static void guessed_keys(int arg)
{
	uint32_t rkey, guess = 12345;

	(void)arg;
	begin();
	warm_up();
	rkey = duo.near.ep.theirs.rkey;
	for (int bit = 0; bit < 32; bit++)
		refused_at(one_sided[bit % 3], duo.near.ep.theirs.va, rkey ^ 1U << bit, 64);
	for (int i = 0; i < (cases_full() ? 5000 : 200); i++) {
		guess = guess * 1664525 + 1013904223;
		if (guess != rkey)
			refused_at(one_sided[i % 3], duo.near.ep.theirs.va, guess, 64);
	}
	far_untouched();
	duo_close(&duo);
}

static void ranges_outside_the_region(int arg)
{
	uint64_t va;
	uint32_t rkey;

	(void)arg;
	begin();
	warm_up();
	va = duo.near.ep.theirs.va;
	rkey = duo.near.ep.theirs.rkey;
	const struct {
		uint64_t addr;
		uint32_t len;
	} tries[] = {
		{ va - 8, 64 },
		{ va - 1, 1 },
		{ va + BYTES, 1 },
		{ va + BYTES - 1, 2 },
		{ va + BYTES - 63, 64 },
		{ va + 8, BYTES },
		{ 0, 64 },
		{ 0, BYTES },
		{ UINT64_MAX - 7, 64 }, /* wraps */
		{ UINT64_MAX - 7, 8 },
		{ 0 - (uint64_t)BYTES, BYTES },
		{ va + (1ULL << 32), 64 },
		{ va - (1ULL << 32), 64 },
		{ va ^ 1ULL << 63, 64 },
	};

	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++)
		for (int op = 0; op < 2; op++)
			refused_at(one_sided[op], tries[i].addr, rkey, tries[i].len);
	refused_at(IBV_WR_ATOMIC_FETCH_AND_ADD, va - 8, rkey, 8);
	refused_at(IBV_WR_ATOMIC_FETCH_AND_ADD, va + BYTES, rkey, 8);
	refused_at(IBV_WR_ATOMIC_FETCH_AND_ADD, UINT64_MAX - 7, rkey, 8);
	far_untouched();
	duo_close(&duo);
}

/* Four SGEs of 1 GiB and one of 64 B are 64 B for who adds in 32 bits. */
static void sge_sums_do_not_wrap(int op)
{
	enum { GIB = 1 << 30 };
	uint8_t *big =
		mmap(NULL, GIB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct ibv_sge sg[5];
	struct ibv_send_wr wr;
	struct ibv_mr *mr;

	want(big != MAP_FAILED);
	begin();
	warm_up();
	mr = ibv_reg_mr(duo.near.dev.pd, big, GIB, IBV_ACCESS_REMOTE_READ);
	want(mr);
	wr = duo_wr(&duo, op, sg, 64);
	for (int i = 0; i < 5; i++)
		sg[i] = (struct ibv_sge){ (uintptr_t)big, i < 4 ? GIB : 64, mr->lkey };
	wr.num_sge = 5;
	if (!duo_post(&duo, &wr))
		want(duo_wc(&duo).status != IBV_WC_SUCCESS);
	far_untouched();
	want_eq(ibv_dereg_mr(mr), 0);
	duo_close(&duo);
}

/* 2^31 bytes are allowed, to a region that is not as long: refused by the range, not by a wrap. */
static void two_gib_to_a_small_region(int arg)
{
	enum { GIB = 1 << 30 };
	uint8_t *big =
		mmap(NULL, GIB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct ibv_sge sg[2];
	struct ibv_send_wr wr;
	struct ibv_mr *mr;

	(void)arg;
	want(big != MAP_FAILED);
	begin();
	warm_up();
	mr = ibv_reg_mr(duo.near.dev.pd, big, GIB, 0);
	want(mr);
	wr = duo_wr(&duo, IBV_WR_RDMA_WRITE, sg, 64);
	sg[0] = sg[1] = (struct ibv_sge){ (uintptr_t)big, GIB, mr->lkey };
	wr.num_sge = 2;
	want_eq(try(&wr), IBV_WC_REM_ACCESS_ERR);
	far_untouched();
	want_eq(ibv_dereg_mr(mr), 0);
	duo_close(&duo);
}

/* --- memory that goes away under its registration --- */

struct gone {
	enum ibv_wr_opcode op;
	bool receive; /* takes a receive of the far side */
};

static const struct gone gone[] = {
	{ IBV_WR_SEND, true },
	{ IBV_WR_SEND_WITH_IMM, true },
	{ IBV_WR_RDMA_WRITE, false },
	{ IBV_WR_RDMA_WRITE_WITH_IMM, true },
	{ IBV_WR_RDMA_READ, false },
	{ IBV_WR_ATOMIC_FETCH_AND_ADD, false },
	{ IBV_WR_ATOMIC_CMP_AND_SWP, false },
};

enum { KINDS = sizeof(gone) / sizeof(gone[0]), OFF = 3 * PAGE };

static struct ibv_send_wr at_hole(int kind, uint32_t len, struct ibv_sge *sg)
{
	struct ibv_send_wr wr = duo_wr(&duo, gone[kind].op, sg, is_atomic(gone[kind].op) ? 8 : len);

	if (gone[kind].receive)
		duo_tell(&duo, (struct duo_order){ DUO_RECV, .off = OFF, .len = BYTES - OFF });
	aim(&wr, duo.near.ep.theirs.va + OFF, duo.near.ep.theirs.rkey);
	sg->addr += OFF;
	return wr;
}

static const uint32_t lengths[] = { 8, 300, PAGE + 8, BYTES - OFF };

/* This side's buffer is gone: this side is told, the other lives on. */
static void near_memory_unmapped(int kind)
{
	for (int i = 0; i < 4; i++) {
		struct ibv_sge sg;
		struct ibv_send_wr wr;
		enum ibv_wc_status status;

		begin();
		warm_up();
		peer_unmap(duo.near.mem + OFF, PAGE);
		wr = at_hole(kind, lengths[i], &sg);
		status = try(&wr);
		want(status == IBV_WC_LOC_PROT_ERR || status == IBV_WC_LOC_ACCESS_ERR);
		duo_tell(&duo, (struct duo_order){ DUO_STATE });
		duo_close(&duo);
	}
}

/* The other side's is gone: both live, and this side is told. */
static void far_memory_unmapped(int kind)
{
	for (int i = 0; i < 4; i++) {
		struct ibv_sge sg;
		struct ibv_send_wr wr;
		enum ibv_wc_status status;

		begin();
		warm_up();
		duo_tell(&duo, (struct duo_order){ DUO_UNMAP, .off = OFF, .len = PAGE });
		wr = at_hole(kind, lengths[i], &sg);
		status = try(&wr);
		want(status == IBV_WC_REM_OP_ERR || status == IBV_WC_REM_ACCESS_ERR);
		want_eq(duo_tell(&duo, (struct duo_order){ DUO_STATE }).value, IBV_QPS_ERR);
		duo_close(&duo);
	}
}

/* --- the program has set handlers of its own --- */

static void dies(int sig)
{
	(void)sig;
	_exit(9);
}

static bool is_in_front(int sig)
{
	struct sigaction now;

	want_eq(sigaction(sig, NULL, &now), 0);
	return now.sa_handler == dies;
}

static bool any_in_front(void)
{
	return is_in_front(SIGSEGV) || is_in_front(SIGBUS);
}

static void writes_and_polls(struct side *s)
{
	struct ibv_sge sg = { (uintptr_t)s->mem, 8, s->mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sg,
					.num_sge = 1,
					.opcode = IBV_WR_RDMA_WRITE,
					.send_flags = IBV_SEND_SIGNALED,
					.wr.rdma = { s->ep.theirs.va, s->ep.theirs.rkey } };
	struct ibv_wc wc;

	want_eq(ibv_post_send(s->ep.qp, &wr, &bad), 0);
	peer_poll_ok(s->ep.scq, &wc);
}

/* The engine's thread naps, since the program polls. found: it has noticed, and a fault of ours
 * would not end the program. */
static struct duo_answer far_sets_handlers(struct side *s, const struct duo_order *o)
{
	const struct sigaction act = { .sa_handler = dies };
	time_t end = time(NULL) + 10;

	(void)o;
	for (int i = 0; i < 1000; i++)
		writes_and_polls(s);
	want_eq(sigaction(SIGSEGV, &act, NULL), 0);
	want_eq(sigaction(SIGBUS, &act, NULL), 0);
	while (any_in_front() && time(NULL) < end)
		writes_and_polls(s);
	return (struct duo_answer){ .found = !any_in_front() };
}

static pid_t waiting; /* the thread of waits(); atomic */

static void *waits(void *channel)
{
	struct ibv_cq *cq;
	void *context;

	__atomic_store_n(&waiting, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
	(void)!ibv_get_cq_event(channel, &cq, &context);
	fail("an event of a channel without a CQ");
	return NULL;
}

static struct duo_answer far_waits(struct side *s, const struct duo_order *o)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(s->dev.ctx);
	pthread_t thread;

	(void)o;
	want(channel);
	want_eq(pthread_create(&thread, NULL, waits, channel), 0);
	peer_until_asleep(&waiting);
	return (struct duo_answer){ .found = true };
}

/* Handlers that were set behind ours do not get what our copies provoke, whether the engine's
 * thread naps beside a program that polls, or another thread is the engine. */
static void far_memory_unmapped_behind_handlers(int one_waits)
{
	struct ibv_send_wr wr;
	struct ibv_sge sg;
	enum ibv_wc_status status;

	setenv("SOFTHCA_DIRECT", "0", 1); /* the far side itself stores */
	begin();
	warm_up();
	if (one_waits)
		duo_do(&duo, far_waits, 0, 0, 0);
	want(duo_do(&duo, far_sets_handlers, 0, 0, 0).found);
	duo_tell(&duo, (struct duo_order){ DUO_UNMAP, .off = OFF, .len = PAGE });
	wr = at_hole(2, PAGE, &sg);
	status = try(&wr);
	want(status == IBV_WC_REM_OP_ERR || status == IBV_WC_REM_ACCESS_ERR);
	want_eq(duo_tell(&duo, (struct duo_order){ DUO_STATE }).value, IBV_QPS_ERR);
	duo_close(&duo);
}

/* --- deregistration and exec while it is being written --- */

static void *tell_dereg(void *arg)
{
	(void)arg;
	duo_tell(&duo, (struct duo_order){ DUO_DEREG });
	duo_tell(&duo, (struct duo_order){ DUO_FILL, .id = 99 });
	return NULL;
}

static void *tell_exec(void *arg)
{
	struct duo_order order = { .op = DUO_EXEC };
	char c;

	(void)arg;
	want_eq(write(duo.fd, &order, sizeof(order)), sizeof(order));
	want_eq(read(duo.fd, &c, 1), 1);
	return NULL;
}

/* Writes as fast as it goes while @order is being obeyed, until that fails. */
static enum ibv_wc_status write_until_it_fails(void *(*order)(void *), uint32_t len)
{
	enum { DEPTH = 8 };
	unsigned int posted = 0, done = 0;
	struct ibv_wc wc = { .status = IBV_WC_SUCCESS };
	pthread_t t;

	while (wc.status == IBV_WC_SUCCESS) {
		for (; posted - done < DEPTH; posted++)
			duo_send(&duo, IBV_WR_RDMA_WRITE, len);
		wc = duo_wc(&duo);
		if (++done == 3 * DEPTH)
			want_eq(pthread_create(&t, NULL, order, NULL), 0);
	}
	while (++done < posted)
		want_eq(duo_wc(&duo).status, IBV_WC_WR_FLUSH_ERR);
	want_eq(pthread_join(t, NULL), 0);
	return wc.status;
}

/* Once dereg_mr has returned nobody writes there any more. */
static void dereg_while_it_is_written(int len)
{
	for (int round = 0; round < (cases_full() ? 200 : 15); round++) {
		begin();
		memset(duo.near.mem, 0xee, BYTES);
		want_eq(write_until_it_fails(tell_dereg, (uint32_t)len), IBV_WC_REM_ACCESS_ERR);
		far_untouched();
		duo_close(&duo);
	}
}

/* The program that the target becomes has the same addresses; nobody writes there. */
static void exec_while_it_is_written(int len)
{
	for (int round = 0; round < (cases_full() ? 100 : 8); round++) {
		struct duo_opts o = { .qp = { .type = IBV_QPT_RC,
					      .cap = { 16, 16, 4, 4, 0 },
					      .timeout = 10,
					      .retry = 1 } };

		duo_open(&duo, &o);
		memset(duo.near.mem, 0xee, BYTES);
		want_eq(write_until_it_fails(tell_exec, (uint32_t)len), IBV_WC_RETRY_EXC_ERR);
		want_eq(write(duo.fd, "c", 1), 1);
		want_eq(peer_wait(duo.pid), 0);
		duo.pid = 0;
		duo_close(&duo);
	}
}

/* argv: "victim", address, bytes, socket. */
static int victim(char **argv)
{
	void *addr = (void *)(uintptr_t)strtoull(argv[2], NULL, 16);
	size_t n = strtoull(argv[3], NULL, 10);
	int fd = atoi(argv[4]);
	uint8_t *p;
	char c;

	p = mmap(addr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
		 -1, 0);
	if (p == MAP_FAILED) /* something of this program lies there */
		p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pattern_fill(p, n, 7, 0);
	if (write(fd, "r", 1) != 1 || read(fd, &c, 1) != 1)
		return 2;
	return pattern_check(p, n, 7, 0) != n;
}

static const struct test_case cases[] = {
	CASE(guessed_keys),
	CASE(ranges_outside_the_region),
	CASE_ARG(sge_sums_do_not_wrap, IBV_WR_RDMA_WRITE),
	CASE_ARG(sge_sums_do_not_wrap, IBV_WR_SEND),
	CASE_ARG(sge_sums_do_not_wrap, IBV_WR_RDMA_READ),
	CASE(two_gib_to_a_small_region),
	{ "near_memory_unmapped (SEND)", near_memory_unmapped, 0 },
	{ "near_memory_unmapped (SEND_WITH_IMM)", near_memory_unmapped, 1 },
	{ "near_memory_unmapped (WRITE)", near_memory_unmapped, 2 },
	{ "near_memory_unmapped (WRITE_WITH_IMM)", near_memory_unmapped, 3 },
	{ "near_memory_unmapped (READ)", near_memory_unmapped, 4 },
	{ "near_memory_unmapped (FETCH_AND_ADD)", near_memory_unmapped, 5 },
	{ "near_memory_unmapped (CMP_AND_SWP)", near_memory_unmapped, 6 },
	{ "far_memory_unmapped (SEND)", far_memory_unmapped, 0 },
	{ "far_memory_unmapped (SEND_WITH_IMM)", far_memory_unmapped, 1 },
	{ "far_memory_unmapped (WRITE)", far_memory_unmapped, 2 },
	{ "far_memory_unmapped (WRITE_WITH_IMM)", far_memory_unmapped, 3 },
	{ "far_memory_unmapped (READ)", far_memory_unmapped, 4 },
	{ "far_memory_unmapped (FETCH_AND_ADD)", far_memory_unmapped, 5 },
	{ "far_memory_unmapped (CMP_AND_SWP)", far_memory_unmapped, 6 },
	CASE_ARG(far_memory_unmapped_behind_handlers, false),
	CASE_ARG(far_memory_unmapped_behind_handlers, true),
	CASE_ARG(dereg_while_it_is_written, 8),
	CASE_ARG(dereg_while_it_is_written, 4096),
	CASE_ARG(dereg_while_it_is_written, 65536),
	CASE_ARG(exec_while_it_is_written, 8),
	CASE_ARG(exec_while_it_is_written, 65536),
};

int main(int argc, char **argv)
{
	if (argc > 4 && !strcmp(argv[1], "victim"))
		return victim(argv);
	return CASES_RUN(cases);
}
