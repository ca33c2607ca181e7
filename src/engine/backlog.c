// SPDX-License-Identifier: MIT
#include "engine/backlog.h"
#include <sched.h>
#include "engine/acks.h"
#include "engine/corks.h"
#include "engine/ready.h"
#include "engine/turn.h"
#include "util/clock.h"

static void flush(struct eqp **list, bool at_once)
{
	struct eqp *next;

	for (struct eqp *e = acks_take_all(list); e; e = next) {
		next = acks_unlist(e, at_once);
		turn_note(e, TURN_ACK);
	}
}

void backlog_acks(struct node *n)
{
	if (load_relaxed(&n->acks))
		flush(&n->acks, false);
}

void backlog_delayed_acks(struct node *n, bool all)
{
	flush(&n->delayed, all);
}

void backlog_corks(struct node *n)
{
	struct eqp *next;
	uint64_t now;

	if (likely(!load_relaxed(&n->corked)))
		return;
	now = clock_now();
	for (struct eqp *e = corks_take_all(n); e; e = next) {
		next = corks_unlist(e, now);
		turn_note(e, TURN_CORK);
	}
}

uint64_t backlog_deadline(const struct node *n)
{
	uint64_t acks = acks_deadline(n), corks = corks_deadline(n);

	return acks < corks ? acks : corks;
}

uint64_t backlog_ends_nap(const struct node *n)
{
	return acks_deadline(n);
}

void backlog_ready(struct node *n)
{
	struct eqp *next;
	uint32_t notes;

	if (likely(!load_relaxed(&n->ready)))
		return;
	for (struct eqp *e = ready_take_all(n); e; e = next) {
		next = ready_unlist(e, &notes);
		turn_note(e, notes);
	}
}

void backlog_end(struct node *n)
{
	quiesce_enter();
	backlog_corks(n);
	backlog_acks(n);
	backlog_delayed_acks(n, true);
	quiesce_exit();
	quiesce_wait();
}

void backlog_forget(struct eqp *e)
{
	while (load_acquire(&e->ack_listed) || load_acquire(&e->ready_listed) ||
	       load_acquire(&e->cork.listed)) {
		quiesce_enter();
		backlog_corks(e->node);
		backlog_acks(e->node);
		backlog_delayed_acks(e->node, true);
		backlog_ready(e->node);
		quiesce_exit();
		sched_yield();
	}
}
