// SPDX-License-Identifier: MIT
#include "obs/verdict.h"
#include "transport/ack_timer.h"
#include "transport/blame.h"
#include "transport/completer.h"
#include "transport/completion.h"
#include "transport/credit.h"
#include "transport/flush.h"
#include "transport/gather.h"
#include "transport/linear/linear.h"
#include "transport/place.h"
#include "transport/recovery.h"
#include "transport/retry.h"
#include "transport/rewind.h"
#include "transport/sent.h"
#include "util/be.h"
#include "wire/aeth.h"
#include "wire/opcode.h"
#include <errno.h>

/* Completes the entries that end before @psn; una stops at a READ or atomic without its answer. */
static void retire(struct tqp *q, uint32_t psn, uint64_t now)
{
	struct requester *r = &q->req;
	const struct sent *e;

	while (r->head != r->cur) {
		e = sent_at(r, r->head);
		if (psn_within(psn, e->psn, e->npsn)) {
			if (!(e->flags & SENT_READ))
				r->una = psn;
			return;
		}
		if ((e->flags & (SENT_READ | SENT_DONE)) == SENT_READ)
			return;
		r->una = psn_add(e->psn, e->npsn);
		completion_done(q, now);
		if (q->qp.state == IBV_QPS_ERR)
			return;
	}
	/* the segment in the middle of a message that is still being sent */
	if (r->head != r->tail && !(sent_at(r, r->head)->flags & SENT_READ))
		r->una = psn;
}

/* Moves una over the PSNs that are done (recovery.h), and completes the entries before it. */
static bool recovered(struct tqp *q, uint64_t now)
{
	struct requester *r = &q->req;
	uint32_t una = r->una, front = recovery_front(q);

	for (uint32_t i = r->head; i != r->cur; i++) {
		struct sent *e = sent_at(r, i);

		if (psn_after(psn_add(e->psn, e->npsn), front))
			break;
		if ((e->flags & (SENT_READ | SENT_DONE)) == SENT_READ) {
			e->flags |= SENT_DONE;
			r->reads--;
		}
	}
	retire(q, front, now);
	if (q->qp.state == IBV_QPS_ERR)
		return true;
	r->una = front; /* in the middle of a READ, too */
	if (recovery_heard(q) && una == front)
		ack_timer_heard(q, now);
	if (una == front)
		return false;
	r->direct.exchanged = true;
	ack_timer_progress(q, now);
	return true;
}

bool completer_acked(struct tqp *q, uint32_t psn, uint64_t now)
{
	struct requester *r = &q->req;

	if (unlikely(r->rec != NULL)) {
		recovery_acked(q, psn, now);
		return recovered(q, now);
	}
	uint32_t una = r->una;
	bool behind = ((psn - una) & PSN_MASK) > ((r->psn - una) & PSN_MASK);

	if (unlikely(behind)) /* sending went back before it came */
		rewind_to(q, psn);
	retire(q, psn, now);
	if (q->qp.state == IBV_QPS_ERR)
		return true;
	if (unlikely(behind) && r->una != psn)
		rewind_to(q, r->una);
	if (r->una == una)
		return false;
	r->direct.exchanged = true;
	ack_timer_progress(q, now);
	return true;
}

/* Was @psn sent, and not acknowledged yet? */
static bool expected(const struct tqp *q, uint32_t psn)
{
	const struct requester *r = &q->req;

	return psn_within(psn, r->una, (r->max_psn - r->una) & PSN_MASK);
}

/* An ACK that covers @psn. */
static void ack(struct tqp *q, uint32_t psn, uint64_t now)
{
	struct requester *r = &q->req;
	uint32_t end = psn_add(psn, 1);

	if (unlikely(!expected(q, psn))) {
		if (!psn_before(psn, r->max_psn))
			ack_timer_out_of_step(q, now);
		return;
	}
	if (unlikely(r->rec != NULL))
		recovery_missing(q, end);
	completer_acked(q, end, now);
	if (q->qp.state == IBV_QPS_ERR || r->rec || r->una == end || r->head == r->cur)
		return;
	const struct sent *e = sent_at(r, r->head);

	if ((e->flags & SENT_READ) && !(e->flags & SENT_DONE) &&
	    !psn_within(psn, e->psn, e->npsn)) {
		retry_gap(q, now);
	}
}

