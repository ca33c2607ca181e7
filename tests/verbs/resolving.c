// SPDX-License-Identifier: MIT
/* Calls of librdmacm of releases after rdma-core 56, as a program that was built there makes them:
 * names of hosts whose answer comes by an event, events of the program's own. */
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <string.h>
#include "verbs/cases.h"
#include "verbs/said.h"

/* What the header of such a release declares. */
int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
			  const struct rdma_addrinfo *hints);
int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info);
int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
			uint64_t arg);

enum { RESOLVED = 16, ERROR = 17, USER = 18, SA = 0x10, DNS = 0x20 };

static struct rdma_event_channel *channel;
static struct rdma_cm_id *id;

static void begin(void)
{
	said_begin();
	channel = rdma_create_event_channel();
	want(channel);
	want_eq(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
}

static void end(void)
{
	want_eq(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

static int write_user(int status, uint64_t arg)
{
	return rdma_write_cm_event(id, (enum rdma_cm_event_type)USER, status, arg);
}

/* The next event is of our id. Returns its number. */
static uint64_t expect(int event, int status)
{
	struct rdma_cm_event *e;
	uint64_t arg;

	want_eq(rdma_get_cm_event(channel, &e), 0);
	want_eq(e->event, event);
	want_eq(e->status, status);
	want(e->id == id && !e->listen_id);
	memcpy(&arg, &e->param, sizeof(arg));
	want_eq(rdma_ack_cm_event(e), 0);
	return arg;
}

static void own_events(int arg)
{
	(void)arg;
	begin();
	want_eq(write_user(-7, 0x1122334455667788), 0);
	want_eq(write_user(0, 2), 0);
	want_eq(expect(USER, -7), 0x1122334455667788);
	want_eq(expect(USER, 0), 2);
	want(!strcmp(rdma_event_str((enum rdma_cm_event_type)USER), "RDMA_CM_EVENT_USER"));
	want_minus1(rdma_write_cm_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, 0), EINVAL);
	said_want(SAID_NEAR,
		  "rdma_write_cm_event: event 9; a program's own is RDMA_CM_EVENT_USER (18)");
	want_minus1(rdma_write_cm_event(id, (enum rdma_cm_event_type)(USER + 1), 0, 0), EINVAL);
	want_minus1(rdma_write_cm_event(NULL, (enum rdma_cm_event_type)USER, 0, 0), EINVAL);
	want_eq(write_user(0, 3), 0); /* vanishes with its id */
	end();
}

/* The number is one of a datagram's id, too: where UD events show a queue pair. */
static void own_event_of_datagrams(int arg)
{
	(void)arg;
	begin();
	want_eq(rdma_destroy_id(id), 0);
	want_eq(rdma_create_id(channel, &id, NULL, RDMA_PS_UDP), 0);
	want_eq(write_user(1, UINT64_MAX), 0);
	want_eq(expect(USER, 1), UINT64_MAX);
	end();
}

static void *wakes(void *unused)
{
	want_eq(write_user(0, 5), 0);
	return unused;
}

static void own_event_wakes(int arg)
{
	pthread_t thread;

	(void)arg;
	begin();
	want_eq(pthread_create(&thread, NULL, wakes, NULL), 0);
	want_eq(expect(USER, 0), 5);
	pthread_join(thread, NULL);
	end();
}

static struct rdma_addrinfo numeric(int flags)
{
	return (struct rdma_addrinfo){ .ai_flags = RAI_NUMERICHOST | flags,
				       .ai_port_space = RDMA_PS_TCP };
}

static void want_loopback(const struct sockaddr *at, socklen_t len)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)at;

	want_eq(len, sizeof(*in));
	want_eq(in->sin_family, AF_INET);
	want_eq(ntohl(in->sin_addr.s_addr), INADDR_LOOPBACK);
	want_eq(ntohs(in->sin_port), 7471);
}

