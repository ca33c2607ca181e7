// SPDX-License-Identifier: MIT
#include "link/parcel.h"
#include "obs/explain.h"
#include "obs/verdict.h"
#include "transport/answer.h"
#include "transport/blame.h"
#include "transport/execute.h"
#include "transport/flush.h"
#include "transport/hold.h"
#include "transport/place.h"
#include "transport/receive.h"
#include "wire/aeth.h"
#include "wire/opcode.h"

static struct counters *counters(const struct tqp *q)
{
	return q->qp.ctx->hca->counters;
}

static void silence(struct tqp *q, uint8_t syndrome)
{
	q->rsp.nak_sent = true;
	answer_nak(q, syndrome, q->rsp.epsn);
}

static void refuse_request(struct tqp *q, const struct refusal *no, uint64_t now)
{
	uint8_t nak = fate_at_responder(no->v, true)->nak;

	place_fail(q, no, now);
	if (!nak && link_has_notices(q->dest))
		nak = SYN_NO_RESPONDER; /* nothing is lost there, so no timer runs without it */
	if (nak)
		answer_nak(q, nak, q->rsp.epsn);
	else
		answer_grounds(q, q->rsp.epsn);
}

/* Receives are posted without this QP's turn: the holder of the turn looks at the queue once more
 * after it has set rnr_waiting. */
static void no_receive(struct tqp *q, uint64_t now)
{
	counters_inc(counters(q), COUNTER_OUT_OF_BUFFER);
	verdict_say("RNR NAK, no receive is posted");
	store_relaxed(&q->rnr_waiting, link_has_notices(q->dest));
	rnr_note(&q->refused, q->rsp.epsn, now);
	if (q->qp.srq)
		q->rsp.grounds = (struct grounds){ GROUNDS_EMPTY_SRQ };
	silence(q, aeth_rnr(q->qp.attr.min_rnr_timer));
}

static void message(struct tqp *q, const struct seg *s, uint64_t now)
{
	struct refusal no;

	switch (place_segment(q, s, &no)) {
	case PLACE_DONE:
		receive_executed(q, s);
		receive_counted(q, s);
		answer_ack(q, s); /* first: the program may answer the completion by another QP */
		if (opcode_has(s->op, WIRE_LAST))
			place_complete(q, s, now);
		break;
	case PLACE_RNR:
		no_receive(q, now);
		break;
	case PLACE_NO_REF:
		silence(q, SYN_NO_REF);
		break;
	case PLACE_GONE:
		silence(q, SYN_SOURCE_FAULT);
		break;
	case PLACE_REFUSED:
		refuse_request(q, &no, now);
		break;
	}
}

/* The peer asks again: what is lacking now may be there then. */
static void no_memory(struct tqp *q)
{
	verdict_say("RNR NAK, no memory for the answer");
	q->rsp.grounds = (struct grounds){ GROUNDS_NO_MEMORY };
	silence(q, aeth_rnr(q->qp.attr.min_rnr_timer));
}

/* READ, atomics, atomic write: the answer is the acknowledgement. */
static void question(struct tqp *q, const struct seg *s, uint64_t now)
{
	struct answer a;
	struct refusal no;

	if (answer_reads(q)) {
		no_memory(q);
		return;
	}
	if (!execute(q, s, &a, &no)) {
		refuse_request(q, &no, now);
		return;
	}
	receive_executed(q, s);
	a.msn = q->rsp.msn;
	answer_add(q, &a);
}

static bool is_question(uint8_t op)
{
	return op == OP_READ_REQUEST || op == OP_COMPARE_SWAP || op == OP_FETCH_ADD ||
	       op == OP_ATOMIC_WRITE || opcode_is_masked(op);
}

static void duplicate(struct tqp *q, const struct seg *s)
{
	struct answer a;

	counters_inc(counters(q), COUNTER_DUPLICATE_REQUEST);
	verdict_say("duplicate");
	if (psn_after(psn_add(s->psn, s->npsn), q->rsp.epsn)) {
		silence(q, aeth_nak(NAK_PSN_SEQUENCE)); /* the peer sends the new tail again */
		return;
	}
	if (!is_question(s->op)) {
		answer_ack(q, s);
		return;
	}
	if (!execute_again(q, s, &a)) {
		if (link_has_notices(q->dest))
			answer_nak(q, SYN_NO_RESPONDER, s->psn); /* a wire's silence */
		return;
	}
	a.msn = q->rsp.msn;
	answer_add(q, &a);
}

static void keep(struct tqp *q, const struct seg *s)
{
	verdict_say("out of sequence, kept");
	if (!hold_keep(q, s))
		return;
	q->ack_due = true;
	answer_ack_now(q);
}

static void ahead(struct tqp *q, const struct seg *s)
{
	if (hold_able(q)) {
		keep(q, s);
		return;
	}
	verdict_say("out of sequence, dropped");
	if (q->rsp.nak_sent)
		return;
	counters_inc(counters(q), COUNTER_OUT_OF_SEQUENCE);
	silence(q, aeth_nak(NAK_PSN_SEQUENCE));
}

static void expected(struct tqp *q, const struct seg *s, uint64_t now)
{
	struct responder *r = &q->rsp;

	r->nak_sent = r->nak_due = false;
	if (unlikely(q->rnr_waiting))
		store_relaxed(&q->rnr_waiting, false);
	if (is_question(s->op))
		question(q, s, now);
	else
		message(q, s, now);
}

/* The next request, if it was kept. The first accepted packet may have shown since that another
 * sender's is among them. XRC: each request names its SRQ, which may be gone by now. */
static struct parcel *take_kept(struct tqp *q)
{
	struct parcel *p = hold_take(q);

	if (!p ||
	    (sender_is_known(q, &p->seg) && (!q->env->serve || q->env->serve(q, p->seg.srqn))))
		return p;
	parcel_free(p);
	return NULL;
}

/* @s fills the gap: executes it and the requests that were kept behind it. A request that is NAKed,
 * or whose SRQ is gone, is dropped: the peer sends it again. */
static void catch_up(struct tqp *q, const struct seg *s, uint64_t now)
{
	struct responder *r = &q->rsp;
	uint32_t psn = s->psn;
	struct parcel *p;

	r->catching_up = true;
	expected(q, s, now);
	if (r->epsn != psn)
		hold_passed(q, psn, s->npsn);
	while (r->epsn != psn && q->qp.state != IBV_QPS_ERR && (p = take_kept(q))) {
		psn = r->epsn;
		expected(q, &p->seg, now);
		if (r->epsn != psn)
			hold_passed(q, psn, p->seg.npsn);
		parcel_free(p);
	}
	r->catching_up = false;
	if (r->epsn == psn || q->qp.state == IBV_QPS_ERR)
		return; /* a NAK has left */
	q->ack_due = true;
	answer_ack_now(q);
}

void responder_input(struct tqp *q, const struct seg *s, uint64_t now)
{
	struct responder *r = &q->rsp;
	int32_t diff = psn_diff(s->psn, r->epsn);

	r->now = now;
	if (unlikely(q->qp.state == IBV_QPS_RTR && !r->comm_est)) {
		r->comm_est = true;
		flush_event(q, IBV_EVENT_COMM_EST);
	}
	if (unlikely(diff < 0)) {
		duplicate(q, s);
		return;
	}
	if (unlikely(diff > 0)) {
		ahead(q, s);
		return;
	}
	if (unlikely(hold_any(q)))
		catch_up(q, s, now);
	else
		expected(q, s, now);
}
