// SPDX-License-Identifier: MIT
/* Progress of one socket, and how a thread waits for it: it looks for a while, then sleeps. */
#include <poll.h>
#include "rdmacm/rsocket/dgram.h"
#include "rdmacm/rsocket/now.h"
#include "rdmacm/rsocket/ring.h"

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

struct asleep {
	struct sock *s;
	struct sleeper me;
	int err; /* of the sleep */
};

/* Under the lock. */
static void wake_up(struct asleep *a)
{
	a->s->asleep--;
	sleeper_end(&a->me);
	sock_drain(a->s);
}

/* pthread_cancel() while it sleeps: the call that it was in ends here. */
static void cancelled(void *arg)
{
	struct asleep *a = arg;

	mutex_lock(&a->s->lock);
	wake_up(a);
	sock_put(a->s);
}

/* The one point of cancellation. */
static void sleep_in_kernel(struct asleep *a, struct pollfd p[3])
{
	pthread_cleanup_push(cancelled, a);
	mutex_unlock(&a->s->lock);
	a->err = poll(p, 3, -1) < 0 ? errno : 0;
	mutex_lock(&a->s->lock);
	pthread_cleanup_pop(0);
}

static int sleep_on(struct sock *s)
{
	struct pollfd p[3] = { { .fd = s->fd, .events = POLLIN },
			       { .fd = -1 },
			       { .fd = sock_event_fd(s), .events = POLLIN } };
	struct asleep a = { .s = s };
	int err = sleeper_begin(&a.me);

	if (err)
		return err;
	p[1] = (struct pollfd){ .fd = a.me.fd, .events = POLLIN };
	s->asleep++;
	sleep_in_kernel(&a, p);
	wake_up(&a);
	return a.err;
}

int sock_wait(struct sock *s, bool nonblock, enum awaited what)
{
	uint64_t since = 0;
	int err = 0;

	for (;;) {
		sock_progress(s);
		if (sock_holds(s, what))
			return 0;
		if (nonblock)
			return EAGAIN;
		if (err)
			return err;
		if (!spin_is_over(&since)) {
			mutex_unlock(&s->lock);
			mutex_lock(&s->lock);
			continue;
		}
		sock_arm(s);
		sock_progress(s);
		if (sock_holds(s, what))
			return 0;
		err = sleep_on(s);
		since = 0;
	}
}
