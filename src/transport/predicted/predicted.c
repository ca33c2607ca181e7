// SPDX-License-Identifier: MIT
#include "transport/predicted/predicted.h"
#include "prm/wqe_single.h"
#include "transport/answer.h"
#include "transport/completer.h"
#include "transport/congestion.h"
#include "transport/hold.h"
#include "transport/inner.h"
#include "transport/place.h"
#include "transport/receive.h"
#include "transport/request.h"
#include "util/guard.h"
#include "wire/opcode.h"

/* Is the next work request a SEND? Most that are not predicted fail here. */
static bool may_be_send(const struct tqp *q)
{
	return wqe_single_opcode(&q->qp.sq, q->req.next_block) == MLX5_OPCODE_SEND;
}

/* Has the requester nothing else to do, and needs no time to be told? */
static bool may_send(const struct tqp *q)
{
	const struct requester *r = &q->req;

	return q->qp.state == IBV_QPS_RTS && q->dest && q->dest->ops->send_plain && r->sent &&
	       r->cur == r->tail && !r->blocked && !r->wait && !r->doubt && !r->rec &&
	       !r->pace.kbps && !r->arming && r->dog.on && r->timer_at == TQP_NEVER &&
	       !inner_waits(q) && !q->unsettled && !q->rsp.unreplied && !q->rsp.ack_delayed;
}

/* Is there room for one more request? */
static bool room(const struct tqp *q)
{
	const struct requester *r = &q->req;

	return r->tail - r->head <= r->mask &&
	       ((r->psn - r->una) & PSN_MASK) < congestion_window(q);
}

bool predicted_is_rc(const struct tqp *q)
{
	const struct service *svc = q->qp.service;

	/* DC has the packets of RC, but other WQEs. */
	return svc->wire == SVC_RC && svc->wqe == WQE_CONNECTED && q->qp.sq.cnt && !q->qp.laid_open;
}

bool predicted_piece(const struct tqp *q, const struct wqe_single *w, unsigned int need,
		     struct piece *out)
{
	struct key_ask ask = { w->sge.key, q->qp.pd->pdn, w->sge.addr, w->sge.len, need };

	*out = (struct piece){ w->sge.addr, w->sge.len, 0 };
	return w->inlined || key_check(q->qp.ctx->hca->keys, &ask, &out->addr) == KEY_OK;
}

struct sent *predicted_sent(struct tqp *q, const struct wqe_single *w)
{
	struct requester *r = &q->req;
	struct sent *e = sent_at(r, r->tail++);

	*e = (struct sent){ .block = r->next_block,
			    .opcode = MLX5_OPCODE_SEND,
			    .psn = r->next_psn,
			    .npsn = 1,
			    .len = w->sge.len };
	if (w->signaled || q->qp.sq_sig_all)
		e->flags = SENT_SIGNALED;
	r->cur++;
	r->next_psn = psn_add(r->next_psn, 1);
	r->next_block += w->nbb;
	return e;
}

static void sent(struct tqp *q, const struct wqe_single *w)
{
	const struct sent *e = predicted_sent(q, w);

	q->req.unflushed = true;
	request_sent(q, e, q->req.next_psn, 0);
}

/* Sends the next work request, of @avail posted blocks. */
static bool send_next(struct tqp *q, uint16_t avail)
{
	struct wqe_single w;
	struct piece piece;
	struct seg s;
	bool ack;

	if (!wqe_single_send(&q->qp.sq, q->req.next_block, q->qp.qpn, &w) || w.nbb > avail ||
	    w.sge.len > q->req.mtu || w.sge.len > q->dest->inline_max ||
	    !predicted_piece(q, &w, 0, &piece))
		return false;
	ack = q->ack_due && answer_idle(q);
	request_fill(q, &s, OP_SEND_ONLY);
	s.flags = (uint16_t)(SEG_SQPN | SEG_ACKREQ | (w.solicited ? SEG_SOLICITED : 0) |
			     (ack ? SEG_ACK : 0));
	s.syndrome = 0;
	s.npsn = 1;
	s.len = w.sge.len;
	s.pieces = &piece;
	s.npieces = 1;
	s.ack_psn = ack ? psn_add(q->rsp.epsn, PSN_MASK) : 0;
	s.ack_msn = ack ? q->rsp.msn : 0;
	if (q->dest->ops->send_plain(q->dest, &s))
		return false;
	q->ack_due = q->ack_due && !ack;
	sent(q, &w);
	return true;
}

