// SPDX-License-Identifier: MIT
#include "peers/host_wait.h"
#include <sched.h>

void host_wait_init(struct host_wait *q)
{
	*q = (struct host_wait){ 0 };
	list_init(&q->waiters);
}

/* Under the lock. */
static bool unlist(struct host_wait *q, struct waiter *w)
{
	if (list_empty(&w->node))
		return false;
	list_del(&w->node);
	store_relaxed(&q->n, q->n - 1);
	return true;
}

void host_wait_add(struct host_wait *q, struct waiter *w)
{
	spin_lock(&q->lock);
	if (list_empty(&w->node)) {
		list_add_tail(&q->waiters, &w->node);
		store_relaxed(&q->n, q->n + 1);
	}
	spin_unlock(&q->lock);
}

bool host_wait_remove(struct host_wait *q, struct waiter *w)
{
	bool listed;

	spin_lock(&q->lock);
	listed = unlist(q, w);
	spin_unlock(&q->lock);
	return listed;
}

static bool called_elsewhere(struct host_wait *q, struct waiter *w)
{
	bool yes;

	spin_lock(&q->lock);
	unlist(q, w);
	yes = q->resuming == w && !pthread_equal(q->resumer, pthread_self());
	spin_unlock(&q->lock);
	return yes;
}

void host_wait_cancel(struct host_wait *q, struct waiter *w)
{
	while (called_elsewhere(q, w))
		sched_yield();
}

static struct waiter *begin(struct host_wait *q)
{
	struct waiter *w = NULL;

	spin_lock(&q->lock);
	if (!q->resuming && !list_empty(&q->waiters)) {
		w = list_first_entry(&q->waiters, struct waiter, node);
		unlist(q, w);
		q->resuming = w;
		q->resumer = pthread_self();
	}
	spin_unlock(&q->lock);
	return w;
}

static void end(struct host_wait *q)
{
	spin_lock(&q->lock);
	q->resuming = NULL;
	spin_unlock(&q->lock);
}

bool host_wait_call(struct host_wait *q)
{
	struct waiter *w = begin(q);

	if (!w)
		return false;
	w->resume(w);
	end(q);
	return true;
}
