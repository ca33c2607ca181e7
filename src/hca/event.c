// SPDX-License-Identifier: MIT
#include "hca/event.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "obs/explain.h"
#include "util/fork.h"
#include "util/log.h"

/* An eventfd that counts what the list holds: both change under the mutex, so a reader that finds
 * the descriptor readable finds an event. */
static int count_open(const char *call, int *out)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);

	if (fd < 0)
		return refuse(errno,
			      "%s: no descriptor for events; raise RLIMIT_NOFILE or close some",
			      call);
	*out = fd;
	return 0;
}

static void count_up(int fd)
{
	uint64_t one = 1;

	if (write(fd, &one, sizeof(one)) < 0)
		log_warn_once("an event descriptor cannot be written; was it closed?");
}

/* Under the mutex. A waiter may hold a count for a moment (await()): it gives it back without the
 * mutex, so this ends; the bound is for programs that read the descriptor themselves. */
static void count_down(int fd)
{
	uint64_t one;

	for (int tries = 0; read(fd, &one, sizeof(one)) < 0; tries++) {
		if ((errno != EAGAIN && errno != EINTR) || tries == 1000) {
			log_warn_once("an event descriptor was read or closed by the program");
			return;
		}
		sched_yield();
	}
}

/* Sleeps until the count is not 0, by read(2): EINTR, restarting and EAGAIN are the kernel's. The
 * count is put back: who takes the event takes it too, under the mutex. */
static int await(int fd)
{
	uint64_t one;

	if (read(fd, &one, sizeof(one)) < 0)
		return errno;
	count_up(fd);
	return 0;
}

/* --- completion channels --- */

enum { HELD_MAX = 4 }; /* more are pushed at once */

static __thread struct {
	bool on;
	unsigned int n;
	struct comp_channel *channel[HELD_MAX];
	struct comp_event *event[HELD_MAX];
} held __attribute__((tls_model("initial-exec")));

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
		return refuse(ENOMEM, "ibv_create_comp_channel: no memory");
	}
	err = count_open("ibv_create_comp_channel", &ch->ib.fd);
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
	ch->lead_fd = -1;
	context_get(ctx);
	*out = ch;
	return 0;
}

int comp_channel_destroy(struct comp_channel *ch)
{
	int cqs = load_acquire(&ch->ib.refcnt); /* pairs with comp_channel_put() */

	if (cqs)
		return refuse(EBUSY,
			      "ibv_destroy_comp_channel: %d CQ%s still use%s the channel; "
			      "destroy %s first",
			      cqs, cqs == 1 ? "" : "s", cqs == 1 ? "s" : "",
			      cqs == 1 ? "it" : "them");
	close(ch->ib.fd);
	context_put(ch->ctx);
	free(ch->queue);
	free(ch);
	return 0;
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
	int lead;

	pthread_mutex_lock(&ch->queue->lock);
	if (!ev->pending++)
		list_add_tail(&ch->queue->list, &ev->node);
	count_up(ch->ib.fd);
	pthread_mutex_unlock(&ch->queue->lock);
	/* pairs with the leader's fence (engine/wait): it sees the event, or we see lead_fd */
	full_fence();
	lead = load_relaxed(&ch->lead_fd);
	if (lead != -1)
		count_up(lead);
}

void comp_channel_push(struct comp_channel *ch, struct comp_event *ev)
{
	if (likely(!held.on) || held.n == HELD_MAX) {
		push(ch, ev);
		return;
	}
	held.channel[held.n] = ch;
	held.event[held.n++] = ev;
}

void comp_hold(void)
{
	held.on = true;
}

void comp_release(void)
{
	held.on = false;
	for (unsigned int i = 0; i < held.n; i++)
		push(held.channel[i], held.event[i]);
	held.n = 0;
}

int comp_channel_pop(struct comp_channel *ch, struct ibv_cq **cq)
{
	struct comp_queue *q = ch->queue;
	struct comp_event *ev;

	if (!fork_is_ours(ch->epoch))
		return refuse(EIO,
			      "ibv_get_cq_event: the channel was made before fork(); make a new "
			      "one");
	pthread_mutex_lock(&q->lock);
	if (list_empty(&q->list)) {
		pthread_mutex_unlock(&q->lock);
		return EAGAIN; /* an answer, not a refusal */
	}
	ev = list_first_entry(&q->list, struct comp_event, node);
	list_del(&ev->node);
	if (--ev->pending)
		list_add_tail(&q->list, &ev->node);
	count_down(ch->ib.fd);
	*cq = ev->cq;
	if (ch->ctx->hca->taken)
		ch->ctx->hca->taken->comp(*cq);
	pthread_mutex_unlock(&q->lock);
	return 0;
}

