// SPDX-License-Identifier: MIT
#include "hca/comp_channel.h"
#include <errno.h>
#include <stdlib.h>
#include "hca/alive.h"
#include "hca/event_fd.h"
#include "obs/explain.h"
#include "util/fork.h"
#include "util/uncancelled.h"

enum { DELAYED_MAX = 4 }; /* events beyond these are pushed at once */

static __thread struct {
	bool on;
	unsigned int n;
	struct comp_channel *channel[DELAYED_MAX];
	struct comp_event *event[DELAYED_MAX];
} delayed __attribute__((tls_model("initial-exec")));

struct comp_queue {
	pthread_mutex_t lock; /* guards list, every member's pending, and the descriptor's count */
	struct list list; /* struct comp_event */
};

int comp_channel_create(struct context *ctx, struct comp_channel **out)
{
	int err = context_use(ctx, "ibv_create_comp_channel");
	struct comp_channel *ch;

	if (err)
		return err;
	ch = calloc(1, sizeof(*ch));
	if (ch)
		ch->queue = calloc(1, sizeof(*ch->queue));
	if (!ch || !ch->queue) {
		free(ch);
		return refuse(ENOMEM,
			      "ibv_create_comp_channel: no memory; raise the limit (ulimit -v)");
	}
	err = event_fd_open("ibv_create_comp_channel", &ch->ib.fd);
	if (err) {
		free(ch->queue);
		free(ch);
		return err;
	}
	pthread_mutex_init(&ch->queue->lock, NULL);
	list_init(&ch->queue->list);
	ch->ib.context = &ctx->ib.context;
	ch->ctx = ctx;
	ch->epoch = fork_epoch();
	ch->also_fd = -1;
	ref_init(&ch->threads);
	context_get(ctx);
	*out = ch;
	return 0;
}

void comp_channel_enter(struct comp_channel *ch)
{
	ref_get(&ch->threads);
}

/* The number stays taken until then: no thread reads a file that has got it meanwhile. */
void comp_channel_leave(struct comp_channel *ch)
{
	if (!ref_put(&ch->threads))
		return;
	uncancelled_close(ch->ib.fd);
	free(ch->queue);
	free(ch);
}

/* A thread that waits for the channel's events but sleeps on the descriptor of
 * comp_channel_also() */
static void wake_also(struct comp_channel *ch)
{
	int also;

	/* pairs with the fence of the caller of comp_channel_also(), which sees the event, or this
	 * thread sees the descriptor */
	full_fence();
	also = load_relaxed(&ch->also_fd);
	if (also != -1)
		event_fd_up(also);
}

/* The threads that sleep in comp_channel_wait() pass the one count on to each other. */
static void end_waits(struct comp_channel *ch)
{
	pthread_mutex_lock(&ch->queue->lock);
	ch->gone = true;
	pthread_mutex_unlock(&ch->queue->lock);
	if (ref_count(&ch->threads) == 1)
		return;
	event_fd_up(ch->ib.fd);
	wake_also(ch);
}

int comp_channel_destroy(struct comp_channel *ch)
{
	int cqs = load_acquire(&ch->ib.refcnt); /* pairs with comp_channel_put() */
	char users[ALIVE_USERS];

	if (cqs)
		return refuse(EBUSY,
			      "ibv_destroy_comp_channel: %d CQ%s still use%s the channel%s; "
			      "destroy %s first",
			      cqs, cqs == 1 ? "" : "s", cqs == 1 ? "s" : "",
			      alive_users(&ch->ib, users), cqs == 1 ? "it" : "them");
	context_put(ch->ctx);
	if (fork_is_ours(ch->epoch))
		end_waits(ch);
	else
		ref_init(&ch->threads); /* the others are the parent's */
	comp_channel_leave(ch);
	return 0;
}

void comp_channel_also(struct comp_channel *ch, int fd)
{
	store_relaxed(&ch->also_fd, fd);
}

void comp_channel_get(struct comp_channel *ch)
{
	fetch_add_relaxed(&ch->ib.refcnt, 1);
}

void comp_channel_put(struct comp_channel *ch)
{
	fetch_sub_acq_rel(&ch->ib.refcnt, 1);
}

static void push(struct comp_channel *ch, struct comp_event *ev)
{
	pthread_mutex_lock(&ch->queue->lock);
	if (!ev->pending++)
		list_add_tail(&ch->queue->list, &ev->node);
	event_fd_up(ch->ib.fd);
	pthread_mutex_unlock(&ch->queue->lock);
	wake_also(ch);
}

void comp_channel_push(struct comp_channel *ch, struct comp_event *ev)
{
	if (likely(!delayed.on) || delayed.n == DELAYED_MAX) {
		push(ch, ev);
		return;
	}
	delayed.channel[delayed.n] = ch;
	delayed.event[delayed.n++] = ev;
}

void comp_delay(void)
{
	delayed.on = true;
}

void comp_release(void)
{
	delayed.on = false;
	for (unsigned int i = 0; i < delayed.n; i++)
		push(delayed.channel[i], delayed.event[i]);
	delayed.n = 0;
}

/* Under the mutex. EAGAIN is an answer, not a refusal. */
static int pop_refused(const struct comp_channel *ch)
{
	if (ch->gone)
		return refuse(EBADF, "ibv_get_cq_event: the channel was destroyed while this "
				     "thread waited for its events; end the thread first");
	return list_empty(&ch->queue->list) ? EAGAIN : 0;
}

int comp_channel_pop(struct comp_channel *ch, struct ibv_cq **cq)
{
	struct comp_queue *q = ch->queue;
	struct comp_event *ev;
	int err;

	if (!fork_is_ours(ch->epoch))
		return refuse(EIO,
			      "ibv_get_cq_event: the channel was made before fork(); make a new "
			      "one");
	pthread_mutex_lock(&q->lock);
	err = pop_refused(ch);
	if (err) {
		pthread_mutex_unlock(&q->lock);
		return err;
	}
	ev = list_first_entry(&q->list, struct comp_event, node);
	list_del(&ev->node);
	if (--ev->pending)
		list_add_tail(&q->list, &ev->node);
	event_fd_down(ch->ib.fd);
	*cq = ev->cq;
	if (ch->ctx->hca->taken)
		ch->ctx->hca->taken->comp(*cq);
	pthread_mutex_unlock(&q->lock);
	return 0;
}

int comp_channel_wait(struct comp_channel *ch, struct ibv_cq **cq)
{
	int err = comp_channel_pop(ch, cq);

	while (err == EAGAIN) { /* another thread that waits may be faster */
		err = event_fd_await(ch->ib.fd);
		if (err)
			return err;
		err = comp_channel_pop(ch, cq);
	}
	return err;
}

unsigned int comp_channel_drop(struct comp_channel *ch, struct ibv_cq *cq)
{
	struct list *at, *tmp;
	unsigned int dropped = 0;

	if (!fork_is_ours(ch->epoch)) /* the parent reads the same descriptor */
		return 0;
	pthread_mutex_lock(&ch->queue->lock);
	list_for_each_safe(at, tmp, &ch->queue->list)
	{
		struct comp_event *ev = container_of(at, struct comp_event, node);

		if (ev->cq != cq)
			continue;
		list_del(&ev->node);
		for (; ev->pending; ev->pending--, dropped++)
			event_fd_down(ch->ib.fd);
	}
	pthread_mutex_unlock(&ch->queue->lock);
	return dropped;
}
