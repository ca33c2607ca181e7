// SPDX-License-Identifier: MIT
#include "engine/progress.h"
#include "engine/acks.h"
#include "engine/backlog.h"
#include "engine/delivery.h"
#include "engine/leader.h"
#include "engine/links.h"
#include "engine/port_events.h"
#include "engine/timers.h"
#include "engine/turn.h"
#include "engine/unanswered.h"
#include "link/fault.h"
#include "util/clock.h"

#define BUDGET	64 /* segments of this host in one round */
#define HELD_UP 100000000 /* ns: timers wait so long for a thread that has packets in its hands */

/* ACKs wait for what the program sends next, until a drain finds nothing. But this thread may not
 * drain again, and if the engine sleeps no other would. One that is awake looks before it sleeps
 * (loop.c), and a leader that ends wakes it. */
static bool acks_must_go(struct node *n)
{
	return load_relaxed(&n->acks) && load_seq_cst(&n->asleep) != LOOP_AWAKE && !leader_is_me();
}

/* The same for the delayed ones, and as long as they wait. */
static void look_at_delayed(struct node *n)
{
	bool all = load_seq_cst(&n->asleep) != LOOP_AWAKE || load_relaxed(&n->led);

	if (all || acks_deadline(n) <= clock_now())
		backlog_delayed_acks(n, all);
}

/* No answer is overdue while it lies unread: after a while without a core there are many. */
static bool caught_up(struct node *n, uint64_t now)
{
	bool all = !load_relaxed(&n->networks) || links_catch_up(n);

	delivery_release();
	return all || now - load_relaxed(&n->next_timer) >= HELD_UP;
}

static void run_timers(struct node *n)
{
	uint64_t now = clock_now();
	struct timers_due due;
	struct eqp *next;
	struct cq *next_cq;

	if (load_relaxed(&n->next_timer) > now || !caught_up(n, now) || !timers_take(n, now, &due))
		return;
	for (struct eqp *e = due.qps; e; e = next) {
		next = timers_next_qp(e);
		turn_note(e, TURN_TIMER);
	}
	for (struct cq *cq = due.cqs; cq; cq = next_cq) {
		next_cq = timers_next_cq(cq);
		cq_period_over(cq);
	}
	port_events_retry(n, now);
}

void progress_watch(struct node *n, uint64_t now)
{
	struct eqp *next;

	if (likely(timers_next_watch(n) > now))
		return;
	quiesce_enter();
	for (struct eqp *e = timers_take_watches(n, now); e; e = next) {
		next = timers_next_qp(e);
		turn_note(e, TURN_TIMER);
	}
	quiesce_exit();
}

unsigned int progress_round(struct node *n)
{
	unsigned int got;

	if (unlikely(load_relaxed(&n->corked)))
		backlog_corks(n);
	fault_progress();
	got = host_drain(n->host, BUDGET);
	if (unlikely(load_relaxed(&n->networks) != 0))
		got += links_poll(n, got);
	delivery_release();
	if (!got || acks_must_go(n))
		backlog_acks(n);
	if (unlikely(load_relaxed(&n->delayed) != NULL))
		look_at_delayed(n);
	if (unlikely(unanswered_any(n)))
		unanswered_tell(n);
	backlog_ready(n);
	if (unlikely(load_relaxed(&n->next_timer) != UINT64_MAX))
		run_timers(n);
	return got;
}

unsigned int progress_network(struct node *n, enum links_sources which)
{
	unsigned int got = links_drain(n, which);

	delivery_release();
	return got;
}
