// SPDX-License-Identifier: MIT
#include "engine/backlog.h"
#include <sched.h>
#include "engine/acks.h"
#include "engine/ready.h"
#include "engine/turn.h"

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
	backlog_acks(n);
	backlog_delayed_acks(n, true);
	quiesce_exit();
}

void backlog_forget(struct eqp *e)
{
	while (load_acquire(&e->ack_listed) || load_acquire(&e->ready_listed)) {
		quiesce_enter();
		backlog_acks(e->node);
		backlog_delayed_acks(e->node, true);
		backlog_ready(e->node);
		quiesce_exit();
		sched_yield();
	}
}
