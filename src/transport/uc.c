// SPDX-License-Identifier: MIT
#include "obs/verdict.h"
#include "transport/flush.h"
#include "transport/place.h"
#include "transport/uc.h"
#include "wire/aeth.h"
#include "wire/opcode.h"

enum { LATE_MAX = 4096 }; /* PSNs by which a packet may be behind those that overtook it */

/* Is the packet a duplicate, or behind its successors? UC delivers nothing twice or out of order. A
 * packet that is further behind is the first of a sender that has begun anew. */
static bool late(const struct tqp *q, const struct seg *s)
{
	int32_t behind = psn_diff(q->rsp.epsn, s->psn);

	return behind > 0 && behind <= LATE_MAX;
}

/* Drops the rest of the message; its receive WQE serves the next one. */
static void skip_message(struct tqp *q, const struct seg *s)
{
	q->rsp.msg = opcode_has(s->op, WIRE_LAST) ? MSG_NONE : MSG_SKIP;
}

/* False: the segment belongs to a message that is lost. */
static bool in_order(struct tqp *q, const struct seg *s)
{
	struct responder *r = &q->rsp;
	bool gap = s->psn != r->epsn, first = opcode_has(s->op, WIRE_FIRST);

	if (gap) {
		counters_inc(q->qp.ctx->hca->counters, COUNTER_OUT_OF_SEQUENCE);
		verdict_say("out of sequence");
		r->msg = MSG_NONE;
	}
	r->epsn = psn_add(s->psn, s->npsn);
	if (first)
		r->msg = MSG_NONE;
	return first || (!gap && r->msg != MSG_NONE && r->msg != MSG_SKIP);
}

static void input(struct tqp *q, const struct seg *s, uint64_t now)
{
	struct refusal no;

	if (unlikely(q->qp.state == IBV_QPS_RTR && !q->rsp.comm_est)) {
		q->rsp.comm_est = true;
		flush_event(q, IBV_EVENT_COMM_EST);
	}
	if (late(q, s)) {
		counters_inc(q->qp.ctx->hca->counters, COUNTER_OUT_OF_SEQUENCE);
		verdict_say("a duplicate, or overtaken");
		return;
	}
	if (!in_order(q, s)) {
		skip_message(q, s);
		return;
	}
	switch (place_segment(q, s, &no)) {
	case PLACE_DONE:
		moved_add(&q->tally.received, s->len, s->npsn);
		if (opcode_has(s->op, WIRE_LAST))
			place_complete(q, s, now);
		break;
	case PLACE_RNR:
		counters_inc(q->qp.ctx->hca->counters, COUNTER_OUT_OF_BUFFER);
		drop_say(q, s, DROP_NO_RECEIVE);
		skip_message(q, s);
		break;
	case PLACE_NO_REF:
	case PLACE_GONE:
		skip_message(q, s);
		break;
	case PLACE_REFUSED:
		place_fail(q, &no, now);
		drop_refused(q, s);
		skip_message(q, s);
		break;
	}
}

void uc_input(struct tqp *q, const struct seg *s, uint64_t now)
{
	input(q, s, now);
	if (q->executed) /* pairs with caught_up() in shm_access.c */
		store_release(q->executed, q->rsp.epsn + 1);
}
