// SPDX-License-Identifier: MIT
#include "engine/timers.h"
#include "engine/wake.h"
#include "util/clock.h"

/* Looks of the watchdog begin with slots of the wheel: 67 ms. */
#define LOOKS_NS (UINT64_C(1) << (WHEEL_SHIFT + 2 * WHEEL_BITS))

/* What the run under way has found, collected under the wheel's lock. */
static __thread struct timers_due found __attribute__((tls_model("initial-exec")));
/* This thread runs the watches: it asks when the next one is due before it sleeps. */
static __thread bool watches __attribute__((tls_model("initial-exec")));

static void queue(struct eqp *e)
{
	if (load_acquire(&e->timer_queued))
		return; /* another thread has the QP in its list, and has not come to it */
	e->timer_queued = true;
	e->timer_due = found.qps;
	found.qps = e;
}

static void fire(struct timer *t, uint64_t now __attribute__((unused)))
{
	struct eqp *e = container_of(t, struct eqp, timer);

	store_relaxed(&e->timer_at, TQP_NEVER);
	queue(e);
}

static void fire_watch(struct timer *t, uint64_t now __attribute__((unused)))
{
	queue(container_of(t, struct eqp, watch));
}

static void fire_cq(struct timer *t, uint64_t now __attribute__((unused)))
{
	struct cq *cq = container_of(t, struct cq, timer);

	if (load_acquire(&cq->timer_queued))
		return;
	cq->timer_queued = true;
	cq->timer_due = found.cqs;
	found.cqs = cq;
}

static void publish_next(struct node *n)
{
	store_release(&n->next_timer, wheel_next(&n->wheel));
}

/* Under wheel_lock, which it drops. */
static void add_and_unlock(struct node *n, struct timer *t, uint64_t at)
{
	bool earlier;

	wheel_add(&n->wheel, t, at);
	earlier = at < load_relaxed(&n->next_timer);
	publish_next(n);
	spin_unlock(&n->wheel_lock);
	if (earlier)
		wake_engine(n);
}

void timers_add(struct node *n, struct timer *t, void (*fire_it)(struct timer *, uint64_t),
		uint64_t at)
{
	spin_lock(&n->wheel_lock);
	t->fire = fire_it;
	add_and_unlock(n, t, at);
}

void timers_arm(struct eqp *e, uint64_t at)
{
	struct node *n = e->node;

	if (load_relaxed(&e->timer_at) <= at)
		return;
	spin_lock(&n->wheel_lock);
	store_relaxed(&e->timer_at, at);
	e->timer.fire = fire;
	add_and_unlock(n, &e->timer, at);
}

void timers_run_watches(void)
{
	watches = true;
}

/* Not before its time, and with others: a look is worth no wake of its own, nor those at which the
 * wheel would put it into finer slots. */
void timers_watch(struct tqp *q)
{
	struct eqp *e = to_eqp(q);
	struct node *n = e->node;
	uint64_t at = (q->watch_at + LOOKS_NS - 1) / LOOKS_NS * LOOKS_NS;
	bool earlier;

	spin_lock(&n->wheel_lock);
	e->watch.fire = fire_watch;
	wheel_add(&n->watches, &e->watch, at);
	earlier = at < n->next_watch;
	store_release(&n->next_watch, wheel_next(&n->watches));
	spin_unlock(&n->wheel_lock);
	if (earlier && !watches)
		wake_engine(n);
}

static void cq_later(struct cq *cq, uint64_t ns)
{
	struct node *n = node_self();

	if (!n)
		return;
	store_relaxed(&cq->timed, true);
	timers_add(n, &cq->timer, fire_cq, clock_now() + ns);
}

/* No queue uses the CQ any more, so no thread arms it anew. Moderation may be off by now, and the
 * timer run all the same. */
static void cq_drop(struct cq *cq)
{
	struct node *n = node_self();

	if (!n || !load_relaxed(&cq->timed))
		return;
	spin_lock(&n->wheel_lock);
	wheel_del(&n->wheel, &cq->timer);
	publish_next(n);
	spin_unlock(&n->wheel_lock);
	quiesce_wait(); /* a thread that has the CQ in its list is done with it */
}

const struct cq_timers timers_of_cqs = { cq_later, cq_drop };

void timers_drop(struct eqp *e)
{
	struct node *n = e->node;

	spin_lock(&n->wheel_lock);
	wheel_del(&n->wheel, &e->timer);
	store_relaxed(&e->timer_at, TQP_NEVER);
	publish_next(n);
	wheel_del(&n->watches, &e->watch);
	spin_unlock(&n->wheel_lock);
}

bool timers_take(struct node *n, uint64_t now, struct timers_due *out)
{
	if (load_relaxed(&n->next_timer) > now || !spin_trylock(&n->wheel_lock))
		return false;
	found = (struct timers_due){ 0 };
	wheel_run(&n->wheel, now);
	publish_next(n);
	*out = found;
	spin_unlock(&n->wheel_lock);
	return true;
}

struct eqp *timers_take_watches(struct node *n, uint64_t now)
{
	struct eqp *first;

	if (load_relaxed(&n->next_watch) > now)
		return NULL;
	spin_lock(&n->wheel_lock);
	found = (struct timers_due){ 0 };
	wheel_run(&n->watches, now);
	store_release(&n->next_watch, wheel_next(&n->watches));
	first = found.qps;
	spin_unlock(&n->wheel_lock);
	return first;
}

struct eqp *timers_next_qp(struct eqp *e)
{
	struct eqp *next = e->timer_due;

	store_release(&e->timer_queued, false);
	return next;
}

struct cq *timers_next_cq(struct cq *cq)
{
	struct cq *next = cq->timer_due;

	store_release(&cq->timer_queued, false);
	return next;
}

uint64_t timers_next(struct node *n)
{
	return load_acquire(&n->next_timer);
}

uint64_t timers_next_watch(struct node *n)
{
	return load_acquire(&n->next_watch);
}
