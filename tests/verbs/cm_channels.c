// SPDX-License-Identifier: MIT
/* Channels of events of connection management as descriptors: poll, epoll, O_NONBLOCK, signals, and
 * threads that fetch from one channel. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "verbs/cases.h"

enum { IDS = 24, THREADS = 3, FEW = 3 };

static struct rdma_event_channel *channel;
static struct rdma_cm_id *ids[IDS];

static void begin(void)
{
	channel = rdma_create_event_channel();
	want(channel);
	for (int i = 0; i < IDS; i++)
		want_eq(rdma_create_id(channel, &ids[i], NULL, RDMA_PS_TCP), 0);
}

static void end(void)
{
	for (int i = 0; i < IDS; i++)
		want_eq(rdma_destroy_id(ids[i]), 0);
	rdma_destroy_event_channel(channel);
}

/* One event. */
static void resolve(int i)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons(7471),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	want_eq(rdma_resolve_addr(ids[i], NULL, (struct sockaddr *)&to, 1000), 0);
}

static void comes(const struct rdma_cm_id *id)
{
	struct rdma_cm_event *e;

	want_eq(rdma_get_cm_event(channel, &e), 0);
	want_eq(e->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	want(e->id == id);
	want_eq(rdma_ack_cm_event(e), 0);
}

static short ready(void)
{
	struct pollfd p = { .fd = channel->fd, .events = POLLIN };

	return poll(&p, 1, 0) ? p.revents : 0;
}

static void polled(int arg)
{
	(void)arg;
	begin();
	want_eq(ready(), 0);
	for (int i = 0; i < FEW; i++)
		resolve(i);
	for (int i = 0; i < FEW; i++) {
		want_eq(ready(), POLLIN);
		comes(ids[i]); /* in their order */
	}
	want_eq(ready(), 0);
	end();
}

/* Edge triggered: an edge for each new event, and none for what is still there. */
static void epoll_sees_the_channel(int edge)
{
	struct epoll_event e = { .events = EPOLLIN | (edge ? (uint32_t)EPOLLET : 0) };
	int ep = epoll_create1(EPOLL_CLOEXEC);

	begin();
	want_eq(epoll_ctl(ep, EPOLL_CTL_ADD, channel->fd, &e), 0);
	want_eq(epoll_wait(ep, &e, 1, 0), 0);
	for (int i = 0; i < FEW; i++) {
		resolve(i);
		want_eq(epoll_wait(ep, &e, 1, 0), 1);
		want_eq(epoll_wait(ep, &e, 1, 0), edge ? 0 : 1);
	}
	for (int i = 0; i < FEW; i++)
		comes(ids[i]);
	want_eq(epoll_wait(ep, &e, 1, 0), 0);
	close(ep);
	end();
}

static void nonblocking(int arg)
{
	struct rdma_cm_event *e;

	(void)arg;
	begin();
	want_eq(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK), 0);
	want_minus1(rdma_get_cm_event(channel, &e), EAGAIN);
	resolve(0);
	comes(ids[0]);
	want_minus1(rdma_get_cm_event(channel, &e), EAGAIN);
	want_eq(fcntl(channel->fd, F_GETFD), FD_CLOEXEC);
	end();
}

/* --- threads --- */

static struct {
	pid_t thread; /* atomic; of the last one that has begun */
	int fetched, failed; /* atomic */
} waiting;

static void *fetches_one(void *arg)
{
	struct rdma_cm_event *e;

	__atomic_store_n(&waiting.thread, gettid(), __ATOMIC_RELEASE);
	if (!rdma_get_cm_event(channel, &e))
		rdma_ack_cm_event(e);
	else
		__atomic_store_n(&waiting.failed, errno, __ATOMIC_RELEASE);
	return arg;
}

static void nothing(int sig)
{
	(void)sig;
}

/* As read(2): a signal ends the wait, unless its handler was set with SA_RESTART. */
static void interrupted(int restart)
{
	const struct sigaction a = { .sa_handler = nothing, .sa_flags = restart ? SA_RESTART : 0 };
	pthread_t t;

	begin();
	want_eq(sigaction(SIGUSR1, &a, NULL), 0);
	want_eq(pthread_create(&t, NULL, fetches_one, NULL), 0);
	peer_until_asleep(&waiting.thread);
	want_eq(pthread_kill(t, SIGUSR1), 0);
	if (restart)
		resolve(0);
	want_eq(pthread_join(t, NULL), 0);
	want_eq(waiting.failed, restart ? 0 : EINTR);
	want_eq(ready(), 0);
	end();
}

static void *fetches_all(void *seen)
{
	bool *of = seen;
	struct rdma_cm_event *e;

	while (!rdma_get_cm_event(channel, &e)) {
		for (int i = 0; i < IDS; i++)
			if (e->id == ids[i])
				want(!__atomic_exchange_n(&of[i], true, __ATOMIC_ACQ_REL));
		rdma_ack_cm_event(e);
		if (__atomic_add_fetch(&waiting.fetched, 1, __ATOMIC_ACQ_REL) >= IDS)
			break;
	}
	return NULL;
}

/* Each event goes to one of them. Those that are left over are waked by as many events more. */
static void several_threads(int arg)
{
	bool seen[IDS] = { false };
	pthread_t t[THREADS];

	(void)arg;
	begin();
	for (int i = 0; i < THREADS; i++)
		want_eq(pthread_create(&t[i], NULL, fetches_all, seen), 0);
	for (int i = 0; i < IDS; i++)
		resolve(i);
	while (__atomic_load_n(&waiting.fetched, __ATOMIC_ACQUIRE) < IDS)
		sched_yield();
	for (int i = 0; i < IDS; i++)
		want(__atomic_exchange_n(&seen[i], false, __ATOMIC_ACQ_REL));
	for (int i = 0; i < THREADS - 1; i++)
		want_eq(rdma_resolve_route(ids[i], 1000), 0);
	for (int i = 0; i < THREADS; i++)
		want_eq(pthread_join(t[i], NULL), 0);
	end();
}

int main(void)
{
	static const struct test_case list[] = {
		CASE(polled),
		{ "epoll_sees_the_channel (level)", epoll_sees_the_channel, 0 },
		{ "epoll_sees_the_channel (edge)", epoll_sees_the_channel, 1 },
		CASE(nonblocking),
		{ "interrupted", interrupted, 0 },
		{ "interrupted (SA_RESTART)", interrupted, 1 },
		CASE(several_threads),
	};

	return CASES_RUN(list);
}
