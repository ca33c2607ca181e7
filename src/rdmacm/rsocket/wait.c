// SPDX-License-Identifier: MIT
/* Progress of one socket, and how a thread waits for it: it looks for a while, then sleeps. */
#include <limits.h>
#include <poll.h>
#include "rdmacm/rsocket/dgram.h"
#include "rdmacm/rsocket/now.h"
#include "rdmacm/rsocket/ring.h"
#include "util/uncancelled.h"

enum { SPIN = 10000 }; /* ns */

bool spin_is_over(uint64_t *since)
{
	uint64_t now = now_ns();

	if (!*since)
		*since = now;
	return now - *since > SPIN;
}

void sock_progress(struct sock *s)
{
	if (s->dgram)
		dgram_progress(s);
	else if (s->state == SOCK_OPEN)
		ring_progress(s);
	else
		meet_step(s);
}

bool sock_holds(struct sock *s, enum awaited what)
{
	bool open = s->state == SOCK_OPEN;

	if (s->dgram)
		return what == AWAIT_READABLE ? dgram_readable(s) || !s->can_read
					      : dgram_can_send(s);
	switch (what) {
	case AWAIT_REQUEST:
		return s->svc.accepted || s->state != SOCK_LISTENING || fd_is_readable(s->fd);
	case AWAIT_MET:
		return !meet_underway(s);
	case AWAIT_READABLE:
		return s->have || !s->can_read;
	case AWAIT_WRITABLE:
		return !s->can_write || (open && ring_can_send(s));
	case AWAIT_CONTROL:
		return !open || s->control_free;
	case AWAIT_IDLE:
		return !open || ring_is_idle(s);
	}
	return true;
}

int sock_unwritable(const struct sock *s)
{
	if (s->state == SOCK_OVER)
		return s->err ? s->err : ECONNRESET;
	return s->can_write ? 0 : EPIPE;
}

int sock_event_fd(const struct sock *s)
{
	if (s->dgram)
		return dgram_fd(s);
	return s->id->recv_cq_channel ? s->id->recv_cq_channel->fd : -1;
}

void sock_arm(struct sock *s)
{
	if (s->dgram)
		dgram_arm(s);
	else if (s->id->recv_cq)
		ibv_req_notify_cq(s->id->recv_cq, 0);
}

void sock_drain(struct sock *s)
{
	struct ibv_cq *cq;
	void *context;

	if (s->dgram) {
		dgram_drain(s);
		return;
	}
	meet_step(s);
	while (s->id->recv_cq && !ibv_get_cq_event(s->id->recv_cq_channel, &cq, &context))
		ibv_ack_cq_events(cq, 1);
}

struct nap {
	struct sock *s;
	struct sleeper me;
	int err; /* of the sleep */
};

static void awake(struct nap *n)
{
	pthread_mutex_lock(&n->s->lock);
	n->s->asleep--;
	sleeper_end(&n->me);
}

/* pthread_cancel() while it sleeps: the call has no more than its socket. */
static void cancelled(void *arg)
{
	struct nap *n = arg;

	awake(n);
	sock_put(n->s);
}

/* The one point of cancellation. */
static void sleep_in(struct nap *n, struct pollfd *p, int ms)
{
	pthread_cleanup_push(cancelled, n);
	uncancelled_end(sock_cancel);
	if (poll(p, 3, ms) < 0)
		n->err = errno;
	uncancelled_begin();
	pthread_cleanup_pop(0);
}

static int ms_until(uint64_t until)
{
	uint64_t now = now_ns();

	if (until <= now)
		return 0;
	return (until - now) / 1000000 < INT_MAX ? (int)((until - now) / 1000000) + 1 : -1;
}

static int sleep_on(struct sock *s, uint64_t until)
{
	struct pollfd p[3] = { { .fd = s->fd, .events = POLLIN },
			       { .fd = -1 },
			       { .fd = sock_event_fd(s), .events = POLLIN } };
	struct nap n = { .s = s };
	int ms = ms_until(until);

	if (!sleeper_begin(&n.me) && (ms < 0 || ms > NAP))
		ms = NAP;
	p[1] = (struct pollfd){ .fd = n.me.fd, .events = POLLIN };
	s->asleep++;
	pthread_mutex_unlock(&s->lock);
	sleep_in(&n, p, ms);
	awake(&n);
	sock_drain(s);
	return n.err;
}

int sock_wait_until(struct sock *s, uint64_t until, enum awaited what)
{
	uint64_t since = 0;
	int err = 0;

	for (;;) {
		sock_progress(s);
		if (sock_holds(s, what))
			return 0;
		if (err)
			return err;
		if (!spin_is_over(&since)) {
			pthread_mutex_unlock(&s->lock);
			pthread_mutex_lock(&s->lock);
			continue;
		}
		if (now_ns() >= until)
			return ETIMEDOUT;
		sock_arm(s);
		sock_progress(s);
		if (sock_holds(s, what))
			return 0;
		err = sleep_on(s, until);
		since = 0;
	}
}

int sock_wait(struct sock *s, bool nonblock, enum awaited what)
{
	if (!nonblock)
		return sock_wait_until(s, UINT64_MAX, what);
	sock_progress(s);
	if (sock_holds(s, what))
		return 0;
	return meet_look(s) && sock_holds(s, what) ? 0 : EAGAIN;
}
