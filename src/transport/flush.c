// SPDX-License-Identifier: MIT
#include "hca/async.h"
#include "link/parcel.h"
#include "obs/explain.h"
#include "transport/flush.h"
#include "transport/blocked.h"
#include "transport/inner.h"
#include "transport/receive.h"
#include "transport/sent.h"
#include "transport/tag_cqe.h"

void flush_event(struct tqp *q, enum ibv_event_type type)
{
	if (unlikely(q->env->event != NULL))
		q->env->event(q, type);
	else
		async_push(q->qp.ctx, type, q->qp.user);
}

static struct cqe flushed_send(const struct tqp *q, uint16_t block, uint8_t opcode, uint64_t now)
{
	const struct fate_code *f = fate_at_requester(V_FLUSHED);

	return (struct cqe){ .opcode = MLX5_CQE_REQ_ERR,
			     .syndrome = f->syndrome,
			     .vendor_err = f->vendor,
			     .wqe_opcode = opcode,
			     .wqe_counter = block,
			     .uidx = q->qp.uidx,
			     .qpn = q->qp.qpn,
			     .timestamp = now,
			     .reason = q->cause };
}

static void send_cqe(struct tqp *q, uint16_t block, uint8_t opcode, uint64_t now)
{
	struct cqe c = flushed_send(q, block, opcode, now);

	counters_inc(q->qp.ctx->hca->counters, COUNTER_REQ_CQE_FLUSH_ERROR);
	cq_push(q->qp.scq, &c); /* a CQ that is full loses it, as hardware's would */
}

void flush_send(struct tqp *q, const struct sent *e, uint64_t now)
{
	send_cqe(q, e->block, e->opcode, now);
}

void flush_sq(struct tqp *q, uint64_t now)
{
	struct requester *r = &q->req;
	uint16_t left;

	for (; r->head != r->tail; r->head++) {
		const struct sent *e = sent_at(r, r->head);

		if (likely(!(e->flags & SENT_INNER)))
			send_cqe(q, e->block, e->opcode, now);
	}
	if (unlikely(r->inner != NULL)) {
		struct cqe c = flushed_send(q, 0, 0, now);

		inner_flush(q, &c, now);
	}
	r->cur = r->head;
	r->reads = 0;
	while ((left = sent_posted(q))) {
		struct wqe w;

		wqe_peek(&q->qp.sq, r->next_block, &w);
		if (w.idx != r->next_block)
			break; /* the record counts blocks that nobody has written */
		send_cqe(q, r->next_block, w.opcode, now);
		r->next_block += w.nbb < left ? w.nbb : left;
	}
	r->una = r->max_psn;
	r->timer_at = TQP_NEVER;
	q->deadline = q->rsp.frames ? q->rsp.frames->at : TQP_NEVER;
	r->wait = WAIT_NOTHING;
}

static void receive_cqe(struct tqp *q, uint64_t now)
{
	const struct fate *f = fate_at_responder(V_FLUSHED, q->qp.service->reliable);
	struct cqe c = { .opcode = MLX5_CQE_RESP_ERR,
			 .syndrome = f->receive.syndrome,
			 .vendor_err = f->receive.vendor,
			 .wqe_counter = q->rsp.rwqe.idx,
			 .uidx = q->qp.uidx,
			 .qpn = q->qp.shown,
			 .timestamp = now,
			 .reason = q->cause };

	q->rsp.have_rwqe = false;
	counters_inc(q->qp.ctx->hca->counters, COUNTER_RESP_CQE_FLUSH_ERROR);
	cq_push(tag_cqe_route(q, &c), &c);
}

void flush_rq(struct tqp *q, uint64_t now)
{
	uint16_t left = q->qp.srq ? 0 : rq_posted(&q->qp.rq); /* the record may change meanwhile */

	if (q->rsp.have_rwqe)
		receive_cqe(q, now);
	for (; left && !receive_take(q); left--)
		receive_cqe(q, now);
}

void flush_shared(struct tqp *q, uint64_t now)
{
	if (q->qp.srq && q->rsp.have_rwqe)
		receive_cqe(q, now);
}

void flush_undrain(struct tqp *q)
{
	q->req.sqd.draining = q->req.sqd.stopped = false;
	q->qp.attr.sq_draining = 0;
}

void flush_all(struct tqp *q, uint64_t id, uint64_t now)
{
	store_relaxed(&q->qp.state, IBV_QPS_ERR);
	full_fence(); /* pairs with doorbell_rq(): it sees the state, or we its WQEs */
	q->cause = id;
	flush_undrain(q);
	store_relaxed(&q->rnr_waiting, false);
	flush_sq(q, now);
	flush_rq(q, now);
	if (q->qp.srq && q->qp.service->srq)
		flush_event(q, IBV_EVENT_QP_LAST_WQE_REACHED);
}

void flush_to_err(struct tqp *q, uint64_t id, uint64_t now)
{
	if (q->qp.state == IBV_QPS_ERR)
		return;
	flush_all(q, id, now);
	if (q->env->moved)
		q->env->moved(q);
}

void flush_to_sqe(struct tqp *q, uint64_t id, uint64_t now)
{
	store_relaxed(&q->qp.state, IBV_QPS_SQE);
	q->cause = id;
	flush_undrain(q);
	flush_sq(q, now);
	blocked_drop(q, &q->req.ud.full);
	/* What was done of the work request that failed is no part of the next one. */
	q->req.direct.done = 0;
	q->req.direct.waited = false;
	q->req.una = q->req.max_psn = q->req.next_psn = q->req.psn;
	if (q->env->moved)
		q->env->moved(q);
}

void flush_to_sqd(struct tqp *q)
{
	struct requester *r = &q->req;

	if (!q->qp.sig_pipelining || q->qp.state != IBV_QPS_RTS)
		return;
	store_relaxed(&q->qp.state, IBV_QPS_SQD);
	q->qp.attr.sq_draining = 1;
	r->sqd.draining = r->sqd.stopped = true;
	/* no direct access: an ACK ends the rest, and the event follows it */
	r->direct.exchanged = false;
}

void flush_drained(struct tqp *q)
{
	bool told = q->qp.attr.en_sqd_async_notify || q->req.sqd.stopped;

	if (!q->req.sqd.draining || q->req.head != q->req.tail)
		return;
	flush_undrain(q);
	if (told)
		flush_event(q, IBV_EVENT_SQ_DRAINED);
}

void flush_overrun(struct tqp *q, struct cq *cq, uint64_t now)
{
	bool misread = cq_misread(cq);

	if (q->qp.state == IBV_QPS_ERR)
		return;
	flush_event(q, IBV_EVENT_QP_FATAL);
	flush_to_err(q,
		     reason("CQ 0x%x of %u entries %s when QP 0x%x completes a work request; %s",
			    cq->cqn, cq->cnt, misread ? "has a wrong doorbell record" : "is full",
			    q->qp.qpn,
			    misread ? "store there how many entries were read"
				    : "poll more often or create it larger"),
		     now);
}
