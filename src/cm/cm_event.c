// SPDX-License-Identifier: MIT
#include "cm/cm_event.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cm/cm_watch.h"
#include "hca/event_fd.h"
#include "obs/explain.h"
#include "obs/leaks.h"
#include "util/clock.h"
#include "util/fork.h"

#define AGAIN_NS UINT64_C(10000000)

int cm_channel_create(struct cm_channel **out, int *fd)
{
	struct cm_channel *ch = calloc(1, sizeof(*ch));
	int err;

	if (!ch)
		return refuse_memory("rdma_create_event_channel", sizeof(*ch));
	err = event_fd_open("rdma_create_event_channel", &ch->fd);
	if (err) {
		free(ch);
		return err;
	}
	ch->epoch = fork_epoch();
	list_init(&ch->events);
	mutex_lock(&cm.lock);
	ch->serial = ++cm.serial;
	err = hash_put(&cm.channels, ch->serial, ch);
	mutex_unlock(&cm.lock);
	if (err) {
		close(ch->fd);
		free(ch);
		return refuse_memory("rdma_create_event_channel", sizeof(*ch));
	}
	ch->leak = leaks_made(NULL, "rdma_event_channel", NULL);
	*out = ch;
	*fd = ch->fd;
	return 0;
}

void cm_channel_destroy(struct cm_channel *ch)
{
	struct list *pos, *tmp;

	list_for_each_safe(pos, tmp, &ch->events) free(container_of(pos, struct cm_event, node));
	hash_del(&cm.channels, ch->serial);
	close(ch->fd);
	leaks_gone(ch->leak);
	free(ch);
}

static struct cm_event *take(struct cm_channel *ch)
{
	struct cm_event *e;

	if (list_empty(&ch->events))
		return NULL;
	e = list_first_entry(&ch->events, struct cm_event, node);
	list_del(&e->node);
	event_fd_down(ch->fd);
	if (e->news.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		e->id->pending--;
		e->news.id->listener = NULL;
	}
	e->id->fetched++;
	if (e->fetched)
		*e->fetched = true;
	e->news.owner = e->news.id == e->id ? e->id->owner : NULL;
	e->news.listener = e->news.id == e->id ? NULL : e->id->owner;
	return e;
}

/* A program may destroy its channel while a thread waits for an event of it (rping does): behind
 * the wait only the serial number may be looked at. */
int cm_channel_next(struct cm_channel *ch, struct cm_news *out)
{
	uint64_t serial = ch->serial;
	int err, fd = ch->fd;
	struct cm_event *e;
	bool there;

	if (!fork_is_ours(ch->epoch))
		return refuse(EIO, "rdma_get_cm_event: the channel is of a parent process; make a "
				   "new one");
	do {
		err = event_fd_await(fd);
		if (err)
			return err;
		mutex_lock(&cm.lock);
		there = hash_get(&cm.channels, serial);
		e = there ? take(ch) : NULL;
		mutex_unlock(&cm.lock);
		if (!there)
			return refuse(EBADF, "rdma_get_cm_event: another thread has destroyed the "
					     "channel meanwhile; end the thread that waits first");
	} while (!e); /* another thread was faster, or its id went */
	*out = e->news;
	free(e);
	return 0;
}

struct cm_event *cm_event_new(struct cm_id *id, int event, int status)
{
	struct cm_event *e = id->channel ? calloc(1, sizeof(*e)) : NULL;

	if (!e)
		return NULL;
	e->id = id;
	e->news.event = event;
	e->news.status = status;
	e->news.id = id;
	return e;
}

void cm_event_queue(struct cm_event *e)
{
	list_add_tail(&e->id->channel->events, &e->node);
	event_fd_up(e->id->channel->fd);
}

/* --- events for which there was no memory --- */

static void owe_none(struct cm_id *id)
{
	id->n_owed = 0;
	list_del(&id->owing);
}

/* False: there is still no memory. */
static bool pay(struct cm_id *id)
{
	struct cm_event *e;

	for (unsigned int i = 0; i < id->n_owed; i++) {
		e = cm_event_new(id, (int)id->owed[i].event, id->owed[i].status);
		if (!e && id->channel) {
			id->n_owed -= i;
			memmove(id->owed, id->owed + i, id->n_owed * sizeof(id->owed[0]));
			return false;
		}
		if (!e)
			break;
		if (id->fill)
			id->fill(id, e);
		cm_event_queue(e);
	}
	owe_none(id);
	return true;
}

static void on_debts(struct timer *t, uint64_t now)
{
	struct list *pos, *tmp;
	bool paid = true;

	list_for_each_safe(pos, tmp, &cm.owing) paid &= pay(container_of(pos, struct cm_id, owing));
	if (!paid)
		cm_timer(t, now + AGAIN_NS);
}

static void owe(struct cm_id *id, int event, int status)
{
	if (id->n_owed == CM_OWED)
		return;
	id->owed[id->n_owed].event = (unsigned int)event & 0xff;
	id->owed[id->n_owed++].status = status;
	if (!list_empty(&id->owing))
		return;
	list_add_tail(&cm.owing, &id->owing);
	cm.debts.fire = on_debts;
	cm_timer(&cm.debts, clock_now() + AGAIN_NS);
}

void cm_event_raise(struct cm_id *id, int event, int status,
		    void (*fill)(const struct cm_id *id, struct cm_event *e))
{
	struct cm_event *e = id->n_owed ? NULL : cm_event_new(id, event, status);

	if (!id->channel)
		return;
	id->fill = fill ? fill : id->fill;
	if (!e) {
		owe(id, event, status);
		return;
	}
	if (fill)
		fill(id, e);
	cm_event_queue(e);
}

/* --- events that leave --- */

static void withdraw(struct cm_id *id, const void *join, struct list *out)
{
	struct list *pos, *tmp;

	list_for_each_safe(pos, tmp, &id->channel->events)
	{
		struct cm_event *e = container_of(pos, struct cm_event, node);

		if (e->id != id || (join && e->news.join != join))
			continue;
		list_del(&e->node);
		event_fd_down(id->channel->fd);
		list_add_tail(out, &e->node);
	}
}

void cm_event_purge(struct cm_id *id, const void *join, struct list *out)
{
	if (!join)
		owe_none(id);
	if (id->channel)
		withdraw(id, join, out);
}

void cm_event_move(struct cm_id *id, struct cm_channel *to)
{
	struct list moved, *pos, *tmp;

	if (id->channel == to)
		return;
	list_init(&moved);
	if (id->channel)
		withdraw(id, NULL, &moved);
	id->channel = to;
	list_for_each_safe(pos, tmp, &moved)
	{
		struct cm_event *e = container_of(pos, struct cm_event, node);

		list_del(pos);
		e->news.id->channel = to; /* a request's is as its listener's */
		cm_event_queue(e);
	}
}

bool cm_event_waits(const struct cm_id *id)
{
	struct list *pos;

	if (!id->channel || id->n_owed)
		return id->channel;
	list_for_each(pos, &id->channel->events) if (container_of(pos, struct cm_event, node)->id ==
						     id) return true;
	return false;
}
