// SPDX-License-Identifier: MIT
#include "obs/verdict.h"
#include "transport/apm.h"
#include "transport/blame.h"
#include "transport/completer.h"
#include "transport/congestion.h"
#include "transport/recovery.h"
#include "transport/retry.h"
#include "transport/rtt.h"
#include "wire/aeth.h"

static void set_timer(struct tqp *q, uint64_t at)
{
	q->req.timer_at = at;
	if (at < q->deadline)
		q->deadline = at;
}

enum { PATIENCE = 2, REPEATS_MAX = 10 };

/* ns */
#define REPEAT_UNKNOWN	50000000UL /* while no round trip was measured */
#define REPEAT_MIN	2000000UL /* what a scheduler takes at times */
#define REPEAT_MIN_BACK 8000000UL /* where repeating means a whole window */
#define REPEAT_MAX	1000000000UL

/* How long one of retry_cnt's tries takes. The specification lets it be up to four times what the
 * attribute says: on a network each try waits longer than the one before, since a peer that lost
 * its core or a path that is jammed is not helped by more packets. */
static uint64_t timeout_ns(const struct tqp *q)
{
	uint64_t ns = aeth_timeout_ns(q->qp.attr.timeout);
	unsigned int tried = q->qp.attr.retry_cnt - q->req.retries;

	if (ns == UINT64_MAX || !q->dest || !q->dest->net)
		return ns;
	return ns << (tried < PATIENCE ? tried : PATIENCE);
}

static uint64_t later(uint64_t now, uint64_t ns)
{
	return ns == UINT64_MAX ? TQP_NEVER : now + ns;
}

/* How long to wait until what stands at una goes out again, which uses up no try. */
static uint64_t repeat_ns(const struct tqp *q)
{
	uint64_t ns = rtt_overdue_ns(q), min = q->req.rec ? REPEAT_MIN : REPEAT_MIN_BACK;

	ns = !ns ? REPEAT_UNKNOWN : ns < min ? min : ns;
	ns = ns < REPEAT_MAX ? ns << q->req.repeats : REPEAT_MAX;
	return ns < REPEAT_MAX ? ns : REPEAT_MAX;
}

void retry_arm(struct tqp *q, uint64_t now)
{
	struct requester *r = &q->req;
	uint64_t at;

	if (r->wait || !qp_reliable(&q->qp))
		return;
	if (r->una == r->max_psn || !q->dest || q->dest->same_host) {
		r->timer_at = r->try_at = TQP_NEVER;
		return;
	}
	if (r->timer_at != TQP_NEVER)
		return;
	if (r->try_at == TQP_NEVER)
		r->try_at = later(now, timeout_ns(q));
	at = q->dest->net ? now + repeat_ns(q) : TQP_NEVER;
	set_timer(q, at < r->try_at ? at : r->try_at);
}

void retry_lost(struct tqp *q, uint64_t now)
{
	struct requester *r = &q->req;

	if (r->wait == WAIT_LOST)
		return;
	r->wait = WAIT_LOST;
	r->try_at = later(now, aeth_timeout_ns(q->qp.attr.timeout));
	set_timer(q, r->try_at);
}

void retry_progress(struct tqp *q, uint64_t now)
{
	struct requester *r = &q->req;
	/* An ACK that was held back comes after the word that what follows it is lost. */
	bool lost = r->wait == WAIT_LOST && r->una != r->max_psn;

	if (q->dest && q->dest->net) {
		rtt_acked(q, now);
		congestion_progress(q, now);
	}
	r->retries = q->qp.attr.retry_cnt;
	r->rnr_retries = q->qp.attr.rnr_retry;
	r->timer_at = r->try_at = TQP_NEVER;
	r->repeats = 0;
	r->wait = WAIT_NOTHING;
	r->gap = false;
	if (lost)
		retry_lost(q, now);
	else
		retry_arm(q, now);
}

void retry_heard(struct tqp *q, uint64_t now)
{
	if (q->req.wait)
		return;
	q->req.retries = q->qp.attr.retry_cnt;
	q->req.timer_at = q->req.try_at = TQP_NEVER;
	q->req.repeats = 0;
	retry_arm(q, now);
}

