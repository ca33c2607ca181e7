// SPDX-License-Identifier: MIT
#include "engine/turn.h"
#include <errno.h>
#include <sched.h>
#include "engine/inbound.h"
#include "engine/loop.h"
#include "engine/rq_waiters.h"
#include "engine/timers.h"
#include "engine/xrc_target.h"
#include "obs/counters.h"
#include "util/clock.h"

#define ROUNDS	 32 /* of notes that one holder works off before it hands over */
#define ACK_HOLD 32 /* segments whose ACK may be held back for a piggyback */

void inbox_put(struct eqp *e, struct parcel *p)
{
	p->next = NULL;
	spin_lock(&e->inbox_lock);
	*e->inbox_end = p;
	e->inbox_end = &p->next;
	store_relaxed(&e->inbox_len, e->inbox_len + 1);
	spin_unlock(&e->inbox_lock);
}

static struct parcel *inbox_take_all(struct eqp *e)
{
	struct parcel *list;

	spin_lock(&e->inbox_lock);
	list = e->inbox;
	e->inbox = NULL;
	e->inbox_end = &e->inbox;
	store_relaxed(&e->inbox_len, 0);
	spin_unlock(&e->inbox_lock);
	return list;
}

static void list_ready(struct eqp *e)
{
	struct node *n = e->node;

	if (xchg_acq_rel(&e->ready_listed, 1))
		return;
	e->ready_next = load_relaxed(&n->ready);
	while (!cas_acq_rel(&n->ready, &e->ready_next, e))
		;
}

void turn_after(struct eqp *e)
{
	if (unlikely(e->q.again)) {
		e->q.again = false;
		store_relaxed(&e->go_on, true); /* read behind the exchange of ready_listed */
		list_ready(e);
		loop_wake(e->node);
	}
	if (e->q.ack_due) {
		if (++e->acks_held >= ACK_HOLD) {
			e->acks_held = 0;
			tqp_flush_ack(&e->q);
		}
	} else {
		e->acks_held = 0;
	}
	if (unlikely(e->q.rnr_waiting))
		rq_waiters_look(e);
	if (unlikely(e->q.deadline != TQP_NEVER))
		timers_arm(e, e->q.deadline);
}

void turn_input(struct eqp *e, const struct seg *s, uint64_t now)
{
	if (unlikely(e->xrc != NULL))
		xrc_target_input(e, s, now);
	else
		tqp_input(&e->q, s, now);
}

static void work_inbox(struct eqp *e, uint64_t now)
{
	struct parcel *next;

	for (struct parcel *p = inbox_take_all(e); p; p = next) {
		next = p->next;
		turn_input(e, &p->seg, now);
		turn_after(e);
		parcel_free(p);
	}
}

/* Unless the program may still reply. */
static void let_ack_go(struct eqp *e, uint64_t now)
{
	if (tqp_ack_waits(&e->q) && now < load_relaxed(&e->hold_end)) {
		inbound_list_held(e);
		return;
	}
	e->acks_held = 0;
	tqp_flush_ack(&e->q);
}

static void work(struct eqp *e, uint32_t notes)
{
	uint64_t now = clock_now();

	if (notes & TURN_INBOX)
		work_inbox(e, now);
	if (notes & TURN_RESUME)
		tqp_resume(&e->q, now);
	if (notes & TURN_DEATH)
		tqp_peer_dead(&e->q, now);
	if (notes & TURN_TIMER)
		tqp_timer(&e->q, now);
	if (notes & TURN_SQ)
		tqp_doorbell(&e->q, now);
	if (notes & TURN_RQ)
		tqp_rq_doorbell(&e->q, now);
	/* Whoever left the parcels may have looked for ACKs to flush already, and may sleep. */
	if ((notes & (TURN_ACK | TURN_INBOX)) && e->q.ack_due)
		let_ack_go(e, now);
	turn_after(e);
}

/* Too many notes for one holder: the turn is free again, the engine goes on with the notes. */
static void hand_over(struct eqp *e)
{
	list_ready(e);
	fetch_and_acq_rel(&e->turn, ~(uint32_t)TURN_HELD);
	/* Who took it off the list before the turn was free went away again, since it was held. */
	if (load_acquire(&e->ready_listed))
		host_ring_self(e->node->host);
	else
		turn_note(e, 0);
}

void turn_leave(struct eqp *e)
{
	for (unsigned int round = 0;; round++) {
		uint32_t seen = TURN_HELD;

		if (likely(cas_acq_rel(&e->turn, &seen, 0)))
			return;
		if (seen & TURN_CLOSED)
			return; /* turn_close() waits for nobody: we are it */
		if (round == ROUNDS) {
			hand_over(e);
			return;
		}
		work(e, xchg_acq_rel(&e->turn, TURN_HELD) & ~(uint32_t)TURN_HELD);
	}
}

/* A free turn without notes is the rule, and takes one locked operation. */
static bool take_idle(struct eqp *e)
{
	uint32_t idle = 0;

	return likely(cas_acq_rel(&e->turn, &idle, TURN_HELD));
}

void turn_note(struct eqp *e, uint32_t notes)
{
	uint32_t old;

	if (take_idle(e)) {
		work(e, notes);
		turn_leave(e);
		return;
	}
	old = fetch_or_acq_rel(&e->turn, TURN_HELD | notes);
	if (old & (TURN_HELD | TURN_CLOSED))
		return; /* the holder sees the note when it leaves */
	work(e, xchg_acq_rel(&e->turn, TURN_HELD) & ~(uint32_t)TURN_HELD);
	turn_leave(e);
}

bool turn_try(struct eqp *e)
{
	uint32_t old;

	if (take_idle(e))
		return true;
	old = fetch_or_acq_rel(&e->turn, TURN_HELD);
	if (old & (TURN_HELD | TURN_CLOSED))
		return false;
	if (unlikely(old)) /* what came before goes first */
		work(e, xchg_acq_rel(&e->turn, TURN_HELD) & ~(uint32_t)TURN_HELD);
	return true;
}

void turn_catch_up(struct eqp *e)
{
	uint32_t notes = fetch_and_acq_rel(&e->turn, (uint32_t)TURN_HELD) & ~(uint32_t)TURN_HELD;

	if (notes)
		work(e, notes);
}

void turn_take(struct eqp *e)
{
	while (fetch_or_acq_rel(&e->turn, TURN_HELD) & TURN_HELD)
		sched_yield();
}

void turn_close(struct eqp *e)
{
	struct parcel *next;

	turn_take(e);
	fetch_or_acq_rel(&e->turn, TURN_CLOSED);
	for (struct parcel *p = inbox_take_all(e); p; p = next) {
		next = p->next;
		/* its sender may have no timer of its own */
		if (tqp_no_responder(&p->seg) == EAGAIN && e->q.env->no_responder_later)
			e->q.env->no_responder_later(&e->q, &p->seg);
		parcel_free(p);
	}
}

void turn_run_ready(struct node *n)
{
	struct eqp *next;

	if (likely(!load_relaxed(&n->ready)))
		return;
	for (struct eqp *e = xchg_acq_rel(&n->ready, NULL); e; e = next) {
		next = e->ready_next;
		xchg_acq_rel(&e->ready_listed, 0);
		turn_note(e, xchg_acq_rel(&e->go_on, false) ? TURN_RESUME : 0);
	}
}
