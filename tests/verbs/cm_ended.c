// SPDX-License-Identifier: MIT
/* Calls that an event ends, where another thread has fetched it and destroyed the id before the
 * call returns: what was the id is other memory by then. The thread is played by a stand-in for the
 * call below. */
#include <dlfcn.h>
#include <malloc.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>
#include "cm/cm.h"
#include "verbs/cases.h"
#include "verbs/export.h"

/* dlsym() finds functions. */
#pragma GCC diagnostic ignored "-Wpedantic"

enum { QPN = 77, MS = 1000 };

static const struct cm_calls *real; /* the library's */
static struct rdma_event_channel *channel;
static struct rdma_cm_id *id; /* whose call runs */
static struct rdma_cm_id *peer; /* the active end, where id is the passive one */
static bool armed; /* the next call of id is its last */
static void *instead; /* the memory that was id */

static struct rdma_cm_id *make(enum rdma_port_space ps)
{
	struct rdma_cm_id *made;

	want_eq(rdma_create_id(channel, &made, NULL, ps), 0);
	return made;
}

/* Whose event it is. */
static struct rdma_cm_id *comes(enum rdma_cm_event_type event)
{
	struct rdma_cm_id *whose;
	struct rdma_cm_event *e;

	want_eq(rdma_get_cm_event(channel, &e), 0);
	want_eq(e->event, event);
	whose = e->id;
	want_eq(rdma_ack_cm_event(e), 0);
	return whose;
}

/* --- the other thread --- */

/* Whoever looks at it now sees pointers to nothing, and flags that are set. */
static void destroy(void)
{
	size_t size = malloc_usable_size(id);

	armed = false;
	want_eq(rdma_destroy_id(id), 0);
	instead = malloc(size);
	want(instead);
	memset(instead, 0xff, size);
	id = NULL;
}

static int ended(int err, enum rdma_cm_event_type by)
{
	want_eq(err, 0);
	if (armed) {
		want(comes(by) == id);
		destroy();
	}
	return err;
}

static int resolves_addr(struct cm_id *i, const struct sockaddr *src, const struct sockaddr *dst,
			 int ms)
{
	return ended(real->resolve_addr(i, src, dst, ms), RDMA_CM_EVENT_ADDR_RESOLVED);
}

static int resolves_route(struct cm_id *i, int ms)
{
	return ended(real->resolve_route(i, ms), RDMA_CM_EVENT_ROUTE_RESOLVED);
}

static int connects(struct cm_id *i, const struct cm_param *p)
{
	return ended(real->connect(i, p), RDMA_CM_EVENT_REJECTED);
}

static int accepts(struct cm_id *i, const struct cm_param *p)
{
	int err = real->accept(i, p);

	if (armed) {
		want(comes(RDMA_CM_EVENT_CONNECT_RESPONSE) == peer);
		want_eq(rdma_establish(peer), 0);
	}
	return ended(err, RDMA_CM_EVENT_ESTABLISHED);
}

static int disconnects(struct cm_id *i, bool *follows)
{
	int err = real->disconnect(i, follows);

	if (armed) {
		want(comes(RDMA_CM_EVENT_DISCONNECTED) == peer);
		armed = false;
		want_eq(rdma_disconnect(peer), 0); /* the answer */
		armed = true;
	}
	return ended(err, RDMA_CM_EVENT_DISCONNECTED);
}

static int joins(struct cm_id *i, const struct sockaddr *group, bool send_only, uint32_t qkey,
		 void *context)
{
	return ended(real->join(i, group, send_only, qkey, context), RDMA_CM_EVENT_MULTICAST_JOIN);
}

#pragma GCC visibility push(default)
const struct cm_calls *softhca_cm(void)
{
	static struct cm_calls calls;

	if (!armed)
		return real;
	calls = *real;
	calls.resolve_addr = resolves_addr;
	calls.resolve_route = resolves_route;
	calls.connect = connects;
	calls.accept = accepts;
	calls.disconnect = disconnects;
	calls.join = joins;
	return &calls;
}
#pragma GCC visibility pop

/* --- the calls --- */

