// SPDX-License-Identifier: MIT
/* Sockets over RDMA whose connections are about to open: the client's RTU is lost, or late, or the
 * requests of clients that are refused have no end. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "verbs/cases.h"
#include "verbs/sockets.h"

/* dlsym() finds functions. */
#pragma GCC diagnostic ignored "-Wpedantic"

enum { MAD = 256, CLASS = 1, ATTRIBUTE = 16, OF_CM = 7, RTU = 0x14, SOME = 100 };

/* --- the RTU --- */

static struct {
	bool held; /* atomic */
	int fd; /* of its connection */
	uint8_t message[2 * MAD];
	size_t len; /* 0: none has been kept; atomic */
} rtu;

/* The MAD is the last part of a message between processes of a host. */
static bool is_rtu(const uint8_t *m, size_t n)
{
	const uint8_t *mad = m + n - MAD;

	return n > MAD && n <= sizeof(rtu.message) && mad[CLASS] == OF_CM &&
	       (mad[ATTRIBUTE] << 8 | mad[ATTRIBUTE + 1]) == RTU;
}

/* The first one; those that answer a repeated REP are lost. Behind faults the descriptor is only
 * that message's. */
static void keep_rtu(int fd, const void *m, size_t n)
{
	if (__atomic_load_n(&rtu.len, __ATOMIC_ACQUIRE))
		return;
	rtu.fd = dup(fd);
	memcpy(rtu.message, m, n);
	__atomic_store_n(&rtu.len, n, __ATOMIC_RELEASE);
}

/* Stands in place of the C library's. */
__attribute__((visibility("default"))) ssize_t send(int fd, const void *m, size_t n, int flags)
{
	if (__atomic_load_n(&rtu.held, __ATOMIC_ACQUIRE) && is_rtu(m, n)) {
		keep_rtu(fd, m, n);
		return (ssize_t)n;
	}
	return syscall(SYS_sendto, fd, m, n, flags, NULL, 0);
}

/* The next one is kept back until rtu_leaves(). */
static void hold_rtu(void)
{
	__atomic_store_n(&rtu.held, true, __ATOMIC_RELEASE);
}

static void rtu_leaves(void)
{
	while (!__atomic_load_n(&rtu.len, __ATOMIC_ACQUIRE))
		sched_yield();
	syscall(SYS_sendto, rtu.fd, rtu.message, rtu.len, MSG_NOSIGNAL, NULL, 0);
}

/* --- a thread --- */

static struct {
	pid_t thread; /* atomic */
	int done; /* atomic */
	int fd;
} ending;

static void *closes(void *arg)
{
	int ret;

	__atomic_store_n(&ending.thread, gettid(), __ATOMIC_RELEASE);
	ret = arg ? rshutdown(ending.fd, SHUT_WR) : rclose(ending.fd);
	__atomic_store_n(&ending.done, 1, __ATOMIC_RELEASE);
	return (void *)(intptr_t)(ret ? errno : 0);
}

/* --- many requests --- */

enum { MANY = 150, TIME = 15000, AT_ONCE = 64 };

static bool no_threads; /* atomic */

/* These stand in place of the C library's, too. */
#pragma GCC visibility push(default)
int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*run)(void *), void *arg)
{
	int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
		dlsym(RTLD_NEXT, "pthread_create");

	return __atomic_load_n(&no_threads, __ATOMIC_ACQUIRE) ? EAGAIN : real(t, a, run, arg);
}

static int napping = -1; /* a socket that does not block any more when its call naps; -1: none */

int nanosleep(const struct timespec *time, struct timespec *left)
{
	if (napping < 0)
		return (int)syscall(SYS_nanosleep, time, left);
	want_eq(rfcntl(napping, F_SETFL, O_NONBLOCK), 0);
	napping = -1;
	return 0;
}
#pragma GCC visibility pop

/* Requests that the listener has not looked at. */
static unsigned long long waiting(int l)
{
	static const char what[] = "eventfd-count:";
	unsigned long long n = 0;
	char line[128], *at;
	FILE *f;

	snprintf(line, sizeof(line), "/proc/self/fdinfo/%d", l);
	f = fopen(line, "re");
	want(f);
	while (fgets(line, sizeof(line), f)) {
		at = strstr(line, what);
		n = at ? strtoull(at + strlen(what), NULL, 16) : n;
	}
	fclose(f);
	return n;
}