int comp_channel_wait(struct comp_channel *ch, struct ibv_cq **cq)
{
	int err = comp_channel_pop(ch, cq);

	while (err == EAGAIN) { /* another waiter may be faster */
		err = await(ch->ib.fd);
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

	if (!fork_is_ours(ch->epoch)) /* the descriptor is the parent's too */
		return 0;
	pthread_mutex_lock(&ch->queue->lock);
	list_for_each_safe(at, tmp, &ch->queue->list)
	{
		struct comp_event *ev = container_of(at, struct comp_event, node);

		if (ev->cq != cq)
			continue;
		list_del(&ev->node);
		for (; ev->pending; ev->pending--, dropped++)
			count_down(ch->ib.fd);
	}
	pthread_mutex_unlock(&ch->queue->lock);
	return dropped;
}

/* --- asynchronous events --- */

struct async_event {
	struct list node;
	enum ibv_event_type type;
	void *element;
};

struct async_queue {
	pthread_mutex_t lock; /* guards list, fd and its count */
	struct list list; /* struct async_event */
	int fd; /* -1: closed */
};

int async_queue_create(struct context *ctx, struct async_queue **out)
{
	struct async_queue *q = calloc(1, sizeof(*q));
	int err;

	if (!q)
		return refuse(ENOMEM, "ibv_open_device: no memory for its events");
	err = count_open("ibv_open_device", &q->fd);
	if (err) {
		free(q);
		return err;
	}
	pthread_mutex_init(&q->lock, NULL);
	list_init(&q->list);
	ctx->ib.context.async_fd = q->fd;
	*out = q;
	return 0;
}

int async_queue_move(struct async_queue *q, int fd, int flags)
{
	if (dup3(q->fd, fd, O_CLOEXEC) < 0)
		return refuse(errno, "ibv_open_device: async_fd %d cannot be given to this process",
			      fd);
	close(q->fd);
	q->fd = fd;
	if (flags >= 0)
		fcntl(fd, F_SETFL, flags);
	return 0;
}

void async_queue_close(struct async_queue *q)
{
	pthread_mutex_lock(&q->lock);
	if (q->fd >= 0)
		close(q->fd);
	q->fd = -1;
	pthread_mutex_unlock(&q->lock);
}

void async_queue_destroy(struct async_queue *q)
{
	struct list *at, *tmp;

	if (!q)
		return;
	if (q->fd >= 0)
		close(q->fd);
	list_for_each_safe(at, tmp, &q->list) free(container_of(at, struct async_event, node));
	pthread_mutex_destroy(&q->lock);
	free(q);
}

void async_push(struct context *ctx, enum ibv_event_type type, void *element)
{
	struct async_queue *q = ctx->async;
	struct async_event *ev = malloc(sizeof(*ev));

	if (!ev) {
		log_error("no memory: asynchronous event %d is lost", type);
		return;
	}
	ev->type = type;
	ev->element = element;
	pthread_mutex_lock(&q->lock);
	if (q->fd >= 0) {
		list_add_tail(&q->list, &ev->node);
		count_up(q->fd);
		ev = NULL;
	}
	pthread_mutex_unlock(&q->lock);
	free(ev);
}

static void describe(const struct async_event *ev, struct ibv_async_event *out)
{
	*out = (struct ibv_async_event){ .event_type = ev->type };
	if (ev->element)
		out->element.cq = ev->element; /* a union of pointers */
	else
		out->element.port_num = 1;
}

int async_pop(struct context *ctx, struct ibv_async_event *out)
{
	int err = context_use(ctx, "ibv_get_async_event");
	struct async_event *ev = NULL;
	struct async_queue *q;

	if (err)
		return err;
	q = ctx->async;
	pthread_mutex_lock(&q->lock);
	if (q->fd >= 0 && !list_empty(&q->list)) {
		ev = list_first_entry(&q->list, struct async_event, node);
		list_del(&ev->node);
		count_down(q->fd);
		describe(ev, out);
		if (ctx->hca->taken)
			ctx->hca->taken->async(out);
	}
	pthread_mutex_unlock(&q->lock);
	if (!ev)
		return EAGAIN; /* an answer, not a refusal */
	free(ev);
	return 0;
}

int async_wait(struct context *ctx, struct ibv_async_event *out)
{
	int err = async_pop(ctx, out);

	while (err == EAGAIN) { /* another waiter may be faster */
		err = await(ctx->ib.context.async_fd);
		if (err)
			return err;
		err = async_pop(ctx, out);
	}
	return err;
}

unsigned int async_drop(struct context *ctx, const void *element)
{
	struct async_queue *q = ctx->async;
	struct list *at, *tmp;
	unsigned int dropped = 0;

	if (!fork_is_ours(load_acquire(&ctx->epoch))) /* as in context_use() */
		return 0;
	pthread_mutex_lock(&q->lock);
	list_for_each_safe(at, tmp, &q->list)
	{
		struct async_event *ev = container_of(at, struct async_event, node);

		if (ev->element != element)
			continue;
		list_del(&ev->node);
		if (q->fd >= 0)
			count_down(q->fd);
		free(ev);
		dropped++;
	}
	pthread_mutex_unlock(&q->lock);
	return dropped;
}
