// SPDX-License-Identifier: MIT
#include "engine/delivery.h"
#include <errno.h>
#include "engine/inbox.h"
#include "engine/publish.h"
#include "engine/tracing.h"
#include "engine/turn.h"
#include "engine/unanswered.h"
#include "transport/drop.h"
#include "transport/receive.h"
#include "util/clock.h"
#include "wire/opcode.h"

/* The QP whose turn this thread keeps between segments, and the time at which it took the turn: to
 * read the clock costs as much as a tenth of a segment's work. */
static __thread struct {
	struct eqp *e;
	uint64_t now;
} kept __attribute__((tls_model("initial-exec")));

void delivery_release(void)
{
	struct eqp *e = kept.e;

	kept.e = NULL;
	if (e)
		turn_leave(e);
}

/* The QP is busy: the holder of its turn takes the parcel. False: the inbox is full, or no memory
 * is left. */
static bool leave_parcel(struct eqp *e, const struct seg *s)
{
	struct parcel *p;

	if (load_relaxed(&e->inbox_len) >= INBOX_MAX || parcel_make(s, false, &p))
		return false;
	inbox_put(e, p);
	turn_note(e, TURN_INBOX);
	return true;
}

/* This thread has taken the turn of @e, and keeps it. */
static void keep(struct eqp *e)
{
	kept.e = e;
	kept.now = clock_now();
	if (unlikely(!e->met))
		publish_met(e);
}

/* Takes the turn of @e for this drain. False: it is busy, and has the segment as a parcel. */
static bool take(struct eqp *e, const struct seg *s)
{
	delivery_release();
	if (!turn_try(e)) {
		if (!tracing() && leave_parcel(e, s))
			return false;
		turn_take(e); /* the holder waits for no thread that is in a drain */
		turn_catch_up(e);
	}
	keep(e);
	return true;
}

/* The services whose number alone does not say which QP a segment is for, a bit for each code. */
#define SHARED_SERVICES (1U << (SVC_XRC >> 5) | 1U << (SVC_DC >> 5))

/* A connection to a DC target has a responder of its own. */
static struct eqp *responder_find(struct node *n, const struct seg *s)
{
	struct eqp *e = node_qp(n, s->dqpn);

	if (!e || !e->ops || !e->ops->find)
		return e;
	delivery_release(); /* it makes one */
	return e->ops->find(e, s);
}

/* A request for an XRC target QP belongs to its domain, an answer to an XRC_SEND QP of ours. */
static struct eqp *shared_find(struct node *n, const struct seg *s)
{
	struct eqp *(*find)(struct node * n, const struct seg *s);

	if (opcode_service(s->op) == SVC_DC)
		return responder_find(n, s);
	if (!opcode_has(s->op, WIRE_REQUEST))
		return node_qp(n, s->dqpn);
	find = load_acquire(&n->find_shared); /* pairs with xrc/xrc_domain.c */
	return find ? find(n, s) : NULL;
}

void delivery_to_qp(struct node *n, uint32_t qpn, const struct seg *s)
{
	struct eqp *e =
		unlikely(SHARED_SERVICES >> (s->op >> 5) & 1) ? shared_find(n, s) : node_qp(n, qpn);

	if (unlikely(!e)) {
		drop_nobody(&n->nobody, s);
		if (tqp_no_responder(s, GROUNDS_NO_QP) == EAGAIN)
			unanswered_put(n, s);
		return;
	}
	if (kept.e != e) {
		if (!take(e, s))
			return;
	} else if (unlikely(load_relaxed(&e->turn) & TURN_INBOX)) {
		turn_catch_up(e); /* never past a parcel that another drain left before */
		kept.now = clock_now(); /* what it did is not later than what follows */
	} else if (unlikely((s->flags & SEG_NET) && opcode_has(s->op, WIRE_RESPONSE))) {
		kept.now = clock_now(); /* round trips are measured */
	}
	turn_input(e, s, kept.now);
	turn_after(e);
}

bool delivery_lacks_receive(struct node *n, const struct seg *s)
{
	struct eqp *e = receive_may_lack(s) ? node_qp(n, s->dqpn) : NULL;

	if (!e)
		return false;
	if (kept.e != e) {
		delivery_release();
		if (!turn_try(e))
			return false; /* it keeps a parcel */
		keep(e);
	}
	return receive_lacks(&e->q);
}

bool delivery_expects(struct node *n, const struct seg *s, uint32_t *epsn, uint32_t *una)
{
	bool ordered = opcode_service(s->op) == SVC_RC || opcode_service(s->op) == SVC_UC;
	struct eqp *e = ordered ? node_qp(n, s->dqpn) : NULL;

	if (!e || (kept.e != e && !take(e, s)))
		return false;
	*epsn = e->q.rsp.epsn;
	*una = e->q.req.una;
	return true;
}