static const enum verdict nak_verdict[] = {
	[NAK_INVALID_REQUEST] = V_REMOTE_INVALID,
	[NAK_REMOTE_ACCESS] = V_REMOTE_ACCESS,
	[NAK_REMOTE_OPERATIONAL] = V_REMOTE_OP,
};

/* Is @psn, of which a NAK has come, the oldest entry's? Else a READ before it has no answer yet. */
static bool is_oldest(const struct tqp *q, uint32_t psn)
{
	const struct sent *e = sent_at(&q->req, q->req.head);

	return psn_within(psn, e->psn, e->npsn);
}

/* The entry at @psn was refused; those before it are done. */
static void refused(struct tqp *q, uint32_t psn, enum verdict v, uint64_t now)
{
	struct requester *r = &q->req;

	completer_acked(q, psn, now);
	if (q->qp.state == IBV_QPS_ERR || r->head == r->tail)
		return;
	if (!is_oldest(q, psn)) {
		retry_gap(q, now); /* a READ before it has lost its answer */
		return;
	}
	completion_fail(q, v, blame_peer(q, sent_at(r, r->head), v), now);
}

/* Nobody waits for receives while a READ before them has no answer. On one host none is lost: the
 * READ has been asked for again already (no_ref), and the RNR NAK comes again behind its answer. */
static void rnr(struct tqp *q, const struct seg *s, uint64_t now)
{
	completer_acked(q, s->psn, now);
	if (q->qp.state == IBV_QPS_ERR || q->req.head == q->req.tail)
		return;
	if (is_oldest(q, s->psn))
		retry_rnr(q, s->syndrome, now);
	else if (!link_is_lossless(q->dest))
		retry_gap(q, now);
}

static void nak(struct tqp *q, const struct seg *s, uint64_t now)
{
	uint8_t code = aeth_code(s->syndrome);

	if (code == NAK_PSN_SEQUENCE) {
		counters_inc(q->qp.ctx->hca->counters, COUNTER_PACKET_SEQ_ERR);
		verdict_say("NAK, sent again from here");
		completer_acked(q, s->psn, now);
		if (q->qp.state != IBV_QPS_ERR)
			retry_sequence(q, now);
	} else if (code < sizeof(nak_verdict) / sizeof(nak_verdict[0])) {
		refused(q, s->psn, nak_verdict[code], now);
	} else {
		refused(q, s->psn, V_BAD_RESPONSE, now);
	}
}

static bool is_notice(uint8_t syndrome)
{
	return syndrome >= SYN_RNR_CLEAR && syndrome <= SYN_NO_REF;
}

/* Takes a syndrome that RoCE does not have, of a peer on this host. True: it was one. A destination
 * behind faults has no notices (link_has_notices()), though the peer's own way here, past the
 * faults, brings them: there the timers count. */
static bool notice(struct tqp *q, const struct seg *s, uint64_t now)
{
	if (likely(!is_notice(s->syndrome)) || (s->flags & SEG_NET))
		return false;
	if (!link_has_notices(q->dest))
		return true;
	switch (s->syndrome) {
	case SYN_RNR_CLEAR:
		if (expected(q, s->psn)) {
			completer_acked(q, s->psn, now);
			rewind_clear(q);
		}
		break;
	case SYN_NO_RESPONDER:
		if (expected(q, s->psn))
			ack_timer_lost(q, now);
		break;
	case SYN_SOURCE_FAULT:
		if (expected(q, s->psn))
			refused(q, s->psn, V_LOCAL_PROT, now);
		break;
	case SYN_NO_REF:
		if (expected(q, s->psn)) {
			q->req.by_value = true;
			completer_acked(q, s->psn, now);
			rewind_to(q, q->req.una);
		}
	}
	return true;
}

static void acknowledge(struct tqp *q, const struct seg *s, uint64_t now)
{
	if (notice(q, s, now))
		return;
	if (aeth_kind(s->syndrome) == AETH_ACK) {
		credit_learn(q, s->syndrome, s->msn);
		ack(q, s->psn, now);
		return;
	}
	if (!expected(q, s->psn)) { /* an answer to an earlier try */
		if (aeth_kind(s->syndrome) == AETH_NAK)
			ack_timer_out_of_step(q, now);
		return;
	}
	if (aeth_kind(s->syndrome) == AETH_RNR)
		rnr(q, s, now);
	else if (aeth_kind(s->syndrome) == AETH_NAK)
		nak(q, s, now);
}

