// SPDX-License-Identifier: MIT
/* How a connection comes to be and ends: events of the id, which calls take. */
#include <poll.h>
#include <sched.h>
#include <string.h>
#include "rdmacm/rsocket/now.h"
#include "rdmacm/rsocket/ring.h"

enum { TRIES = 6, PATIENCE = 1000 }; /* ms, doubled with each try */
enum { GRACE = 50000000 }; /* ns */
enum { REFUSALS = 64 }; /* of one call: a peer that is refused may be back at once */

static const uint8_t retries = 7; /* RNR: without end */

bool fd_is_readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

bool meet_underway(const struct sock *s)
{
	return s->state == SOCK_ADDR || s->state == SOCK_ROUTE || s->state == SOCK_REQUEST;
}

/* Of a call of an id whose channel never blocks: EAGAIN when its event is still to come. An event
 * that was there already is in id->event, with an error of its own or none. */
static int begun(const struct sock *s, int ret)
{
	return !ret || errno == EAGAIN || s->id->event ? 0 : errno;
}

static struct rdma_conn_param parameters(struct greeting *g)
{
	return (struct rdma_conn_param){ .private_data = g,
					 .private_data_len = sizeof(*g),
					 .flow_control = 1,
					 .retry_count = retries,
					 .rnr_retry_count = retries };
}

static int resolve(struct sock *s)
{
	s->state = SOCK_ADDR;
	return begun(
		s, rdma_resolve_addr(s->id, NULL, (struct sockaddr *)&s->to, PATIENCE << s->tries));
}

int meet_begin(struct sock *s, const struct sockaddr *to)
{
	memcpy(&s->to, to,
	       to->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
	s->tries = 0;
	return resolve(s);
}

static int on_addr(struct sock *s)
{
	s->state = SOCK_ROUTE;
	if (s->opt.route)
		return rdma_set_option(s->id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, s->opt.route,
				       s->opt.route_len)
			       ? errno
			       : 0;
	return begun(s, rdma_resolve_route(s->id, PATIENCE << TRIES));
}

static int on_route(struct sock *s)
{
	struct rdma_conn_param p;
	struct greeting g;
	int err = ring_make(s);

	if (err)
		return err;
	ring_greet(s, &g);
	p = parameters(&g);
	s->state = SOCK_REQUEST;
	return begun(s, rdma_connect(s->id, &p));
}

static int on_established(struct sock *s, const struct rdma_conn_param *p)
{
	if (s->state != SOCK_REQUEST)
		return 0;
	if (!s->passive && ring_meet(s, p->private_data, p->private_data_len))
		return ECONNREFUSED;
	s->state = SOCK_OPEN;
	ring_credit(s);
	sock_changed(s);
	return 0;
}

static int error_of(const struct rdma_cm_event *e)
{
	if (e->event == RDMA_CM_EVENT_REJECTED)
		return ECONNREFUSED;
	if (e->status < 0)
		return -e->status;
	return e->event == RDMA_CM_EVENT_UNREACHABLE ? ETIMEDOUT : EIO;
}

/* The DREQ may be faster than the completions of what was sent before it, which end with the peer's
 * message of control; only a peer that died has sent none. */
static void take_the_rest(struct sock *s)
{
	uint64_t end = now_ns() + GRACE;

	for (ring_progress(s); s->state == SOCK_OPEN && now_ns() < end; ring_progress(s))
		sched_yield();
}

static int on_end(struct sock *s, const struct rdma_cm_event *e)
{
	if (e->event == RDMA_CM_EVENT_ADDR_ERROR && e->status == -ETIMEDOUT && s->tries < TRIES) {
		s->tries++;
		return resolve(s);
	}
	if (s->passive && s->state == SOCK_REQUEST && e->event == RDMA_CM_EVENT_DISCONNECTED)
		s->state = SOCK_OPEN; /* for the peer it was: only its RTU has not come */
	if (s->state != SOCK_OPEN) {
		sock_end(s, error_of(e));
		return 0;
	}
	if (e->event == RDMA_CM_EVENT_DISCONNECTED && s->can_read)
		take_the_rest(s);
	sock_end(s, e->event == RDMA_CM_EVENT_DISCONNECTED ? 0 : error_of(e));
	return 0;
}

static int on_event(struct sock *s, const struct rdma_cm_event *e)
{
	switch (e->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		return on_addr(s);
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		return on_route(s);
	case RDMA_CM_EVENT_ESTABLISHED:
		return on_established(s, &e->param.conn);
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return on_end(s, e);
	default:
		return 0;
	}
}

static struct rdma_cm_event *next_event(struct sock *s)
{
	struct rdma_cm_event *e = s->id->event;

	s->id->event = NULL;
	if (e)
		return e;
	return fd_is_readable(s->fd) && !rdma_get_cm_event(s->id->channel, &e) ? e : NULL;
}

void meet_step(struct sock *s)
{
	struct rdma_cm_event *e;
	int err;

	if (s->state == SOCK_LISTENING || s->state == SOCK_NEW)
		return;
	while ((e = next_event(s))) {
		err = on_event(s, e);
		rdma_ack_cm_event(e);
		if (err)
			sock_end(s, err);
	}
}

/* To look is a system call: a program that only polls makes it once in each tick of the clock. */
bool meet_look(struct sock *s)
{
	struct timespec t;

	if (s->state != SOCK_OPEN)
		return false;
	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	if (t.tv_nsec == s->looked_at)
		return false;
	s->looked_at = t.tv_nsec;
	meet_step(s);
	return true;
}

/* --- the passive end --- */

static int answer(struct sock *s, const struct greeting *theirs, size_t len)
{
	struct rdma_conn_param p;
	struct greeting g;
	int err = ring_meet(s, theirs, len);

	s->passive = true;
	s->state = SOCK_REQUEST;
	err = err ? err : ring_make(s);
	if (err)
		return err;
	ring_greet(s, &g);
	p = parameters(&g);
	return begun(s, rdma_accept(s->id, &p));
}

/* EAGAIN: that request is not to be accepted; the next one may. */
static int take_request(struct sock *listener, struct rdma_cm_id *id, const void *data, size_t len,
			struct sock **out)
{
	struct sock *s, *of_table;
	int err = sock_make(id, listener, &s);

	if (err) {
		rdma_reject(id, NULL, 0);
		rdma_destroy_id(id);
		return err;
	}
	err = answer(s, data, len);
	if (err)
		rdma_reject(id, NULL, 0);
	pthread_mutex_unlock(&s->lock);
	if (!err) {
		*out = s;
		return 0;
	}
	if (sock_remove(s->fd, &of_table) && of_table)
		sock_unref(of_table);
	sock_unref(s);
	return EAGAIN;
}

int meet_accept(struct sock *listener, struct sock **out)
{
	uint8_t data[sizeof(struct greeting)];
	struct rdma_cm_event *e;
	struct rdma_cm_id *id;
	size_t len;
	int err = EAGAIN;

	for (int i = 0; err == EAGAIN && i < REFUSALS; i++) {
		if (!fd_is_readable(listener->fd) || rdma_get_cm_event(listener->id->channel, &e))
			return EAGAIN;
		id = e->event == RDMA_CM_EVENT_CONNECT_REQUEST ? e->id : NULL;
		len = id ? e->param.conn.private_data_len : 0;
		if (len > sizeof(data))
			len = sizeof(data);
		if (len)
			memcpy(data, e->param.conn.private_data, len);
		rdma_ack_cm_event(e);
		if (id)
			err = take_request(listener, id, data, len, out);
	}
	return err == EAGAIN ? EBUSY : err;
}
