// SPDX-License-Identifier: MIT
#include "engine/wait.h"
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include "engine/idle/vain.h"
#include "engine/leader.h"
#include "engine/links.h"
#include "engine/progress.h"
#include "hca/async.h"
#include "util/clock.h"
#include "util/guard.h"
#include "util/uncancelled.h"

#define RECHECK 1000000ULL /* ns: from one look at the signal handlers to the next */

static bool nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && (flags & O_NONBLOCK);
}

struct sleeper {
	struct node *n;
	struct comp_channel *ch;
	int was; /* the program's state of cancellation */
	int err; /* of the sleep */
};

static void awake(const struct sleeper *s)
{
	host_set_mode(s->n->host, HOST_POLLED);
	comp_channel_also(s->ch, -1);
}

/* pthread_cancel() while it sleeps: another thread, or the engine's, goes on. */
static void cancelled(void *arg)
{
	const struct sleeper *s = arg;

	awake(s);
	leader_end(s->n);
}

/* The one point of cancellation. */
static int sleep_in(int fd, struct sleeper *s)
{
	uint64_t count;

	s->err = 0;
	pthread_cleanup_push(cancelled, s);
	uncancelled_end(s->was);
	if (read(fd, &count, sizeof(count)) < 0)
		s->err = errno;
	uncancelled_begin();
	pthread_cleanup_pop(0);
	return s->err;
}

/* Sleeps in the doorbell itself: read(2) restarts or reports EINTR as the program asked for. */
static int lead_sleep(struct sleeper *s, struct ibv_cq **cq)
{
	struct comp_channel *ch = s->ch;
	struct node *n = s->n;
	int fd = host_doorbell_fd(n->host), err;

	comp_channel_also(ch, fd);
	host_set_mode(n->host, HOST_LED);
	/* Before the last look: comp_channel_push() queues, fences, and reads the descriptor of
	 * comp_channel_also(); senders store, fence, and read the mode. */
	full_fence();
	err = comp_channel_pop(ch, cq);
	if (err == EAGAIN && !host_has_inbound(n->host)) {
		err = sleep_in(fd, s);
		err = err ? err : EAGAIN;
	}
	awake(s);
	return err;
}

/* As the engine's thread does, which sleeps for long beside a leader; but a leader may be woken for
 * each message. */
static void recheck(struct node *n)
{
	uint64_t now = clock_now();

	if (now < load_relaxed(&n->recheck_at))
		return;
	store_relaxed(&n->recheck_at, now + RECHECK);
	guard_recheck();
}

/* Works until there is an event for @ch or nothing comes in any more. An event ends it at once,
 * since the program has receives to post again. */
static int lead_work(struct node *n, struct comp_channel *ch, struct ibv_cq **cq)
{
	unsigned int got;
	int err;

	do {
		recheck(n);
		quiesce_enter();
		got = progress_round(n);
		quiesce_exit();
		links_chores(n);
		err = comp_channel_pop(ch, cq);
	} while (err == EAGAIN && (got || host_has_inbound(n->host)));
	return err;
}

static int lead(struct node *n, struct comp_channel *ch, struct ibv_cq **cq)
{
	struct sleeper s = { n, ch, uncancelled_begin(), 0 };
	int err;

	do {
		err = lead_work(n, ch, cq);
		if (err == EAGAIN)
			err = lead_sleep(&s, cq);
		store_relaxed(&n->led_seq, load_relaxed(&n->led_seq) + 1);
	} while (err == EAGAIN);
	leader_end(n);
	uncancelled_end(s.was);
	return err;
}

static void one_less(void *followers)
{
	fetch_sub_acq_rel((uint32_t *)followers, 1);
}

/* Another thread leads. */
static int follow(struct node *n, struct comp_channel *ch, struct ibv_cq **cq)
{
	int err;

	fetch_add_relaxed(&n->followers, 1);
	pthread_cleanup_push(one_less, &n->followers);
	err = comp_channel_wait(ch, cq);
	pthread_cleanup_pop(1);
	return err;
}

static int sleep_for(struct comp_channel *ch, struct ibv_cq **cq)
{
	struct node *n = node_self();

	if (!n)
		return comp_channel_wait(ch, cq);
	return leader_begin(n) ? lead(n, ch, cq) : follow(n, ch, cq);
}

static void leave(void *channel)
{
	comp_channel_leave(channel);
}

int wait_cq_event(struct comp_channel *ch, struct ibv_cq **cq)
{
	int err = comp_channel_pop(ch, cq);

	if (err == EAGAIN && nonblocking(ch->ib.fd))
		return err;
	vain_found(&vain_mine); /* a thread that sleeps does not spin */
	if (err != EAGAIN)
		return err;
	comp_channel_enter(ch);
	pthread_cleanup_push(leave, ch);
	err = sleep_for(ch, cq);
	pthread_cleanup_pop(1);
	return err;
}

int wait_async_event(struct context *ctx, struct ibv_async_event *out)
{
	return async_wait(ctx, out);
}
