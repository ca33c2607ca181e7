// SPDX-License-Identifier: MIT
#include "engine/wait.h"
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include "engine/leader.h"
#include "engine/links.h"
#include "engine/progress.h"
#include "hca/async.h"
#include "util/clock.h"

static bool nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && (flags & O_NONBLOCK);
}

/* Sleeps in the doorbell itself: read(2) restarts or reports EINTR as the program asked for. */
static int lead_sleep(struct node *n, struct comp_channel *ch, struct ibv_cq **cq)
{
	int fd = host_doorbell_fd(n->host), err;
	uint64_t count;

	comp_channel_also(ch, fd);
	host_set_mode(n->host, HOST_LED);
	/* Before the last look: comp_channel_push() queues, fences, and reads the descriptor of
	 * comp_channel_also(); senders store, fence, and read the mode. */
	full_fence();
	err = comp_channel_pop(ch, cq);
	if (err == EAGAIN && !host_has_inbound(n->host) && read(fd, &count, sizeof(count)) < 0)
		err = errno;
	host_set_mode(n->host, HOST_POLLED);
	comp_channel_also(ch, -1);
	return err;
}

/* Contacts to make, rings to grow: for these the doorbell is rung, in which the leader sleeps. */
static void chores(struct node *n)
{
	uint64_t now = clock_now();

	if (links_deadline(n) <= now)
		links_tend(n, now);
}

/* Works until there is an event for @ch or nothing comes in any more. An event ends it at once,
 * since the program has receives to post again. */
static int lead_work(struct node *n, struct comp_channel *ch, struct ibv_cq **cq)
{
	unsigned int got;
	int err;

	do {
		quiesce_enter();
		got = progress_round(n);
		quiesce_exit();
		chores(n);
		err = comp_channel_pop(ch, cq);
	} while (err == EAGAIN && (got || host_has_inbound(n->host)));
	return err;
}

static int lead(struct node *n, struct comp_channel *ch, struct ibv_cq **cq)
{
	int err;

	do {
		err = lead_work(n, ch, cq);
		if (err == EAGAIN)
			err = lead_sleep(n, ch, cq);
		store_relaxed(&n->led_seq, load_relaxed(&n->led_seq) + 1);
	} while (err == EAGAIN);
	return err;
}

int wait_cq_event(struct comp_channel *ch, struct ibv_cq **cq)
{
	struct node *n = node_self();
	int err = comp_channel_pop(ch, cq);

	if (err != EAGAIN || nonblocking(ch->ib.fd))
		return err;
	if (!n)
		return comp_channel_wait(ch, cq);
	if (!leader_begin(n)) {
		fetch_add_relaxed(&n->followers, 1);
		err = comp_channel_wait(ch, cq);
		fetch_sub_acq_rel(&n->followers, 1);
		return err;
	}
	err = lead(n, ch, cq);
	leader_end(n);
	return err;
}

int wait_async_event(struct context *ctx, struct ibv_async_event *out)
{
	return async_wait(ctx, out);
}
