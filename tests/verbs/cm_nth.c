// SPDX-License-Identifier: MIT
/* A connection from its listener to its end, in which one allocation of the libraries fails, or one
 * of their system calls: in the first run the first, in the second the second, and so on
 * (failing.h). A call that cannot do what it should says ENOMEM, or what the system call has said,
 * or an event says that it has failed, and then the next attempt succeeds; else every event
 * comes. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "verbs/cases.h"
#include "verbs/failing.h"

enum { PATIENCE_MS = 20000, CALLS_MIN = 15 };

static struct rdma_event_channel *channel;
static struct rdma_cm_id *listener, *active, *passive;

static enum failing_kind kind;

/* Of a call. */
static bool done(int ret)
{
	want(!ret || errno == ENOMEM || (kind == FAILING_CALLS && failing_name()));
	return !ret;
}

static struct rdma_cm_event *next(const char *awaited)
{
	struct pollfd p = { .fd = channel->fd, .events = POLLIN };
	struct rdma_cm_event *e;

	if (poll(&p, 1, PATIENCE_MS) != 1)
		fail("%s never comes, where %s has failed", awaited, failing_name());
	if (!done(rdma_get_cm_event(channel, &e)))
		want_eq(rdma_get_cm_event(channel, &e), 0); /* it is still there */
	return e;
}

static bool is_failure(enum rdma_cm_event_type type)
{
	return type == RDMA_CM_EVENT_ADDR_ERROR || type == RDMA_CM_EVENT_ROUTE_ERROR ||
	       type == RDMA_CM_EVENT_CONNECT_ERROR || type == RDMA_CM_EVENT_REJECTED;
}

/* False: an event says that something has failed. */
static bool comes(enum rdma_cm_event_type type, struct rdma_cm_id **id)
{
	struct rdma_cm_event *e = next(rdma_event_str(type));
	bool is;

	while (e->event == RDMA_CM_EVENT_TIMEWAIT_EXIT) { /* of the end that was done first */
		want_eq(rdma_ack_cm_event(e), 0);
		e = next(rdma_event_str(type));
	}
	is = e->event == type;
	if (!is && !is_failure(e->event))
		fail("%s (%d) instead of %s, where %s has failed", rdma_event_str(e->event),
		     e->status, rdma_event_str(type), failing_name());
	if (is)
		want_eq(e->status, 0);
	if (is && type == RDMA_CM_EVENT_CONNECT_REQUEST)
		*id = e->id;
	else if (is)
		want(e->id == *id);
	if (is && type == RDMA_CM_EVENT_CONNECT_RESPONSE) {
		want_eq(e->param.conn.private_data_len, 196);
		want(!memcmp(e->param.conn.private_data, "of an end", 9));
	}
	want_eq(rdma_ack_cm_event(e), 0);
	return is;
}

static bool listens(struct sockaddr_in *at)
{
	*at = (struct sockaddr_in){ .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (!done(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP)) ||
	    !done(rdma_bind_addr(listener, (struct sockaddr *)at)) ||
	    !done(rdma_listen(listener, 4)))
		return false;
	at->sin_port = rdma_get_src_port(listener);
	return true;
}

static bool finds(struct sockaddr_in *at)
{
	if (!done(rdma_create_id(channel, &active, NULL, RDMA_PS_TCP)) ||
	    !done(rdma_resolve_addr(active, NULL, (struct sockaddr *)at, 1000)) ||
	    !comes(RDMA_CM_EVENT_ADDR_RESOLVED, &active) ||
	    !done(rdma_resolve_route(active, 1000)) ||
	    !comes(RDMA_CM_EVENT_ROUTE_RESOLVED, &active))
		return false;
	want(active->route.path_rec && active->route.num_paths == 1);
	return true;
}

static bool connects(void)
{
	struct rdma_conn_param p = { .private_data = "of an end",
				     .private_data_len = 9,
				     .qp_num = 77 };

	return done(rdma_connect(active, &p)) && comes(RDMA_CM_EVENT_CONNECT_REQUEST, &passive) &&
	       done(rdma_accept(passive, &p)) && comes(RDMA_CM_EVENT_CONNECT_RESPONSE, &active) &&
	       done(rdma_establish(active)) && comes(RDMA_CM_EVENT_ESTABLISHED, &passive);
}

static bool disconnects(void)
{
	return done(rdma_disconnect(active)) && comes(RDMA_CM_EVENT_DISCONNECTED, &passive) &&
	       done(rdma_disconnect(passive)) && comes(RDMA_CM_EVENT_DISCONNECTED, &active);
}

static void destroy(struct rdma_cm_id **id)
{
	if (*id)
		want_eq(rdma_destroy_id(*id), 0);
	*id = NULL;
}

/* Whether all went well. */
static bool attempt(void)
{
	struct sockaddr_in at;
	bool well;

	channel = rdma_create_event_channel();
	if (!channel)
		return done(-1);
	well = listens(&at) && finds(&at) && connects() && disconnects();
	destroy(&passive);
	destroy(&active);
	destroy(&listener);
	rdma_destroy_event_channel(channel);
	return well;
}

static long *counted; /* by the last run; both processes see it */

/* In a process of its own, in which the device is open before. */
static int one_run(int fd, void *arg)
{
	long n = *(long *)arg;

	(void)fd;
	peer_note("run %ld", n);
	channel = rdma_create_event_channel();
	want(channel);
	rdma_destroy_event_channel(channel);
	failing_begin(kind, n);
	if (!attempt()) {
		want(n && failing_name());
		want(attempt());
	}
	*counted = failing_end();
	return 0;
}

static void run(long n)
{
	int fd;
	pid_t pid = peer_fork(one_run, &n, &fd);

	want_eq(peer_wait(pid), 0);
	close(fd);
}

/* Under a sanitizer no allocation does. */
static void each_fails_once(int what)
{
	long all;

	kind = (enum failing_kind)what;
	counted = mmap(NULL, sizeof(*counted), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	want(counted != MAP_FAILED);
	run(0);
	all = *counted;
	want(all >= CALLS_MIN || (kind == FAILING_MEMORY && !failing_has_memory()));
	for (long n = 1; n <= all; n++)
		run(n);
}

int main(void)
{
	static const struct test_case list[] = {
		{ "each_allocation_fails_once", each_fails_once, FAILING_MEMORY },
		{ "each_system_call_fails_once", each_fails_once, FAILING_CALLS },
	};

	return CASES_RUN(list);
}
