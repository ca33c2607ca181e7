// SPDX-License-Identifier: MIT
/* Sockets over RDMA, while other threads close, fork or are cancelled, while descriptors run out,
 * and with peers that are killed, that take nothing or that never stop. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <rdma/rdma_verbs.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "verbs/cases.h"
#include "verbs/sockets.h"

/* dlsym() finds functions. */
#pragma GCC diagnostic ignored "-Wpedantic"

static pid_t thread; /* the other one; atomic */

static void begins(void)
{
	__atomic_store_n(&thread, gettid(), __ATOMIC_RELEASE);
}

static void start(pthread_t *t, void *(*run)(void *), void *arg)
{
	__atomic_store_n(&thread, 0, __ATOMIC_RELEASE);
	want_eq(pthread_create(t, NULL, run, arg), 0);
}

/* A thread that waits for bytes. */
static void *receives(void *fd)
{
	char c;

	begins();
	return (void *)(intptr_t)rrecv(*(int *)fd, &c, 1, 0);
}

/* --- a call of the library's, in the middle of which something happens --- */

static void (*meanwhile)(void); /* NULL: nothing; once; atomic */
static pid_t only; /* in this thread; 0: in any but the main one; atomic */

static void happen(pid_t in)
{
	void (*f)(void);

	if (in ? gettid() != in : gettid() == getpid())
		return;
	f = __atomic_exchange_n(&meanwhile, NULL, __ATOMIC_ACQ_REL);
	if (f)
		f();
}

static void let_happen(void (*f)(void))
{
	__atomic_store_n(&meanwhile, f, __ATOMIC_RELEASE);
}

#pragma GCC visibility push(default)
struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *verbs)
{
	struct ibv_comp_channel *(*real)(struct ibv_context *) =
		dlsym(RTLD_NEXT, "ibv_create_comp_channel");

	happen(0);
	return real(verbs);
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *verbs)
{
	struct ibv_pd *(*real)(struct ibv_context *) = dlsym(RTLD_NEXT, "ibv_alloc_pd");

	happen(0);
	return real(verbs);
}

ssize_t write(int fd, const void *data, size_t n)
{
	pid_t in = __atomic_load_n(&only, __ATOMIC_RELAXED);

	if (in)
		happen(in);
	return syscall(SYS_write, fd, data, n);
}
#pragma GCC visibility pop

/* --- closed in the middle of its making --- */

static int open_before[2];
static int closed; /* atomic */

static void *closes_all(void *arg)
{
	begins();
	for (int fd = 0; fd < 256; fd++)
		if (fd != open_before[0] && fd != open_before[1])
			rclose(fd);
	__atomic_store_n(&closed, 1, __ATOMIC_RELEASE);
	return arg;
}

static pthread_t closer;

static void close_all(void)
{
	start(&closer, closes_all, NULL);
	until_asleep_or(stat_of(&thread), &closed);
}

static void closed_while_made(int arg)
{
	struct sockaddr_in at;
	int l = listener(&at), near = rsocket(AF_INET, SOCK_STREAM, 0), far;
	char c;

	(void)arg;
	open_before[0] = l;
	open_before[1] = near;
	let_happen(close_all);
	if (rconnect(near, (struct sockaddr *)&at, sizeof(at)))
		want(errno == ECONNREFUSED || errno == ECONNABORTED);
	far = raccept(l, NULL, NULL);
	want_eq(pthread_join(closer, NULL), 0); /* it may have slept before it came to this one */
	want_minus1(rclose(far), EBADF);
	want_eq(rclose(near), 0);

	near = rsocket(AF_INET, SOCK_STREAM, 0);
	want_eq(rconnect(near, (struct sockaddr *)&at, sizeof(at)), 0);
	far = raccept(l, NULL, NULL);
	want_eq(rsend(near, "x", 1, 0), 1);
	want_eq(rrecv(far, &c, 1, 0), 1);
	want_eq(rclose(far), 0);
	want_eq(rclose(near), 0);
	want_eq(rclose(l), 0);
}

/* --- peers --- */

/* Whose queue pair has no receives, and never will. */
static void takes_nothing(int how)
{
	const struct linger second = { 1, 1 };
	struct liar *l = calloc(1, sizeof(*l));
	struct timespec from, to;
	int fd;

	want(l);
	fd = meet_liar(l, 1, 0);
	if (how)
		want_eq(rsetsockopt(fd, SOL_SOCKET, SO_LINGER, &second, sizeof(second)), 0);
	clock_gettime(CLOCK_MONOTONIC, &from);
	if (how == 2)
		want_eq(rshutdown(fd, SHUT_WR), 0);
	want_eq(rclose(fd), 0);
	clock_gettime(CLOCK_MONOTONIC, &to);
	want(to.tv_sec * 1000 + to.tv_nsec / 1000000 - from.tv_sec * 1000 -
		     from.tv_nsec / 1000000 >=
	     999);
	end_liar(l);
	free(l);
}