static void begin(void)
{
	real = ((const struct cm_calls *(*)(void))dlsym(RTLD_NEXT, "softhca_cm"))();
	channel = rdma_create_event_channel();
	want(channel);
}

static void end(void)
{
	want(!id);
	free(instead);
	rdma_destroy_event_channel(channel);
}

static struct sockaddr *loopback(__be16 port)
{
	static struct sockaddr_in to;

	to = (struct sockaddr_in){ .sin_family = AF_INET,
				   .sin_port = port,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	return (struct sockaddr *)&to;
}

static void addr_resolved(struct rdma_cm_id *i, __be16 port)
{
	want_eq(rdma_resolve_addr(i, NULL, loopback(port), MS), 0);
	want(comes(RDMA_CM_EVENT_ADDR_RESOLVED) == i);
}

static void resolved(struct rdma_cm_id *i, __be16 port)
{
	addr_resolved(i, port);
	want_eq(rdma_resolve_route(i, MS), 0);
	want(comes(RDMA_CM_EVENT_ROUTE_RESOLVED) == i);
}

static int connect_by_number(struct rdma_cm_id *i)
{
	struct rdma_conn_param param = { .qp_num = QPN };

	return rdma_connect(i, &param);
}

static int accept_by_number(struct rdma_cm_id *i)
{
	struct rdma_conn_param param = { .qp_num = QPN + 1 };

	return rdma_accept(i, &param);
}

/* id is the passive end, peer the active one, and the request has come. */
static void requested(void)
{
	struct rdma_cm_id *listener = make(RDMA_PS_TCP);

	want_eq(rdma_bind_addr(listener, loopback(0)), 0);
	want_eq(rdma_listen(listener, 1), 0);
	peer = make(RDMA_PS_TCP);
	resolved(peer, rdma_get_src_port(listener));
	want_eq(connect_by_number(peer), 0);
	id = comes(RDMA_CM_EVENT_CONNECT_REQUEST);
	want_eq(rdma_destroy_id(listener), 0);
}

static void by_resolve_addr(int arg)
{
	(void)arg;
	begin();
	id = make(RDMA_PS_TCP);
	armed = true;
	want_eq(rdma_resolve_addr(id, NULL, loopback(htons(7471)), MS), 0);
	end();
}

static void by_resolve_route(int arg)
{
	(void)arg;
	begin();
	id = make(RDMA_PS_TCP);
	addr_resolved(id, htons(7471));
	armed = true;
	want_eq(rdma_resolve_route(id, MS), 0);
	end();
}

/* Nobody listens. */
static void by_connect(int arg)
{
	(void)arg;
	begin();
	id = make(RDMA_PS_TCP);
	resolved(id, htons(7471));
	armed = true;
	want_eq(connect_by_number(id), 0);
	end();
}

static void by_accept(int arg)
{
	(void)arg;
	begin();
	requested();
	armed = true;
	want_eq(accept_by_number(id), 0);
	want(comes(RDMA_CM_EVENT_DISCONNECTED) == peer);
	want_eq(rdma_destroy_id(peer), 0);
	end();
}

static void by_disconnect(int arg)
{
	(void)arg;
	begin();
	requested();
	want_eq(accept_by_number(id), 0);
	want(comes(RDMA_CM_EVENT_CONNECT_RESPONSE) == peer);
	want_eq(rdma_establish(peer), 0);
	want(comes(RDMA_CM_EVENT_ESTABLISHED) == id);
	armed = true;
	want_eq(rdma_disconnect(id), 0);
	want_eq(rdma_destroy_id(peer), 0);
	end();
}

static void by_join(int arg)
{
	struct sockaddr_in group = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0xe0010203) };

	(void)arg;
	begin();
	id = make(RDMA_PS_UDP);
	want_eq(rdma_bind_addr(id, loopback(0)), 0);
	armed = true;
	want_eq(rdma_join_multicast(id, (struct sockaddr *)&group, NULL), 0);
	end();
}

int main(void)
{
	static const struct test_case list[] = {
		CASE(by_resolve_addr), CASE(by_resolve_route), CASE(by_connect),
		CASE(by_accept),       CASE(by_disconnect),    CASE(by_join),
	};

	return CASES_RUN(list);
}
