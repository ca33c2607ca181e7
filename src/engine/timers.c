// SPDX-License-Identifier: MIT
#include "engine/timers.h"
#include "engine/loop.h"
#include "engine/port_wait.h"
#include "engine/turn.h"
#include "util/clock.h"

/* The due QPs and CQs of one run, collected under the wheel's lock, worked off without it. */
static __thread struct eqp *due __attribute__((tls_model("initial-exec")));
static __thread struct cq *due_cqs __attribute__((tls_model("initial-exec")));

static void fire(struct timer *t, uint64_t now __attribute__((unused)))
{
	struct eqp *e = container_of(t, struct eqp, timer);

	store_relaxed(&e->timer_at, TQP_NEVER);
	if (load_acquire(&e->timer_queued))
		return; /* some thread has it on its list, and has not come to it */
	e->timer_queued = true;
	e->timer_due = due;
	due = e;
}

static void fire_cq(struct timer *t, uint64_t now __attribute__((unused)))
{
	struct cq *cq = container_of(t, struct cq, timer);

	if (load_acquire(&cq->timer_queued))
		return;
	cq->timer_queued = true;
	cq->timer_due = due_cqs;
	due_cqs = cq;
}

static void publish_next(struct node *n)
{
	store_release(&n->next_timer, wheel_next(&n->wheel));
}

void timers_add(struct node *n, struct timer *t, void (*fire_it)(struct timer *, uint64_t),
		uint64_t at)
{
	bool earlier;

	spin_lock(&n->wheel_lock);
	t->fire = fire_it;
	wheel_add(&n->wheel, t, at);
	earlier = at < load_relaxed(&n->next_timer);
	publish_next(n);
	spin_unlock(&n->wheel_lock);
	if (earlier)
		loop_wake(n);
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
		loop_wake(n);
}

static void cq_later(struct cq *cq, uint64_t ns)
{
	struct node *n = node_self();

	if (n)
		timers_add(n, &cq->timer, fire_cq, clock_now() + ns);
}

/* No queue uses the CQ any more, so nobody arms it anew. */
static void cq_drop(struct cq *cq)
{
	struct node *n = node_self();

	if (!n || !cq->moderate.period)
		return;
	spin_lock(&n->wheel_lock);
	wheel_del(&n->wheel, &cq->timer);
	publish_next(n);
	spin_unlock(&n->wheel_lock);
	quiesce_wait(); /* whoever has it on its list is done */
}

const struct cq_timers timers_of_cqs = { cq_later, cq_drop };

void timers_drop(struct eqp *e)
{
	struct node *n = e->node;

	spin_lock(&n->wheel_lock);
	wheel_del(&n->wheel, &e->timer);
	store_relaxed(&e->timer_at, TQP_NEVER);
	publish_next(n);
	spin_unlock(&n->wheel_lock);
}

void timers_run(struct node *n)
{
	uint64_t now;
	struct eqp *e, *next;
	struct cq *cq, *next_cq;

	if (likely(load_relaxed(&n->next_timer) == UINT64_MAX))
		return;
	now = clock_now();
	if (load_relaxed(&n->next_timer) > now || !spin_trylock(&n->wheel_lock))
		return;
	due = NULL;
	due_cqs = NULL;
	wheel_run(&n->wheel, now);
	publish_next(n);
	e = due;
	cq = due_cqs;
	spin_unlock(&n->wheel_lock);
	for (; e; e = next) {
		next = e->timer_due;
		store_release(&e->timer_queued, false); /* from here on it may fire anew */
		turn_note(e, TURN_TIMER);
	}
	for (; cq; cq = next_cq) {
		next_cq = cq->timer_due;
		store_release(&cq->timer_queued, false);
		cq_period_over(cq);
	}
	port_wait_run(n, now);
}

uint64_t timers_next(struct node *n)
{
	return load_acquire(&n->next_timer);
}