void completer_piggyback(struct tqp *q, const struct seg *s, uint64_t now)
{
	ack(q, s->ack_psn, now);
}

/* The answer's place is not simply memory. V_FLUSHED: a signature's fields are made from the data
 * before them, so what comes early is taken when it comes again. */
static enum verdict by_a_copy(struct tqp *q, const struct gather_ask *ask, const struct seg *s,
			      struct gather *g)
{
	if (g->why == KEY_SIGNED && s->psn != q->req.una)
		return V_FLUSHED;
	if (!linear_place(q, ask, s, 0, g))
		return V_LOCAL_PROT;
	if (q->linear.wrong) {
		flush_to_sqd(q);
		sent_unstart(q);
	}
	return V_OK;
}

/* Stores [skip, skip + len) of the answer to the entry at head. */
static enum verdict store(struct tqp *q, const struct sent *e, const struct seg *s, uint64_t *id)
{
	struct wqe w;
	struct gather g;
	struct gather_ask ask = { w.sge,
				  0,
				  (uint64_t)(psn_diff(s->psn, e->psn) & PSN_MASK) * q->req.mtu,
				  s->len,
				  sent_pdn(q, e),
				  IBV_ACCESS_LOCAL_WRITE };
	enum verdict v;
	int err;

	if (!sent_reread(q, e, &w)) {
		*id = blame_changed(q, &w);
		return V_LOCAL_QP_OP;
	}
	ask.n = w.nsge;
	if (!s->len)
		return V_OK;
	if (!gather(q->qp.ctx->hca->keys, &ask, &g)) {
		v = by_a_copy(q, &ask, s, &g);
		if (v == V_LOCAL_PROT)
			*id = blame_wqe(q, &w, v, &g);
		if (v != V_OK)
			return v;
	}
	err = place_copy(q, s, 0, &g);
	if (err == EFAULT) {
		*id = blame_wqe(q, &w, V_LOCAL_PROT, &g);
		return V_LOCAL_PROT;
	}
	if (err) { /* the next try asks for the bytes by value */
		q->req.no_ref = true;
		return V_FLUSHED;
	}
	return V_OK;
}

/* False: its length or its place are not those of an answer to @e. */
static bool sane(const struct tqp *q, const struct sent *e, const struct seg *s)
{
	uint32_t k = psn_diff(s->psn, e->psn) & PSN_MASK;
	uint64_t off = (uint64_t)k * q->req.mtu;
	uint32_t n = s->len <= q->req.mtu ? 1 : (s->len + q->req.mtu - 1) / q->req.mtu;
	bool end = k + n == e->npsn;
	bool last = opcode_has(s->op, WIRE_LAST);
	bool in_parts = link_is_of_packets(q->dest); /* the READ may have been several */

	if (e->opcode == WQE_OPCODE_ATOMIC_WRITE)
		return s->op == OP_READ_RESP_ONLY && !s->len && s->npsn == 1;
	if (e->opcode != MLX5_OPCODE_RDMA_READ)
		return s->op == OP_ATOMIC_ACK;
	return s->op != OP_ATOMIC_ACK && s->npsn == n && k + n <= e->npsn &&
	       (end ? off + s->len == e->len : !(s->len % q->req.mtu) && s->len) &&
	       (end ? last : in_parts || !last);
}

/* @n PSNs of the answer to the READ or atomic at head are here: una moves behind them. */
static void answered(struct tqp *q, struct sent *e, uint32_t n, uint64_t now)
{
	struct requester *r = &q->req;
	bool behind = ((r->psn - r->una) & PSN_MASK) < n; /* sending went back before it came */

	r->una = psn_add(r->una, n);
	r->direct.exchanged = true;
	if (r->una == psn_add(e->psn, e->npsn)) {
		e->flags |= SENT_DONE;
		r->reads -= !behind;
	}
	if (behind)
		rewind_to(q, r->una);
	ack_timer_progress(q, now);
	completer_acked(q, r->una, now);
}

/* READ responses and atomic answers of a peer that reports, in any order. A wrong answer, or one
 * that cannot be stored, fails its work request when that is the oldest. */
