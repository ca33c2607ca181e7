// SPDX-License-Identifier: MIT
#include "hca/async_queue.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#include "hca/event_fd.h"
#include "obs/explain.h"
#include "util/list.h"
#include "util/log.h"
#include "util/mutex.h"

struct async_event {
	struct list node;
	enum ibv_event_type type;
	void *element;
};

struct async_queue {
	struct mutex lock; /* guards list, fd and its count */
	struct list list; /* struct async_event */
	int fd; /* -1: closed */
};

int async_queue_create(struct async_queue **out)
{
	struct async_queue *q = calloc(1, sizeof(*q));
	int err;

	if (!q)
		return refuse(
			ENOMEM,
			"ibv_open_device: no memory for its events; raise the limit (ulimit -v)");
	err = event_fd_open("ibv_open_device", &q->fd);
	if (err) {
		free(q);
		return err;
	}
	mutex_init(&q->lock);
	list_init(&q->list);
	*out = q;
	return 0;
}

int async_queue_fd(const struct async_queue *q)
{
	return q->fd;
}

int async_queue_move(struct async_queue *q, int fd, int flags)
{
	if (dup3(q->fd, fd, O_CLOEXEC) < 0)
		return refuse(errno,
			      "ibv_open_device: async_fd %d cannot be given to this process; close "
			      "some descriptors, or raise ulimit -n",
			      fd);
	close(q->fd);
	q->fd = fd;
	if (flags >= 0)
		fcntl(fd, F_SETFL, flags);
	return 0;
}

void async_queue_close(struct async_queue *q)
{
	mutex_lock(&q->lock);
	if (q->fd >= 0)
		close(q->fd);
	q->fd = -1;
	mutex_unlock(&q->lock);
}

void async_queue_destroy(struct async_queue *q)
{
	struct list *at, *tmp;

	if (!q)
		return;
	if (q->fd >= 0)
		close(q->fd);
	list_for_each_safe(at, tmp, &q->list) free(container_of(at, struct async_event, node));
	mutex_destroy(&q->lock);
	free(q);
}

/* Under the lock. */
static bool waits(const struct async_queue *q, enum ibv_event_type type, const void *element)
{
	const struct list *at;

	list_for_each(at, &q->list)
	{
		const struct async_event *ev = container_of(at, struct async_event, node);

		if (ev->type == type && ev->element == element)
			return true;
	}
	return false;
}

void async_queue_push(struct async_queue *q, enum ibv_event_type type, void *element, bool once)
{
	struct async_event *ev = malloc(sizeof(*ev));

	if (!ev) {
		log_error("no memory: asynchronous event %d is lost", type);
		return;
	}
	ev->type = type;
	ev->element = element;
	mutex_lock(&q->lock);
	if (q->fd >= 0 && !(once && waits(q, type, element))) {
		list_add_tail(&q->list, &ev->node);
		event_fd_up(q->fd);
		ev = NULL;
	}
	mutex_unlock(&q->lock);
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

bool async_queue_pop(struct async_queue *q, void (*taken)(const struct ibv_async_event *ev),
		     struct ibv_async_event *out)
{
	struct async_event *ev = NULL;
	bool got;

	mutex_lock(&q->lock);
	if (q->fd >= 0 && !list_empty(&q->list)) {
		ev = list_first_entry(&q->list, struct async_event, node);
		list_del(&ev->node);
		event_fd_down(q->fd);
		describe(ev, out);
		if (taken)
			taken(out);
	}
	mutex_unlock(&q->lock);
	got = ev != NULL;
	free(ev);
	return got;
}

unsigned int async_queue_drop(struct async_queue *q, const void *element)
{
	struct list *at, *tmp;
	unsigned int dropped = 0;

	mutex_lock(&q->lock);
	list_for_each_safe(at, tmp, &q->list)
	{
		struct async_event *ev = container_of(at, struct async_event, node);

		if (ev->element != element)
			continue;
		list_del(&ev->node);
		if (q->fd >= 0)
			event_fd_down(q->fd);
		free(ev);
		dropped++;
	}
	mutex_unlock(&q->lock);
	return dropped;
}
