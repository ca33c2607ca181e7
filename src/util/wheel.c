// SPDX-License-Identifier: MIT
/* A timer's level is that of the highest digit (base 64) in which its tick differs from the
 * wheel's. So all of one level are earlier than all of the next, and within a level the slots
 * from the wheel's own digit upwards are in order: the lowest bit of the lowest level is the
 * earliest. */
#include "util/wheel.h"

static uint64_t tick_of(uint64_t ns)
{
	return ns >> WHEEL_SHIFT;
}

/* First tick of slot @s of @level, as seen from the wheel's present tick. */
static uint64_t slot_start(const struct wheel *w, int level, int s)
{
	int shift = level * WHEEL_BITS;
	uint64_t above = w->tick >> (shift + WHEEL_BITS);

	return (above << WHEEL_BITS | (uint64_t)s) << shift;
}

/* The level and slot that are due first; false when the wheel is empty. */
static bool first_slot(const struct wheel *w, int *level, int *s)
{
	for (int l = 0; l < WHEEL_LEVELS; l++) {
		if (!w->occupied[l])
			continue;
		*level = l;
		*s = __builtin_ctzll(w->occupied[l]);
		return true;
	}
	return false;
}

static void place(struct wheel *w, struct timer *t)
{
	uint64_t tick = tick_of(t->at) > w->tick ? tick_of(t->at) : w->tick;
	uint64_t differ = tick ^ w->tick;
	int level = differ ? (63 - __builtin_clzll(differ)) / WHEEL_BITS : 0;
	int s = (int)(tick >> (level * WHEEL_BITS)) & (WHEEL_SLOTS - 1);

	t->slot = (uint16_t)(level * WHEEL_SLOTS + s);
	w->occupied[level] |= UINT64_C(1) << s;
	list_add_tail(&w->slots[level][s], &t->node);
}

void wheel_init(struct wheel *w, uint64_t now)
{
	*w = (struct wheel){ .tick = tick_of(now) };
	list_init(&w->due);
	for (int l = 0; l < WHEEL_LEVELS; l++)
		for (int s = 0; s < WHEEL_SLOTS; s++)
			list_init(&w->slots[l][s]);
}

void wheel_add(struct wheel *w, struct timer *t, uint64_t at)
{
	wheel_del(w, t);
	t->at = at;
	place(w, t);
}

void wheel_del(struct wheel *w, struct timer *t)
{
	int level, s;

	if (!timer_running(t))
		return;
	level = t->slot / WHEEL_SLOTS;
	s = t->slot % WHEEL_SLOTS;
	list_del(&t->node);
	if (list_empty(&w->slots[level][s]))
		w->occupied[level] &= ~(UINT64_C(1) << s);
}

/* Empties one slot: what is due goes to w->due, the rest to where it belongs from here on. */
static void sort_slot(struct wheel *w, int level, int s, uint64_t now)
{
	struct list all, *pos, *tmp;

	list_init(&all);
	list_splice_tail(&all, &w->slots[level][s]);
	w->occupied[level] &= ~(UINT64_C(1) << s);
	list_for_each_safe(pos, tmp, &all)
	{
		struct timer *t = container_of(pos, struct timer, node);

		list_del(&t->node);
		if (t->at <= now)
			list_add_tail(&w->due, &t->node);
		else
			place(w, t);
	}
}

/* Moves the wheel's tick to @now and all that is due by then to w->due. */
static void advance(struct wheel *w, uint64_t now)
{
	uint64_t to = tick_of(now);
	int level, s;

	while (first_slot(w, &level, &s)) {
		uint64_t start = slot_start(w, level, s);

		if (start > to)
			break;
		if (start > w->tick)
			w->tick = start;
		sort_slot(w, level, s, now);
		if (w->tick == to && !level)
			break; /* what is left in this slot is later than now */
	}
	if (to > w->tick)
		w->tick = to;
}

unsigned int wheel_run(struct wheel *w, uint64_t now)
{
	unsigned int fired = 0;

	for (advance(w, now); !list_empty(&w->due); fired++) {
		struct timer *t = list_first_entry(&w->due, struct timer, node);

		list_del(&t->node);
		t->fire(t, now);
	}
	return fired;
}

static uint64_t earliest(const struct list *timers)
{
	const struct list *pos;
	uint64_t at = UINT64_MAX;

	list_for_each(pos, timers)
	{
		const struct timer *t = container_of(pos, const struct timer, node);

		if (t->at < at)
			at = t->at;
	}
	return at;
}

uint64_t wheel_next(const struct wheel *w)
{
	int level, s;

	if (!list_empty(&w->due))
		return 0;
	if (!first_slot(w, &level, &s))
		return UINT64_MAX;
	if (level)
		return slot_start(w, level, s) << WHEEL_SHIFT;
	return earliest(&w->slots[level][s]);
}
