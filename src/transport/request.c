// SPDX-License-Identifier: MIT
#include "transport/request.h"
#include <errno.h>
#include "transport/ack_timer.h"
#include "transport/answer.h"
#include "transport/blame.h"
#include "transport/blocked.h"
#include "transport/completion.h"
#include "transport/congestion.h"
#include "transport/pace.h"
#include "transport/recovery.h"
#include "wire/opcode.h"

bool request_fail(struct tqp *q, const struct wqe *w, enum verdict v, const struct gather *g,
		  uint64_t now)
{
	if (q->req.cur != q->req.head)
		return false;
	completion_fail(q, v, blame_wqe(q, w, v, g), now);
	return q->env->spare && q->qp.state != IBV_QPS_ERR;
}

int request_emit(struct tqp *q, struct seg *s, uint64_t now)
{
	struct requester *r = &q->req;
	bool ack = q->ack_due && link_carries_acks(q->dest) && answer_idle(q);
	int err;

	if (ack) {
		s->flags |= SEG_ACK;
		s->ack_psn = psn_add(q->rsp.epsn, PSN_MASK);
		s->ack_msn = q->rsp.msn;
	}
	if (unlikely(q->rsp.ack_delayed))
		answer_ahead(q, s->op);
	s->more = q->dest && q->dest->ops->flush;
	err = q->dest ? dest_send(q->dest, s, &q->waiter) : ENETUNREACH;
	if (!err) {
		if (unlikely(r->pace.kbps))
			pace_sent(q, s->len, s->len ? s->npsn : 1, now);
		if (link_may_congest(q->dest) && (s->flags & SEG_ACKREQ))
			congestion_asked(q, s->psn, now);
		r->unflushed = s->more;
		blocked_over(q, q->dest);
		if (ack)
			q->ack_due = false;
		return 0;
	}
	if (err == EAGAIN)
		return blocked_begin(q, q->dest, s->dqpn, now) ? ENETUNREACH : EAGAIN;
	if (err != EFAULT && q->qp.service->reliable)
		ack_timer_lost(q, now);
	return err;
}

void request_sent(struct tqp *q, const struct sent *e, uint32_t psn, uint64_t now)
{
	struct requester *r = &q->req;
	bool read = e->flags & SENT_READ;

	if ((read || r->psn == e->psn) && r->psn == r->max_psn)
		r->credit.sent = psn_add(r->credit.sent, 1);
	if (unlikely(r->rec != NULL))
		recovery_sent(q, r->psn, (psn - r->psn) & PSN_MASK, read, now);
	r->psn = psn;
	if (((psn - r->una) & PSN_MASK) > ((r->max_psn - r->una) & PSN_MASK))
		r->max_psn = psn;
}
