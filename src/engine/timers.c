// SPDX-License-Identifier: MIT
#include "engine/timers.h"
#include "engine/loop.h"
#include "engine/turn.h"
#include "util/clock.h"

/* The due QPs of one run, collected under the wheel's lock, worked off without it. */
static __thread struct eqp *due __attribute__((tls_model("initial-exec")));

static void fire(struct timer *t, uint64_t now __attribute__((unused)))
{
	struct eqp *e = container_of(t, struct eqp, timer);

	e->timer_at = TQP_NEVER;
	e->timer_due = due;
	due = e;
}

static void publish_next(struct node *n)
{
	store_release(&n->next_timer, wheel_next(&n->wheel));
}

void timers_arm(struct eqp *e, uint64_t at)
{
	struct node *n = e->node;
	bool earlier;

	if (load_relaxed(&e->timer_at) <= at)
		return; /* fires no later; the transport looks at its deadline then */
	spin_lock(&n->wheel_lock);
	store_relaxed(&e->timer_at, at);
	e->timer.fire = fire;
	wheel_add(&n->wheel, &e->timer, at);
	earlier = at < load_relaxed(&n->next_timer);
	publish_next(n);
	spin_unlock(&n->wheel_lock);
	if (earlier)
		loop_nearer_deadline(n);
}

void timers_drop(struct eqp *e)
{
	struct node *n = e->node;

	spin_lock(&n->wheel_lock);
	wheel_del(&n->wheel, &e->timer);
	e->timer_at = TQP_NEVER;
	publish_next(n);
	spin_unlock(&n->wheel_lock);
}

void timers_run(struct node *n)
{
	uint64_t now;
	struct eqp *e, *next;

	if (likely(load_relaxed(&n->next_timer) == UINT64_MAX))
		return;
	now = clock_now();
	if (load_relaxed(&n->next_timer) > now || !spin_trylock(&n->wheel_lock))
		return;
	due = NULL;
	wheel_run(&n->wheel, now);
	publish_next(n);
	e = due;
	spin_unlock(&n->wheel_lock);
	for (; e; e = next) {
		next = e->timer_due;
		turn_note(e, TURN_TIMER);
	}
}

uint64_t timers_next(struct node *n)
{
	return load_acquire(&n->next_timer);
}