bool predicted_doorbell(struct tqp *q)
{
	uint16_t avail;

	if (!predicted_is_rc(q))
		return false;
	avail = sent_posted(q);
	if ((avail && !may_be_send(q)) || !may_send(q))
		return false;
	for (; avail; avail = sent_posted(q))
		if (!room(q) || !send_next(q, avail))
			return false;
	if (q->req.unflushed) {
		q->req.unflushed = false;
		q->dest->ops->flush(q->dest);
	}
	return true;
}

/* From the peer, with nothing but payload and an ACK, and the next one */
static bool is_usual(const struct tqp *q, const struct seg *s)
{
	const uint16_t other = (uint16_t) ~(SEG_SQPN | SEG_ACKREQ | SEG_SOLICITED | SEG_ACK);

	return s->op == (OP_SEND_ONLY | SVC_RC) && receive_from_peer(q, s) && !(s->flags & other) &&
	       s->psn == q->rsp.epsn && s->npsn == 1 && s->len && s->len <= q->req.mtu &&
	       s->pkey == 0xffff && !s->marked;
}

/* May the QP's next message come this way? */
static bool may_receive(const struct tqp *q)
{
	const struct responder *r = &q->rsp;
	enum ibv_qp_state state = q->qp.state;

	return (state == IBV_QPS_RTS || (state == IBV_QPS_RTR && r->comm_est)) &&
	       q->qp.service->wire == SVC_RC && !q->qp.srq && !load_relaxed(&q->qp.inlines) &&
	       r->msg == MSG_NONE && !r->have_rwqe && !q->req.arming && !hold_any(q);
}

bool predicted_room(const struct tqp *q, struct key_ask *ask, uint64_t *addr)
{
	const struct rq *rq = &q->qp.rq;
	struct sge sge;

	if (!rq_posted(rq) || !rwqe_single(&rq->ring, rq->head, &sge) || ask->len > sge.len)
		return false;
	ask->key = sge.key;
	ask->va = sge.addr;
	return key_check(q->qp.ctx->hca->keys, ask, addr) == KEY_OK;
}

/* Copies it into the next receive, which is not taken yet. */
static bool place(struct tqp *q, const struct seg *s)
{
	struct key_ask ask = { .pdn = q->qp.pd->pdn,
			       .len = s->len,
			       .need = IBV_ACCESS_LOCAL_WRITE };
	uint64_t addr;

	return predicted_room(q, &ask, &addr) &&
	       !guard_copy((void *)(uintptr_t)addr, s->data, s->len);
}

bool predicted_receive(struct tqp *q, const struct seg *s, uint64_t now)
{
	struct responder *r = &q->rsp;

	if (!is_usual(q, s) || !may_receive(q) || !place(q, s))
		return false;
	if (s->flags & SEG_ACK) {
		completer_piggyback(q, s, now);
		if (unlikely(q->qp.state == IBV_QPS_ERR))
			return false; /* all receives are flushed, this one too */
	}
	r->now = now;
	r->nak_sent = r->nak_due = false;
	if (unlikely(q->rnr_waiting))
		store_relaxed(&q->rnr_waiting, false);
	r->rwqe.idx = q->qp.rq.head++;
	r->got = s->len;
	receive_executed(q, s);
	receive_counted(q, s);
	answer_ack(q, s); /* first: the program may answer the completion by another QP */
	place_complete(q, s, now);
	return true;
}