/* @flags: RAI_PASSIVE, the source is asked for; else the destination, to which a way is found. */
static void resolves(int flags)
{
	const struct rdma_addrinfo hints = numeric(flags);
	struct rdma_addrinfo *found;

	begin();
	for (unsigned int round = 0; round < 2; round++) {
		want_eq(rdma_resolve_addrinfo(id, "127.0.0.1", "7471", &hints), 0);
		want_minus1(rdma_resolve_addrinfo(id, "127.0.0.1", "7471", &hints), EBUSY);
		expect(RESOLVED, 0);
		want_eq(rdma_query_addrinfo(id, &found), 0);
		want_minus1(rdma_query_addrinfo(id, &found), ENOENT);
		want_eq(found->ai_port_space, RDMA_PS_TCP);
		want_eq(found->ai_qp_type, IBV_QPT_RC);
		if (flags & RAI_PASSIVE)
			want_loopback(found->ai_src_addr, found->ai_src_len);
		else
			want_loopback(found->ai_dst_addr, found->ai_dst_len);
		if (!(flags & RAI_PASSIVE) && !round) {
			want_eq(rdma_resolve_addr(id, NULL, found->ai_dst_addr, 1000), 0);
			expect(RDMA_CM_EVENT_ADDR_RESOLVED, 0);
		}
		rdma_freeaddrinfo(found);
	}
	end();
}

static void no_such_name(int arg)
{
	const struct rdma_addrinfo hints = numeric(0);
	struct rdma_addrinfo *found;

	(void)arg;
	begin();
	want_eq(rdma_resolve_addrinfo(id, "no number", "7471", &hints), 0);
	expect(ERROR, -ENOENT);
	want_minus1(rdma_query_addrinfo(id, &found), ENOENT);
	want_eq(rdma_resolve_addrinfo(id, "127.0.0.1", NULL, &hints), 0);
	expect(RESOLVED, 0);
	end(); /* which frees the answer */
}

/* Without a channel the call itself waits, and answers. */
static void synchronous(int arg)
{
	const struct rdma_addrinfo hints = numeric(DNS);
	struct rdma_addrinfo *found;

	(void)arg;
	said_begin();
	want_eq(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
	want_minus1(rdma_resolve_addrinfo(id, "no number", NULL, &hints), ENOENT);
	want_eq(id->event->event, ERROR);
	want_eq(rdma_resolve_addrinfo(id, "127.0.0.1", "7471", &hints), 0);
	want_eq(rdma_query_addrinfo(id, &found), 0);
	want_loopback(found->ai_dst_addr, found->ai_dst_len);
	rdma_freeaddrinfo(found);
	want_eq(rdma_destroy_id(id), 0);
}

static void refused(int arg)
{
	const struct rdma_addrinfo sa = numeric(SA), both = numeric(SA | DNS);
	struct rdma_addrinfo *found;

	(void)arg;
	begin();
	want_minus1(rdma_resolve_addrinfo(NULL, "127.0.0.1", NULL, NULL), EINVAL);
	want_minus1(rdma_resolve_addrinfo(id, NULL, NULL, NULL), EINVAL);
	want_minus1(rdma_resolve_addrinfo(id, NULL, "7471", &sa), EOPNOTSUPP);
	said_want(SAID_NEAR, "rdma_resolve_addrinfo: RAI_SA: an Ethernet port has no subnet "
			     "administrator; names are found by RAI_DNS");
	want_minus1(rdma_resolve_addrinfo(id, "127.0.0.1", NULL, &both), EOPNOTSUPP);
	want_minus1(rdma_getaddrinfo(NULL, "7471", &sa, &found), EOPNOTSUPP);
	want_minus1(rdma_query_addrinfo(NULL, &found), EINVAL);
	want_minus1(rdma_query_addrinfo(id, NULL), EINVAL);
	want_minus1(rdma_query_addrinfo(id, &found), ENOENT);
	want_eq(write_user(0, 1), 0); /* none of these has raised an event */
	expect(USER, 0);
	end();
}

static const struct test_case cases[] = {
	CASE(own_events),
	CASE(own_event_of_datagrams),
	CASE(own_event_wakes),
	CASE_ARG(resolves, 0),
	CASE_ARG(resolves, RAI_PASSIVE),
	CASE(no_such_name),
	CASE(synchronous),
	CASE(refused),
};

int main(void)
{
	return CASES_RUN(cases);
}
