// SPDX-License-Identifier: MIT
#include "xrc/xrc_responder.h"
#include <errno.h>
#include "engine/path.h"
#include "engine/unanswered.h"
#include "hca/async.h"
#include "transport/tqp.h"
#include "xrc/xrc_handle.h"
#include "xrc/xrc_srq_table.h"
#include "xrc/xrc_turn.h"

static void vanish(struct eqp *e, const struct seg *s)
{
	if (tqp_no_responder(s, GROUNDS_NO_QP) == EAGAIN)
		unanswered_later(&e->q, s);
}

static struct srq *srq_of(const struct xrc_target *x, uint32_t srqn)
{
	struct srq *srq = xrc_srq_table_find(x->e.node, srqn);

	return srq && srq->xrcd->domain == x->domain ? srq : NULL;
}

bool xrc_responder_serve(struct tqp *q, uint32_t srqn)
{
	xrc_bind(q, srq_of(to_xrc(to_eqp(q)), srqn));
	return q->qp.srq;
}

/* Takes the shared turn and loads what other members have done. False: the segment is dropped. */
static bool arrive(struct xrc_target *x, const struct seg *s, uint64_t now)
{
	if (!xrc_turn_begin(x))
		return false;
	if (!xrc_turn_catch_up(x, now) && xrc_turn_shared(x)->qpn == s->dqpn)
		return true;
	xrc_turn_end(x);
	return false;
}

/* The way back, which each member finds for itself. */
static void find_way(struct eqp *e)
{
	struct ibv_qp_attr a = e->q.qp.attr;
	struct dest *d = NULL;

	if (!path_of_modify(e, &a, IBV_QP_AV, false, &d) && d)
		e->q.dest = d;
}

void xrc_responder_input(struct eqp *e, const struct seg *s, uint64_t now)
{
	struct xrc_target *x = to_xrc(e);
	bool inside = arrive(x, s, now);

	if (unlikely(inside && !e->q.dest)) {
		xrc_turn_end(x); /* find_way() may ask the kernel: other members need not wait */
		find_way(e);
		inside = arrive(x, s, now);
	}
	if (!inside) {
		vanish(e, s);
		return;
	}
	xrc_responder_serve(&e->q, s->srqn);
	comp_delay(); /* the program's reply goes by another QP: it must not overtake the ACK */
	tqp_input(&e->q, s, now);
	xrc_store(&e->q, &xrc_turn_shared(x)->state);
	xrc_turn_end(x);
	tqp_release(&e->q);
	comp_release();
}

/* The protocol put the QP in ERR. A thread that waited for the link finds that out later. */
void xrc_responder_moved(struct tqp *q)
{
	struct xrc_target *x = to_xrc(to_eqp(q));

	if (x->inside || !xrc_turn_begin(x))
		return;
	if (xrc_turn_shared(x)->gen == x->gen && xrc_turn_shared(x)->moves == x->moves)
		xrc_turn_shared(x)->state.state = IBV_QPS_ERR;
	xrc_turn_end(x);
}

void xrc_responder_event(struct tqp *q, enum ibv_event_type type)
{
	for (struct xrc_handle *h = to_xrc(to_eqp(q))->handles; h; h = h->next)
		async_push(h->ctx, type, h->user);
}