void retry_back(struct tqp *q, uint32_t psn)
{
	struct requester *r = &q->req;
	uint32_t i = r->head;

	rtt_forget(q);
	if (r->rec) {
		recovery_all_again(q);
		return;
	}
	r->psn = psn;
	r->reads = 0;
	for (; i != r->tail; i++) {
		const struct sent *e = requester_entry(r, i);

		if (psn_within(psn, e->psn, e->npsn) || (!e->npsn && !(e->flags & SENT_DONE)))
			break; /* local work before it is done, or waits for its turn */
		if ((e->flags & (SENT_READ | SENT_DONE)) == SENT_READ)
			r->reads++;
	}
	r->cur = i;
}

/* One try fewer. False: that was the last, and the oldest entry has failed. */
static bool try_again(struct tqp *q, uint64_t now)
{
	struct requester *r = &q->req;

	if (r->retries) {
		r->retries--;
		return true;
	}
	if (apm_exhausted(q, now))
		return true;
	if (r->head != r->tail)
		completer_fail(q, V_RETRY_EXCEEDED,
			       blame_peer(q, requester_entry(r, r->head), V_RETRY_EXCEEDED), now);
	return false;
}

void retry_sequence(struct tqp *q, uint64_t now)
{
	if (q->req.wait || (!(q->dest && q->dest->net) && !try_again(q, now)))
		return;
	congestion_lost(q, 1);
	retry_back(q, q->req.una);
	q->req.timer_at = TQP_NEVER;
	retry_arm(q, now);
}

void retry_gap(struct tqp *q, uint64_t now)
{
	if (q->req.gap)
		return; /* if it is lost again the timeout finds out */
	q->req.gap = true;
	counters_inc(q->qp.ctx->hca->counters, COUNTER_IMPLIED_NAK_SEQ_ERR);
	retry_sequence(q, now);
}

void retry_rnr(struct tqp *q, uint8_t syndrome, uint64_t now)
{
	struct requester *r = &q->req;

	if (r->wait)
		return;
	counters_inc(q->qp.ctx->hca->counters, COUNTER_RNR_NAK_RETRY_ERR);
	verdict_say("RNR NAK, sent again later");
	if (!r->rnr_retries) {
		completer_fail(q, V_RNR_EXCEEDED,
			       blame_peer(q, requester_entry(r, r->head), V_RNR_EXCEEDED), now);
		return;
	}
	if (r->rnr_retries != 7)
		r->rnr_retries--;
	r->wait = WAIT_RNR;
	r->try_at = TQP_NEVER;
	set_timer(q, now + aeth_rnr_ns(aeth_code(syndrome)));
}

static void go_on(struct tqp *q)
{
	q->req.wait = WAIT_NOTHING;
	q->req.timer_at = TQP_NEVER;
	rtt_forget(q);
	if (q->req.rec)
		recovery_again(q);
	else
		retry_back(q, q->req.una);
}

void retry_clear(struct tqp *q)
{
	if (q->req.wait != WAIT_LOST)
		go_on(q);
}

void retry_timer(struct tqp *q, uint64_t now)
{
	struct requester *r = &q->req;

	if (now < r->timer_at) {
		q->deadline = r->timer_at;
		return;
	}
	q->deadline = TQP_NEVER;
	if (r->wait == WAIT_RNR) {
		go_on(q);
		return;
	}
	if (now < r->try_at) {
		counters_inc(q->qp.ctx->hca->counters, COUNTER_ROCE_ADP_RETRANS);
		if (r->repeats)
			congestion_silence(
				q); /* not the first: what is lost alone is found by it */
		r->repeats += r->repeats < REPEATS_MAX;
		go_on(q);
		return;
	}
	r->try_at = TQP_NEVER;
	counters_inc(q->qp.ctx->hca->counters, COUNTER_LOCAL_ACK_TIMEOUT_ERR);
	if (try_again(q, now))
		go_on(q);
}
