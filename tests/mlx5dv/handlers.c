// SPDX-License-Identifier: MIT
/* Programs that ring by stores and have ideas of their own about SIGSEGV: handlers before ours and
 * behind it, threads that block the signal. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include "mlx5dv/hand.h"

static volatile sig_atomic_t called;
static sigjmp_buf out;

static void own(int sig, siginfo_t *info, void *ctx)
{
	(void)sig;
	(void)info;
	(void)ctx;
	called++;
	siglongjmp(out, 1);
}

static void install(void)
{
	struct sigaction act = { .sa_sigaction = own, .sa_flags = SA_SIGINFO };

	want_eq(sigaction(SIGSEGV, &act, NULL), 0);
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Until another handler than the program's is in front. */
static void want_in_front(void)
{
	uint64_t end = now_ms() + 10000;
	struct sigaction now;

	do {
		want_eq(sigaction(SIGSEGV, NULL, &now), 0);
		want(now_ms() < end);
	} while (now.sa_sigaction == own);
}

/* Stores ring; a real fault, of this very thread, is the program's handler's. */
static void rings_and_faults(void)
{
	volatile uint8_t *none = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	want(none != MAP_FAILED);
	hand_messages(10);
	want_eq(called, 0);
	if (!sigsetjmp(out, 1))
		*none = 1;
	want_eq(called, 1);
	called = 0;
	munmap((void *)(uintptr_t)none, 4096);
}

static void before(int arg)
{
	(void)arg;
	install();
	open_memory();
	connected(IBV_QPT_RC, NULL);
	for (int i = 0; i < 3; i++)
		rings_and_faults();
}

static void behind_for(int times)
{
	for (int i = 0; i < times; i++) {
		install();
		want_in_front();
		rings_and_faults();
	}
}

static void behind(int times)
{
	open_memory();
	connected(IBV_QPT_RC, NULL);
	behind_for(times);
}

static void *sleeps(void *channel)
{
	struct ibv_cq *cq;
	void *context;

	(void)!ibv_get_cq_event(channel, &cq, &context);
	fail("an event of a channel without a CQ");
	return NULL;
}

/* Meanwhile a thread waits for an event, as nearly always in a program that does: it leads, and the
 * engine's thread only looks at the rings, now and then. */
static void behind_while_one_waits(int times)
{
	struct ibv_comp_channel *channel;
	pthread_t thread;

	open_memory();
	connected(IBV_QPT_RC, NULL);
	channel = ibv_create_comp_channel(dev.ctx);
	want(channel);
	want_eq(pthread_create(&thread, NULL, sleeps, channel), 0);
	behind_for(times);
}

static void sends(int sig)
{
	(void)sig;
	hand_send(&a, MLX5_WQE_CTRL_CQ_UPDATE, 7);
}

/* A handler may ring, whatever it has interrupted. */
static void in_a_handler(int arg)
{
	struct sigaction act = { .sa_handler = sends };

	(void)arg;
	want_eq(sigaction(SIGUSR1, &act, NULL), 0);
	open_memory();
	connected(IBV_QPT_RC, NULL);
	for (int i = 0; i < 10; i++) {
		uint16_t at = a.sent;

		hand_recv(&b);
		want_eq(raise(SIGUSR1), 0);
		received_ok(&b, LEN, 7);
		sent_ok(&a, at);
	}
}

/* --- blocked --- */

/* Rights of the doorbell page, as "rw-p". */
static void rights(char text[8])
{
	FILE *f = fopen("/proc/self/maps", "r");
	uintptr_t at = (uintptr_t)a.qp.bf.reg, from, to;
	char line[512];

	want(f);
	text[0] = '\0';
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx %7s", &from, &to, text) == 3 && from <= at && at < to)
			break;
	fclose(f);
}

static void want_open(void)
{
	uint64_t end = now_ms() + 10000;
	char text[8];

	do {
		rights(text);
		want(now_ms() < end);
	} while (text[1] != 'w');
}

static void block_it(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGSEGV);
	want_eq(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
}

static void rings_by_looks(void)
{
	hand_messages(10);
}

static void *stores(void *arg)
{
	(void)arg;
	block_it();
	want_open();
	rings_by_looks();
	return NULL;
}

/* The kernel would end the process: a store of this thread's is no trap any more. */
static void by_a_thread(int arg)
{
	pthread_t thread;
	char text[8];

	(void)arg;
	open_memory();
	connected(IBV_QPT_RC, NULL);
	rights(text);
	want_eq(text[1], '-');
	want_eq(pthread_create(&thread, NULL, stores, NULL), 0);
	want_eq(pthread_join(thread, NULL), 0);
}

/* Each thread that has rings of its own shown asks for itself. */
static void *opens(void *arg)
{
	(void)arg;
	block_it();
	connected(IBV_QPT_RC, NULL);
	rings_by_looks();
	return NULL;
}

static void by_a_thread_that_asks(int arg)
{
	pthread_t thread;

	(void)arg;
	open_memory();
	connected(IBV_QPT_RC, NULL); /* by one that does not block it */
	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
	want_eq(pthread_create(&thread, NULL, opens, NULL), 0);
	want_eq(pthread_join(thread, NULL), 0);
}

static const struct test_case cases[] = {
	CASE(before),
	CASE_ARG(behind, 1),
	CASE_ARG(behind, 20),
	CASE_ARG(behind_while_one_waits, 20),
	CASE(in_a_handler),
	CASE(by_a_thread),
	CASE(by_a_thread_that_asks),
};

int main(void)
{
	return CASES_RUN(cases);
}