static void data_in_any_order(struct tqp *q, const struct seg *s, uint64_t now)
{
	struct requester *r = &q->req;
	uint64_t id = 0, orig = s->orig;
	struct seg atomic = { .data = (const uint8_t *)&orig, .len = sizeof(orig), .psn = s->psn };
	enum verdict v = V_BAD_RESPONSE;
	uint32_t i;
	struct sent *e;

	recovery_answered(q, s->psn, now);
	recovered(q, now);
	if (q->qp.state == IBV_QPS_ERR || !expected(q, s->psn) || recovery_has(q, s->psn))
		return;
	i = sent_find(r, s->psn);
	e = sent_at(r, i);
	if ((e->flags & SENT_READ) && sane(q, e, s))
		v = store(q, e, s->op == OP_ATOMIC_ACK ? &atomic : s, &id);
	if (v == V_OK) {
		recovery_here(q, s->psn, 1, now);
		recovered(q, now);
	} else if (v != V_FLUSHED && s->psn == r->una && i == r->head) {
		if (v == V_BAD_RESPONSE)
			id = blame_peer(q, e, v);
		completion_fail(q, v, id, now);
	}
}

/* READ responses and atomic answers: each must be the next PSN that is missing. */
static void data(struct tqp *q, const struct seg *s, uint64_t now)
{
	struct requester *r = &q->req;
	uint64_t id = 0, orig = s->orig;
	struct seg atomic = { .data = (const uint8_t *)&orig, .len = sizeof(orig), .psn = s->psn };
	struct sent *e;
	enum verdict v;

	if (!expected(q, s->psn))
		return;
	if (opcode_has(s->op, WIRE_AETH))
		credit_learn(q, s->syndrome, s->msn);
	if (unlikely(r->rec != NULL)) {
		data_in_any_order(q, s, now);
		return;
	}
	completer_acked(q, s->psn, now); /* an answer acknowledges everything before it */
	if (q->qp.state == IBV_QPS_ERR || r->head == r->tail)
		return;
	e = sent_at(r, r->head);
	if (s->psn != r->una) {
		retry_gap(q, now);
		return;
	}
	if (!(e->flags & SENT_READ) || !sane(q, e, s)) {
		completion_fail(q, V_BAD_RESPONSE, blame_peer(q, e, V_BAD_RESPONSE), now);
		return;
	}
	v = store(q, e, s->op == OP_ATOMIC_ACK ? &atomic : s, &id);
	if (v == V_OK)
		answered(q, e, s->op == OP_ATOMIC_ACK ? 1 : s->npsn, now);
	else if (v == V_FLUSHED)
		rewind_to(q, r->una); /* again, by value */
	else
		completion_fail(q, v, id, now);
}

static void report(struct tqp *q, const struct seg *s, uint64_t now)
{
	recovery_begin(q, true, now);
	if (!q->req.rec) {
		ack(q, psn_add(s->psn, PSN_MASK), now);
	} else if (recovery_reported(q, s, now)) {
		credit_learn(q, s->data[0], get_be24(s->data + 1));
		recovered(q, now);
	} else {
		counters_inc(q->qp.ctx->hca->counters, COUNTER_PORT_RCV_ERRORS);
		verdict_say("dropped, it reports what was never sent");
		ack_timer_out_of_step(q, now);
	}
}

/* Why the answer that follows is a refusal. It decides nothing. What is said of the oldest PSN
 * counts; and that nobody is there any more is no news, where he has said before why he left. */
static void grounds(struct tqp *q, const struct seg *s)
{
	struct requester *r = &q->req;
	bool told = r->told.what.code && expected(q, r->told.psn);
	struct grounds g;

	if (!expected(q, s->psn) || !s->data || !grounds_decode(s->data, s->len, &g))
		return;
	if (told && psn_after(s->psn, r->told.psn))
		return;
	if (told && s->psn == r->told.psn && !grounds_of_absence(&r->told.what) &&
	    grounds_of_absence(&g))
		return;
	r->told.what = g;
	r->told.psn = s->psn;
}

void completer_input(struct tqp *q, const struct seg *s, uint64_t now)
{
	if (q->qp.state != IBV_QPS_RTS && q->qp.state != IBV_QPS_SQD)
		return;
	if (s->op == OP_ACKNOWLEDGE)
		acknowledge(q, s, now);
	else if (s->op == OP_REPORT)
		report(q, s, now);
	else if (s->op == OP_GROUNDS)
		grounds(q, s);
	else
		data(q, s, now);
}
