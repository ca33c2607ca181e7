// SPDX-License-Identifier: MIT
#include "engine/acks.h"
#include "util/clock.h"

#define DELAY 50000 /* ns that an ACK waits for the program's reply: two wakes cost as much */

/* @end: is told the time of the first QP on the list; NULL: the list has no time. */
static void list_ack(struct eqp **list, struct eqp *e, uint64_t *end)
{
	if (load_acquire(&e->ack_listed)) /* pairs with acks_unlist() */
		return;
	store_relaxed(&e->ack_listed, 1); /* only under the QP's turn */
	e->ack_next = load_relaxed(list);
	if (end && !e->ack_next)
		store_relaxed(end, load_relaxed(&e->ack_delay_end));
	/* seq_cst: before acks_must_go() and look_at_delayed() read n->asleep (progress.c) */
	while (!cas_seq_cst(list, &e->ack_next, e))
		;
}

void acks_later(struct tqp *q)
{
	struct eqp *e = to_eqp(q);

	list_ack(&e->node->acks, e, NULL);
}

void acks_delay_until(struct eqp *e, uint64_t end)
{
	store_relaxed(&e->ack_delay_end, end);
	list_ack(&e->node->delayed, e, &e->node->delay_end);
}

bool acks_delay(struct tqp *q)
{
	struct eqp *e = to_eqp(q);

	if (load_relaxed(&e->node->led))
		return false; /* the program sleeps: no reply is near */
	acks_delay_until(e, clock_now() + DELAY);
	return true;
}

bool acks_wait_on(struct eqp *e, uint64_t now)
{
	if (now >= load_relaxed(&e->ack_delay_end))
		return false;
	list_ack(&e->node->delayed, e, &e->node->delay_end);
	return true;
}

uint64_t acks_deadline(const struct node *n)
{
	return likely(!load_relaxed(&n->delayed)) ? UINT64_MAX : load_relaxed(&n->delay_end);
}

struct eqp *acks_take_all(struct eqp **list)
{
	return xchg_acq_rel(list, NULL);
}

struct eqp *acks_unlist(struct eqp *e, bool at_once)
{
	struct eqp *next = e->ack_next;

	if (at_once)
		store_relaxed(&e->ack_delay_end, 0);
	store_release(&e->ack_listed, 0);
	return next;
}
