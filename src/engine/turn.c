// SPDX-License-Identifier: MIT
#include "engine/turn.h"
#include <errno.h>
#include <sched.h>
#include "engine/acks.h"
#include "engine/inbox.h"
#include "engine/ready.h"
#include "engine/rq_waiters.h"
#include "engine/timers.h"
#include "engine/wake.h"
#include "transport/receive.h"
#include "util/clock.h"
#include "util/reentry.h"

#define ROUNDS	 32 /* of notes that one holder works off before it hands over */
#define ACK_OWED 32 /* segments whose ACK may wait for a segment that carries it */

void turn_after(struct eqp *e)
{
	if (unlikely(e->q.again)) {
		e->q.again = false;
		store_relaxed(&e->go_on, true); /* read behind the exchange of ready_listed */
		ready_put(e);
		wake_engine(e->node);
	}
	if (e->q.ack_due) {
		if (++e->acks_owed >= ACK_OWED) {
			e->acks_owed = 0;
			tqp_flush_ack(&e->q);
		}
	} else {
		e->acks_owed = 0;
	}
	if (unlikely(e->q.rnr_waiting) && rq_waiters_add(e))
		fetch_or_acq_rel(&e->turn, TURN_RQ); /* turn_leave() sees it */
	if (unlikely(e->q.deadline != TQP_NEVER))
		timers_arm(e, e->q.deadline);
}

void turn_input(struct eqp *e, const struct seg *s, uint64_t now)
{
	if (unlikely(e->ops != NULL))
		e->ops->input(e, s, now);
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
	receive_let_go(&e->q); /* other notes may take long */
}

static void let_ack_go(struct eqp *e, uint64_t now)
{
	if (tqp_ack_waits(&e->q) && acks_wait_on(e, now))
		return;
	e->acks_owed = 0;
	tqp_flush_ack(&e->q);
}

static void work(struct eqp *e, uint32_t notes)
{
	uint64_t now;

	if (notes == TURN_SQ && tqp_doorbell_timeless(&e->q)) {
		turn_after(e);
		return;
	}
	now = clock_now();
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
	if (notes & TURN_CORK)
		tqp_uncork(&e->q);
	if (notes & TURN_RQ)
		tqp_rq_doorbell(&e->q, now);
	/* The thread that left the parcels may have looked for ACKs already, and may sleep. */
	if ((notes & (TURN_ACK | TURN_INBOX)) && e->q.ack_due)
		let_ack_go(e, now);
	turn_after(e);
}

/* Too many notes for one holder: it frees the turn, and the engine goes on with the notes. */
static void hand_over(struct eqp *e)
{
	ready_put(e);
	fetch_and_acq_rel(&e->turn, ~(uint32_t)TURN_HELD);
	/* A thread that took the QP off the list before the turn was free could do nothing. */
	if (load_acquire(&e->ready_listed))
		host_ring_self(e->node->host);
	else
		turn_note(e, 0);
}

/* Something waits: segments behind seg.more, or notes of others. */
static void leave_slowly(struct eqp *e)
{
	for (unsigned int round = 0;; round++) {
		uint32_t seen = TURN_HELD;

		tqp_settle(&e->q);
		if (cas_acq_rel(&e->turn, &seen, 0))
			return;
		if (seen & TURN_CLOSED)
			return; /* the caller is turn_close() itself */
		if (round == ROUNDS) {
			hand_over(e);
			return;
		}
		work(e, xchg_acq_rel(&e->turn, TURN_HELD) & ~(uint32_t)TURN_HELD);
	}
}

void turn_leave(struct eqp *e)
{
	uint32_t seen = TURN_HELD;

	if (unlikely(e->q.unsettled) || unlikely(!cas_acq_rel(&e->turn, &seen, 0)))
		leave_slowly(e);
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
	if (unlikely(old)) /* earlier notes go first */
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
	struct reentry r = { 0 };

	while (fetch_or_acq_rel(&e->turn, TURN_HELD) & TURN_HELD) {
		sched_yield();
		reentry_look(&r);
	}
}

void turn_close(struct eqp *e)
{
	struct parcel *next;

	turn_take(e);
	fetch_or_acq_rel(&e->turn, TURN_CLOSED);
	for (struct parcel *p = inbox_take_all(e); p; p = next) {
		next = p->next;
		/* the sender may have no timer of its own */
		if (tqp_no_responder(&p->seg, GROUNDS_NO_QP) == EAGAIN &&
		    e->q.env->no_responder_later)
			e->q.env->no_responder_later(&e->q, &p->seg);
		parcel_free(p);
	}
}
