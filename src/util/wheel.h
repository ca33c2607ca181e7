// SPDX-License-Identifier: MIT
/* Timer wheel: 9 levels of 64 slots, the lowest 16 us wide, each next one 64 times as wide, so that
 * adding and deleting cost the same for any deadline. Time is an argument, in ns, and never goes
 * back. A timer never fires before its `at`; it fires in the first wheel_run() with a @now of at
 * least `at`. Not thread safe: the owner's lock guards it, and stays locked while fire() runs. */
#pragma once
#include "util/list.h"

enum { WHEEL_LEVELS = 9, WHEEL_BITS = 6, WHEEL_SLOTS = 1 << WHEEL_BITS, WHEEL_SHIFT = 14 };

struct timer {
	struct list node; /* the wheel's */
	uint64_t at; /* ns: its deadline */
	void (*fire)(struct timer *t, uint64_t now); /* set by the owner before wheel_add() */
	uint16_t slot; /* the wheel's: level * WHEEL_SLOTS + slot in the level */
};

struct wheel {
	uint64_t tick; /* now >> WHEEL_SHIFT of the last run */
	uint64_t occupied[WHEEL_LEVELS]; /* bit s: slots[level][s] is not empty */
	struct list slots[WHEEL_LEVELS][WHEEL_SLOTS];
	struct list due; /* found by the wheel_run() that is under way, not fired yet */
};

void wheel_init(struct wheel *w, uint64_t now);

/* The timer is not running; sets fire. */
static inline void timer_init(struct timer *t, void (*fire)(struct timer *t, uint64_t now))
{
	list_init(&t->node);
	t->fire = fire;
}

static inline bool timer_running(const struct timer *t)
{
	return !list_empty(&t->node);
}

/* A running timer is moved. A deadline in the past fires in the next wheel_run(). */
void wheel_add(struct wheel *w, struct timer *t, uint64_t at);
void wheel_del(struct wheel *w, struct timer *t); /* fine when it is not running */

/* Fires all that are due, roughly in order of their deadlines (16 us); returns how many. A timer is
 * not running while its fire() runs, which may add and delete any timer, this one too, and free it.
 * What fire() adds fires in a later run even if it is due already. */
unsigned int wheel_run(struct wheel *w, uint64_t now);

/* ns: no later than the earliest deadline, sometimes earlier (a run then makes it exact);
 * UINT64_MAX: no timer runs. */
uint64_t wheel_next(const struct wheel *w);
