// SPDX-License-Identifier: MIT
/* Channels of events of connection management as descriptors: poll, epoll, O_NONBLOCK, signals, and
 * threads that fetch from one channel, or from another one, to which an id is moved. */
#include <dlfcn.h>
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
#include "cm/cm.h"
#include "verbs/cases.h"
#include "verbs/export.h"

/* dlsym() finds functions. */
#pragma GCC diagnostic ignored "-Wpedantic"

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

/* --- another channel --- */

static const struct cm_calls *real; /* the library's */
static struct rdma_event_channel *other;
static struct rdma_cm_event *fetched; /* from that */

/* A thread that waits there is faster than the one that migrates. */
static int migrates(struct cm_id *id, struct cm_channel *to, uint32_t *n)
{
	int err = real->migrate(id, to, n);

	want_eq(rdma_get_cm_event(other, &fetched), 0);
	return err;
}

#pragma GCC visibility push(default)
const struct cm_calls *softhca_cm(void)
{
	static struct cm_calls calls;

	if (!other)
		return real;
	calls = *real;
	calls.migrate = migrates;
	return &calls;
}
#pragma GCC visibility pop

static void request(__be16 port)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = port,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct rdma_conn_param param = { .qp_num = 77 };
	struct rdma_cm_id *id;

	want_eq(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	want_eq(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000), 0);
	comes(id);
	want_eq(rdma_resolve_route(id, 1000), 0);
	want_eq(rdma_get_cm_event(channel, &fetched), 0);
	want_eq(rdma_ack_cm_event(fetched), 0);
	want_eq(rdma_connect(id, &param), 0);
}

/* The id of a request is on the channel that it was fetched from. */
static void fetched_while_migrated(int synchronous)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct rdma_event_channel *first = synchronous ? NULL : rdma_create_event_channel();
	struct rdma_conn_param param = { .qp_num = 78 };
	struct pollfd p = { .events = POLLIN };
	struct rdma_cm_id *listener;

	channel = rdma_create_event_channel();
	want_eq(rdma_create_id(first, &listener, NULL, RDMA_PS_TCP), 0);
	want_eq(rdma_bind_addr(listener, (struct sockaddr *)&at), 0);
	want_eq(rdma_listen(listener, 1), 0);
	request(rdma_get_src_port(listener));
	p.fd = listener->channel->fd;
	want_eq(poll(&p, 1, -1), 1);
	other = rdma_create_event_channel();
	want_eq(rdma_migrate_id(listener, other), 0);
	want_eq(fetched->event, RDMA_CM_EVENT_CONNECT_REQUEST);
	want(fetched->id->channel == other && listener->channel == other);
	rdma_destroy_event_channel(first);
	want_eq(rdma_accept(fetched->id, &param), 0);
	want_eq(rdma_ack_cm_event(fetched), 0);
	want_eq(rdma_get_cm_event(channel, &fetched), 0);
	want_eq(fetched->event, RDMA_CM_EVENT_CONNECT_RESPONSE);
}

/* --- an event that another thread has fetched --- */

static struct {
	struct rdma_cm_id *id;
	struct rdma_event_channel *to; /* NULL: the id is destroyed */
	pid_t thread; /* atomic */
} leaving;

static void *leaves(void *arg)
{
	__atomic_store_n(&leaving.thread, gettid(), __ATOMIC_RELEASE);
	if (leaving.to)
		want_eq(rdma_migrate_id(leaving.id, leaving.to), 0);
	else
		want_eq(rdma_destroy_id(leaving.id), 0);
	return arg;
}

/* The thread that has fetched it may still look at its id: the call waits until it says that it has
 * done so. */
static void leave_beside_an_event(struct rdma_event_channel *to)
{
	pthread_t thread;

	begin();
	leaving.id = ids[0];
	leaving.to = to;
	resolve(0);
	want_eq(rdma_get_cm_event(channel, &fetched), 0);
	want(fetched->id == ids[0]);
	want_eq(pthread_create(&thread, NULL, leaves, NULL), 0);
	peer_until_asleep(&leaving.thread);
	want_eq(rdma_ack_cm_event(fetched), 0);
	want_eq(pthread_join(thread, NULL), 0);
}

static void destroyed_beside_an_event(int arg)
{
	(void)arg;
	leave_beside_an_event(NULL);
	want_eq(rdma_create_id(channel, &ids[0], NULL, RDMA_PS_TCP), 0);
	end();
}

static void migrated_beside_an_event(int arg)
{
	struct rdma_event_channel *to = rdma_create_event_channel();

	(void)arg;
	want(to);
	leave_beside_an_event(to);
	want(ids[0]->channel == to);
	end();
	rdma_destroy_event_channel(to);
}

static void find_calls(void)
{
	const struct cm_calls *(*calls)(void) = dlsym(RTLD_NEXT, "softhca_cm");

	real = calls();
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
		{ "fetched_while_migrated", fetched_while_migrated, 0 },
		{ "fetched_while_migrated (synchronous)", fetched_while_migrated, 1 },
		CASE(destroyed_beside_an_event),
		CASE(migrated_beside_an_event),
	};

	find_calls();
	return CASES_RUN(list);
}
