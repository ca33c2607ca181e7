// SPDX-License-Identifier: MIT
/* A waiting list of a destination. The list calls each waiter once, outside its lock;
 * host_wait_cancel() returns when that waiter is neither listed nor being called by another
 * thread. */
#pragma once
#include <pthread.h>
#include "link/link.h"
#include "util/spin.h"

struct host_wait {
	struct spin lock; /* guards the rest */
	struct list waiters;
	uint32_t n; /* on the list */
	struct waiter *resuming;
	pthread_t resumer;
};

void host_wait_init(struct host_wait *q);
void host_wait_add(struct host_wait *q, struct waiter *w);
bool host_wait_remove(struct host_wait *q, struct waiter *w); /* false: it was not listed */
void host_wait_cancel(struct host_wait *q, struct waiter *w);
/* Takes the first waiter off and calls it. False: none is listed, or another thread is calling one.
 * A waiter may put itself at the end of the list again, so a caller calls no more waiters than were
 * listed when it began. */
bool host_wait_call(struct host_wait *q);
static inline uint32_t host_wait_count(const struct host_wait *q)
{
	return load_relaxed(&q->n);
}
/* A look without the lock: it may miss a waiter that another thread adds at this moment. */
static inline bool host_wait_any(const struct host_wait *q)
{
	return host_wait_count(q) != 0;
}