static void serve(int port_to)
{
	struct sockaddr_in at;
	int l = listener(&at), far;

	want_eq(write(port_to, &at, sizeof(at)), sizeof(at));
	far = raccept(l, NULL, NULL);
	want_eq(rsend(far, "x", 1, 0), 1);
	for (;;)
		pause();
}

/* A program that only polls learns that its peer is no more. */
static void killed_while_polled(int how)
{
	struct sockaddr_in at;
	struct pollfd p = { .events = POLLIN };
	int fd, port[2];
	ssize_t n;
	pid_t pid;
	char c;

	want_eq(pipe(port), 0);
	pid = fork();
	if (!pid)
		serve(port[1]);
	want(pid > 0);
	want_eq(read(port[0], &at, sizeof(at)), sizeof(at));
	p.fd = fd = rsocket(AF_INET, SOCK_STREAM, 0);
	want_eq(rconnect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	want_eq(rrecv(fd, &c, 1, 0), 1);
	want_eq(kill(pid, SIGKILL), 0);
	want_eq(waitpid(pid, NULL, 0), pid);
	if (how)
		while (!rpoll(&p, 1, 0))
			;
	else
		while ((n = rrecv(fd, &c, 1, MSG_DONTWAIT)) < 0 && errno == EAGAIN)
			;
	want_eq(rrecv(fd, &c, 1, 0), 0);
	want_eq(rclose(fd), 0);
}

/* One that sends without an end holds no call that does not wait. */
static struct liar *flooder;
static int floods;
static int (*real_poll)(struct ibv_cq *cq, int n, struct ibv_wc *wc);

static int flooded_poll(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	enum { KEEPALIVE = 0xe0000001, MANY = 20000 };
	struct ibv_wc sent;

	want(++floods < MANY);
	lie(flooder, KEEPALIVE, 0, 0, 0);
	while (!real_poll(flooder->id->send_cq, 1, &sent))
		;
	return real_poll(cq, n, wc);
}

static void flooded(int arg)
{
	int fd;
	char c;

	(void)arg;
	flooder = calloc(1, sizeof(*flooder));
	want(flooder);
	fd = meet_liar(flooder, 1, 384);
	real_poll = flooder->id->verbs->ops.poll_cq;
	flooder->id->verbs->ops.poll_cq = flooded_poll;
	want_minus1(rrecv(fd, &c, 1, MSG_DONTWAIT), EAGAIN);
	flooder->id->verbs->ops.poll_cq = real_poll;
	want_eq(rclose(fd), 0);
	end_liar(flooder);
	free(flooder);
}

/* --- the I/O map --- */

static void *sends(void *fd)
{
	begins();
	return (void *)(intptr_t)(rsend(*(int *)fd, "x", 1, 0) == 1 ? 0 : errno);
}

/* Two threads wait to send when there is an entry to announce: one announces it, both send. */
static void announced_once(int arg)
{
	enum { RING = 1024, ENTRIES = 3, MORE = 0x80000000 | 384 };
	static char memory[ENTRIES][64], big[RING];
	struct {
		uint64_t addr;
		uint32_t key, length;
	} half;
	struct liar *l = calloc(1, sizeof(*l));
	pthread_t t[2];
	void *err;
	int fd;

	(void)arg;
	want(l);
	fd = meet_liar(l, 1, 384);
	want_eq(rfcntl(fd, F_SETFL, 0), 0);
	want_eq(rsend(fd, big, RING, 0), RING);
	for (int i = 0; i < ENTRIES; i++)
		want(riomap(fd, memory[i], sizeof(memory[i]), PROT_WRITE, 0, i * 64) == i * 64);
	want_eq(riounmap(fd, memory[1], sizeof(memory[1])), 0);
	for (int i = 0; i < 2; i++) {
		start(&t[i], sends, &fd);
		until_asleep(&thread);
	}
	half.addr = (uintptr_t)l->mem + RING;
	half.key = l->mr->rkey;
	half.length = RING;
	memcpy(l->mem + 2048, &half, sizeof(half));
	lie(l, MORE, l->sges + sizeof(half), l->sges_key, sizeof(half));
	for (int i = 0; i < 2; i++) {
		want_eq(pthread_join(t[i], &err), 0);
		want_eq((intptr_t)err, 0);
	}
	want_eq(rclose(fd), 0);
	end_liar(l);
	free(l);
}

static void written_after_shutdown(int arg)
{
	static char memory[64], more[64];
	int near, far;
	char c;

	(void)arg;
	iomaps = 8;
	connected(&near, &far);
	want(riomap(far, memory, sizeof(memory), PROT_WRITE, 0, 0) == 0);
	want_eq(rsend(far, "x", 1, 0), 1);
	want_eq(rrecv(near, &c, 1, 0), 1);
	want_eq(riowrite(near, "a", 1, 0, 0), 1);
	want(riomap(near, more, sizeof(more), PROT_WRITE, 0, 0) == 0);
	want_eq(rshutdown(near, SHUT_WR), 0);
	want_minus1((ssize_t)riowrite(near, "b", 1, 0, 0), EPIPE);
	want_minus1(rsend(near, "b", 1, 0), EPIPE);
	want_eq(rclose(near), 0);
	want_eq(rclose(far), 0);
}

/* --- cancellation --- */

static struct pollfd polled[40];

static void *polls(void *n)
{
	begins();
	rpoll(polled, (nfds_t)(intptr_t)n, -1);
	return NULL;
}

static void is_gone(int fd)
{
	want_eq(rclose(fd), 0);
	want_minus1(fcntl(fd, F_GETFD), EBADF);
}

/* It ends where it sleeps, and leaves nothing behind: the socket can be closed. */
static void cancelled_asleep(int n)
{
	int near, far;
	pthread_t t;
	void *end;
	char c;

	connected(&near, &far);
	for (int i = 0; i < n; i++)
		polled[i] = (struct pollfd){ .fd = i ? -1 : near, .events = POLLIN };
	start(&t, n ? polls : receives, n ? (void *)(intptr_t)n : &near);
	until_asleep(&thread);
	want_eq(pthread_cancel(t), 0);
	want_eq(pthread_join(t, &end), 0);
	want(end == PTHREAD_CANCELED);
	start(&t, receives, &near); /* there is no sleeper but this one */
	until_asleep(&thread);
	want_eq(rsend(far, "x", 1, 0), 1);
	want_eq(pthread_join(t, &end), 0);
	want_eq((intptr_t)end, 1);
	want_eq(rsend(near, "y", 1, 0), 1);
	want_eq(rrecv(far, &c, 1, 0), 1);
	is_gone(near);
	is_gone(far);
}

static int ends[2];

static void *does_not_wait(void *arg)
{
	struct pollfd p[2] = { { .fd = ends[0], .events = POLLIN }, { .fd = 0, .events = 0 } };
	char c;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_cancel(pthread_self());
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	rpoll(p, 2, 0);
	for (int i = 0; i < 100; i++)
		rrecv(ends[0], &c, 1, MSG_DONTWAIT);
	rshutdown(ends[0], SHUT_RD); /* wakes the thread that waits for it */
	return arg;
}

/* No call that need not sleep is a point of cancellation, whatever it has to do. */
static void cancelled_awake(int arg)
{
	pthread_t waits, t;
	void *end;

	(void)arg;
	connected(&ends[0], &ends[1]);
	start(&waits, receives, &ends[0]);
	until_asleep(&thread);
	want_eq(pthread_create(&t, NULL, does_not_wait, NULL), 0);
	want_eq(pthread_join(t, &end), 0);
	want(end != PTHREAD_CANCELED);
	want_eq(pthread_join(waits, &end), 0);
	want_eq((intptr_t)end, 0);
	is_gone(ends[0]);
	is_gone(ends[1]);
}

/* --- no descriptors --- */

static int may_close; /* atomic */

static void *closes(void *fd)
{
	begins();
	while (!__atomic_load_n(&may_close, __ATOMIC_ACQUIRE))
		sched_yield();
	return (void *)(intptr_t)rclose(*(int *)fd);
}

/* rclose() waits until the peer has all, even if no descriptor is left to wait with: the library
 * keeps those of earlier sleepers, so another thread sleeps on that one. */
static void closed_without_descriptors(int arg)
{
	enum { DISCONNECT = 0xe0000000 };
	struct liar *l = calloc(1, sizeof(*l));
	int fd, near, far, stat;
	pthread_t sleeps, t;
	uint64_t limit;
	struct ibv_wc wc;
	void *ret;

	(void)arg;
	want(l);
	fd = meet_liar(l, 1, 0);
	connected(&near, &far);
	start(&sleeps, receives, &near);
	until_asleep(&thread);
	start(&t, closes, &fd);
	stat = stat_of(&thread);
	limit = peer_no_descriptors();
	__atomic_store_n(&may_close, 1, __ATOMIC_RELEASE);
	until_asleep_or(stat, NULL);
	peer_descriptors(limit);
	for (int i = 0; i < 2; i++) /* the first brings credits */
		want_eq(rdma_post_recv(l->id, NULL, l->mem, 0, l->mr), 0);
	do
		while (!ibv_poll_cq(l->id->recv_cq, 1, &wc))
			;
	while (wc.status == IBV_WC_SUCCESS && be32toh(wc.imm_data) != DISCONNECT);
	want_eq(wc.status, IBV_WC_SUCCESS);
	want_eq(pthread_join(t, &ret), 0);
	want_eq((intptr_t)ret, 0);
	want_eq(rclose(far), 0);
	want_eq(pthread_join(sleeps, &ret), 0);
	want_eq(rclose(near), 0);
	end_liar(l);
	free(l);
}

/* --- both ends close --- */

static int looks; /* of the other thread; atomic */

static int counted_poll(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	if (gettid() == __atomic_load_n(&thread, __ATOMIC_ACQUIRE))
		__atomic_add_fetch(&looks, 1, __ATOMIC_RELAXED);
	return real_poll(cq, n, wc);
}

/* The peer goes while rclose() waits until it has everything: nobody will read what it may have
 * sent before, so rclose() does not look for it. */
static void closed_by_both(int arg)
{
	enum { FEW = 20 };
	struct liar *l = calloc(1, sizeof(*l));
	struct ibv_context *verbs;
	pthread_t t;
	void *ret;
	int fd;

	(void)arg;
	want(l);
	fd = meet_liar(l, 1, 0);
	verbs = l->id->verbs;
	real_poll = verbs->ops.poll_cq;
	verbs->ops.poll_cq = counted_poll;
	__atomic_store_n(&may_close, 1, __ATOMIC_RELEASE);
	start(&t, closes, &fd);
	until_asleep(&thread);
	__atomic_store_n(&looks, 0, __ATOMIC_RELAXED);
	rdma_disconnect(l->id);
	want_eq(pthread_join(t, &ret), 0);
	want_eq((intptr_t)ret, 0);
	want(__atomic_load_n(&looks, __ATOMIC_RELAXED) < FEW);
	verbs->ops.poll_cq = real_poll;
	end_liar(l);
	free(l);
}

/* --- forks --- */

static pid_t main_thread;
static int in_the_middle, forked; /* atomic */

/* Until the main thread has forked, or waits to. */
static void let_fork(void)
{
	__atomic_store_n(&in_the_middle, 1, __ATOMIC_RELEASE);
	until_asleep_or(stat_of(&main_thread), &forked);
}

static void *binds(void *arg)
{
	struct sockaddr_in at = any_port();
	struct rdma_cm_id *id;

	want_eq(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
	want_eq(rdma_bind_addr(id, (struct sockaddr *)&at), 0);
	want_eq(rdma_destroy_id(id), 0);
	return arg;
}

static void *wakes(void *fd)
{
	__atomic_store_n(&only, gettid(), __ATOMIC_RELAXED);
	want_eq(rshutdown(*(int *)fd, SHUT_RD), 0);
	return NULL;
}

/* What takes the lock that the other thread had. */
static void in_child(int of_sleepers)
{
	struct pollfd p = { .fd = -1 };

	alarm(20);
	if (of_sleepers)
		want_eq(rpoll(&p, 1, 1), 0);
	else
		want(rdma_create_event_channel());
	_exit(0);
}

static void forked_meanwhile(int of_sleepers)
{
	pthread_t t, waits;
	int status, near = -1, far = -1;
	pid_t pid;

	main_thread = gettid();
	if (of_sleepers) {
		connected(&near, &far);
		start(&waits, receives, &near);
		until_asleep(&thread);
	}
	let_happen(let_fork);
	start(&t, of_sleepers ? wakes : binds, &near);
	while (!__atomic_load_n(&in_the_middle, __ATOMIC_ACQUIRE))
		sched_yield();
	pid = fork();
	if (!pid)
		in_child(of_sleepers);
	__atomic_store_n(&forked, 1, __ATOMIC_RELEASE);
	want(pid > 0);
	want_eq(waitpid(pid, &status, 0), pid);
	want_eq(status, 0);
	want_eq(pthread_join(t, NULL), 0);
	if (!of_sleepers)
		return;
	want_eq(pthread_join(waits, NULL), 0);
	want_eq(rclose(near), 0);
	want_eq(rclose(far), 0);
}

int main(void)
{
	const struct test_case list[] = {
		CASE(closed_while_made),
		CASE_ARG(takes_nothing, 0),
		CASE_ARG(takes_nothing, 1),
		CASE_ARG(takes_nothing, 2),
		CASE_ARG(killed_while_polled, 0),
		CASE_ARG(killed_while_polled, 1),
		CASE(flooded),
		CASE(announced_once),
		CASE(written_after_shutdown),
		CASE_ARG(cancelled_asleep, 0),
		CASE_ARG(cancelled_asleep, 1),
		CASE_ARG(cancelled_asleep, 40),
		CASE(cancelled_awake),
		CASE(closed_without_descriptors),
		CASE(closed_by_both),
		CASE_ARG(forked_meanwhile, 0),
		CASE_ARG(forked_meanwhile, 1),
	};

	return CASES_RUN(list);
}