static void comes(struct rdma_event_channel *ch, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;

	want_eq(rdma_get_cm_event(ch, &event), 0);
	want_eq(event->event, type);
	want_eq(rdma_ack_cm_event(event), 0);
}

/* It greets nobody, so it is refused. */
static void asks(struct rdma_event_channel *ch, struct sockaddr_in *at)
{
	struct rdma_conn_param param = { .qp_num = 77 };
	struct rdma_cm_id *id;

	want_eq(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	want_eq(rdma_resolve_addr(id, NULL, (struct sockaddr *)at, TIME), 0);
	comes(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	want_eq(rdma_resolve_route(id, TIME), 0);
	comes(ch, RDMA_CM_EVENT_ROUTE_RESOLVED);
	want_eq(rdma_connect(id, &param), 0);
}

/* --- cases --- */

/* For the client the connection is open; of the server's end there is nothing but an answer. */
static void half_open(int *near, int *far)
{
	struct sockaddr_in at;
	int l = listener(&at);

	hold_rtu();
	*near = rsocket(AF_INET, SOCK_STREAM, 0);
	want_eq(rconnect(*near, (struct sockaddr *)&at, sizeof(at)), 0);
	*far = raccept(l, NULL, NULL);
	want(*far >= 0);
	want_eq(rclose(l), 0);
}

/* What the client has sent is there, and then the end, though nothing has said that the connection
 * is open. */
static void ended_without_an_rtu(int arg)
{
	static const char sent[SOME] = "to be read";
	char got[2 * SOME];
	int near, far;

	(void)arg;
	half_open(&near, &far);
	want_eq(rsend(near, sent, sizeof(sent), 0), SOME);
	want_eq(rclose(near), 0);
	want_eq(rrecv(far, got, sizeof(got), 0), SOME);
	want(!memcmp(got, sent, sizeof(sent)));
	want_eq(rrecv(far, got, sizeof(got), 0), 0);
	want_eq(rclose(far), 0);
}

/* What raccept() has returned can be closed, or half of it, at once: the client hears of no more
 * than the end. */
static void ended_before_it_is_open(int half)
{
	char got[SOME];
	int near, far;
	pthread_t t;
	void *err;

	half_open(&near, &far);
	ending.fd = far;
	want_eq(pthread_create(&t, NULL, closes, half ? &half : NULL), 0);
	until_asleep_or(stat_of(&ending.thread), &ending.done);
	rtu_leaves();
	want_eq(pthread_join(t, &err), 0);
	want_eq((intptr_t)err, 0);
	want_eq(rrecv(near, got, sizeof(got), 0), 0);
	if (half) {
		want_eq(rsend(near, "x", 1, 0), 1);
		want_eq(rrecv(far, got, sizeof(got), 0), 1);
		want_eq(rclose(far), 0);
	}
	want_eq(rclose(near), 0);
}

/* A call that does not wait ends after some of them; one that waits gives others the socket between
 * one round and the next. No thread accepts beside it. */
static void refused_without_an_end(int blocks)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct sockaddr_in at = any_port();
	socklen_t len = sizeof(at);
	int l = rsocket(AF_INET, SOCK_STREAM, 0);

	want(ch);
	want_eq(rbind(l, (struct sockaddr *)&at, sizeof(at)), 0);
	__atomic_store_n(&no_threads, true, __ATOMIC_RELEASE);
	want_eq(rlisten(l, 2 * MANY), 0);
	want_eq(rgetsockname(l, (struct sockaddr *)&at, &len), 0);
	for (int i = 0; i < MANY; i++)
		asks(ch, &at);
	while (waiting(l) < MANY)
		sched_yield();
	if (blocks)
		napping = l;
	else
		want_eq(rfcntl(l, F_SETFL, O_NONBLOCK), 0);
	want_minus1(raccept(l, NULL, NULL), EAGAIN);
	want_eq(waiting(l), MANY - (blocks ? 2 : 1) * AT_ONCE);
	want_eq(rclose(l), 0);
}

int main(void)
{
	const struct test_case list[] = {
		CASE(ended_without_an_rtu),	      CASE_ARG(ended_before_it_is_open, 0),
		CASE_ARG(ended_before_it_is_open, 1), CASE_ARG(refused_without_an_end, 0),
		CASE_ARG(refused_without_an_end, 1),
	};

	return CASES_RUN(list);
}
