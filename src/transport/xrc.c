// SPDX-License-Identifier: MIT
#include "transport/xrc.h"
#include <errno.h>
#include <string.h>
#include "transport/answer.h"
#include "transport/blame.h"
#include "transport/flush.h"
#include "transport/hold.h"
#include "transport/place.h"
#include "wire/aeth.h"
#include "wire/opcode.h"

/* The domain does not have the SRQ that the request names, or not any more. Only the next request
 * is refused; the sender of another one is told that no responder is there. */
static void no_srq(struct tqp *q, const struct seg *s, const struct seg *rc, uint64_t now)
{
	struct grounds why = { GROUNDS_NO_SRQ, { s->srqn } };
	struct refusal no;

	if (s->psn != q->rsp.epsn) {
		if (answer_no_responder(s, why) == EAGAIN && q->env->no_responder_later)
			q->env->no_responder_later(q, s);
		return;
	}
	no = (struct refusal){ V_REMOTE_INVALID, blame_request(q, rc, why) };
	q->rsp.now = now;
	place_fail(q, &no, now);
	answer_nak(q, fate_at_responder(no.v, q->qp.service->reliable)->nak, q->rsp.epsn);
}

bool xrc_admit(struct tqp *q, const struct seg *s, struct seg *rc, uint64_t now)
{
	bool request = opcode_has(s->op, WIRE_REQUEST);

	if (request != !q->qp.service->sends) {
		counters_inc(q->qp.ctx->hca->counters, COUNTER_PORT_RCV_ERRORS);
		return false;
	}
	if (request)
		q->rsp.silent |= SILENT_IN_TURN;
	*rc = *s;
	if (opcode_service(s->op) != SVC_OWN)
		rc->op = opcode_operation(s->op);
	rc->flags &= (uint16_t)~SEG_ACK; /* a target QP has nothing to be acknowledged */
	if (!request || (q->qp.srq && !(q->rsp.strayed && s->psn == q->rsp.epsn)))
		return true;
	no_srq(q, s, rc, now);
	return false;
}

void xrc_bind(struct tqp *q, struct srq *srq)
{
	q->rsp.strayed = q->rsp.have_rwqe && q->qp.srq && srq != q->qp.srq;
	if (unlikely(q->rsp.strayed))
		return; /* the receive that is taken goes back to where it came from */
	store_relaxed(&q->qp.srq, srq); /* rq_waiters.c reads it outside the turn */
	if (!srq)
		return;
	q->qp.pd = srq->pd;
	q->qp.rcq = srq->cq;
	q->qp.uidx = srq->uidx;
}

void xrc_unbind(struct tqp *q, const struct srq *srq)
{
	if (q->qp.srq != srq)
		return;
	store_relaxed(&q->qp.srq, NULL);
	q->rsp.have_rwqe = false;
}

static int load_saved(struct tqp *q, const struct xrc_state *s)
{
	if (!s->nsaved && !q->rsp.reads)
		return 0;
	if (answer_reads(q))
		return ENOMEM;
	q->rsp.reads->nsaved = s->nsaved;
	memcpy(q->rsp.reads->saved, s->saved, sizeof(s->saved));
	return 0;
}

static enum ibv_mtu some_mtu(enum ibv_mtu m)
{
	return m >= IBV_MTU_256 && m <= IBV_MTU_4096 ? m : IBV_MTU_1024;
}

int xrc_load(struct tqp *q, const struct xrc_state *s, bool moved, uint64_t now)
{
	uint32_t state = s->state;
	int err;

	if (moved) {
		sender_forget(q);
		flush_rq(q, now);
		answer_forget(q);
		store_relaxed(&q->rnr_waiting, false);
		q->rsp.msg = MSG_NONE;
	}
	if (moved || q->rsp.epsn != (s->epsn & PSN_MASK))
		hold_forget(q);
	err = load_saved(q, s);
	if (err)
		return err;
	store_relaxed(&q->qp.state, state <= IBV_QPS_ERR ? state : IBV_QPS_ERR);
	q->qp.attr = s->attr;
	q->qp.attr.path_mtu = some_mtu(s->attr.path_mtu);
	q->req.mtu = qp_mtu(&q->qp);
	q->rsp.peer = q->qp.attr.dest_qp_num;
	q->rsp.epsn = s->epsn & PSN_MASK;
	q->rsp.msn = s->msn & PSN_MASK;
	q->rsp.comm_est = s->comm_est != 0;
	q->rsp.nak_sent = s->nak_sent != 0;
	return 0;
}

static void store_saved(const struct responder_reads *rd, struct xrc_state *s)
{
	uint32_t newest = (rd->nsaved - 1) % RESPONDER_DEPTH;

	if (unlikely(s->nsaved != rd->nsaved))
		memcpy(s->saved, rd->saved, sizeof(s->saved));
	else if (rd->nsaved)
		s->saved[newest].followed = rd->saved[newest].followed;
	s->nsaved = rd->nsaved;
}

void xrc_store(const struct tqp *q, struct xrc_state *s)
{
	if (q->rsp.reads)
		store_saved(q->rsp.reads, s);
	else
		s->nsaved = 0;
	s->state = q->qp.state;
	s->epsn = q->rsp.epsn;
	s->msn = q->rsp.msn;
	s->comm_est = q->rsp.comm_est;
	s->nak_sent = q->rsp.nak_sent;
}

void xrc_store_attr(const struct tqp *q, struct xrc_state *s)
{
	s->attr = q->qp.attr;
	xrc_store(q, s);
}
