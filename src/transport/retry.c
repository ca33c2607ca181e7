// SPDX-License-Identifier: MIT
#include "obs/verdict.h"
#include "transport/ack_timer.h"
#include "transport/apm.h"
#include "transport/blame.h"
#include "transport/completion.h"
#include "transport/congestion.h"
#include "transport/retry.h"
#include "transport/rewind.h"
#include "transport/sent.h"
#include "wire/aeth.h"

enum { REPEATS_MAX = 10 };
#define WATCH_IDLE 10000000000UL /* ns: without work for so long the watchdog sleeps */

/* Uses up a try. False: there was none left, and the oldest entry has failed. */
static bool try_again(struct tqp *q, uint64_t now)
{
	struct requester *r = &q->req;

	if (r->tries.left) {
		r->tries.left--;
		return true;
	}
	if (apm_exhausted(q, now))
		return true;
	if (r->head != r->tail)
		completion_fail(q, V_RETRY_EXCEEDED,
				blame_peer(q, sent_at(r, r->head), V_RETRY_EXCEEDED), now);
	return false;
}

void retry_sequence(struct tqp *q, uint64_t now)
{
	if (q->req.wait ||
	    (link_may_congest(q->dest) ? q->req.tries.gone_back : !try_again(q, now)))
		return;
	q->req.tries.gone_back = true;
	congestion_lost(q, 1);
	rewind_to(q, q->req.una);
	q->req.timer_at = TQP_NEVER;
	ack_timer_arm(q, now);
}

void retry_gap(struct tqp *q, uint64_t now)
{
	if (q->req.tries.overtaken)
		return; /* if the answer is lost again, the timeout notices */
	q->req.tries.overtaken = true;
	counters_inc(q->qp.ctx->hca->counters, COUNTER_IMPLIED_NAK_SEQ_ERR);
	retry_sequence(q, now);
}

void retry_rnr(struct tqp *q, uint8_t syndrome, uint64_t now)
{
	struct requester *r = &q->req;

	if (r->wait)
		return;
	counters_inc(q->qp.ctx->hca->counters, COUNTER_RNR_NAK_RETRY_ERR);
	r->tries.left = q->qp.attr.retry_cnt; /* the peer is there */
	verdict_say("RNR NAK, sent again later");
	if (!r->tries.rnr_left) {
		completion_fail(q, V_RNR_EXCEEDED,
				blame_peer(q, sent_at(r, r->head), V_RNR_EXCEEDED), now);
		return;
	}
	if (r->tries.rnr_left != 7)
		r->tries.rnr_left--;
	r->wait = WAIT_RNR;
	rnr_note(&q->waits, r->una, now);
	r->tries.end = TQP_NEVER;
	ack_timer_set(q, now + aeth_rnr_ns(aeth_code(syndrome)));
}

bool retry_elsewhere(struct tqp *q)
{
	if (likely(!q->dest || !dest_dead(q->dest)) || !q->env->again || !q->env->again(q))
		return false;
	if (q->req.wait == WAIT_LOST || (!q->req.wait && q->req.una != q->req.max_psn))
		rewind_go_on(q);
	return true;
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
		rewind_go_on(q);
		return;
	}
	if (now < r->tries.end) {
		counters_inc(q->qp.ctx->hca->counters, COUNTER_ROCE_ADP_RETRANS);
		if (r->tries.repeats)
			congestion_silence(q); /* the first repeat finds a single loss */
		r->tries.repeats += r->tries.repeats < REPEATS_MAX;
		r->tries.gone_back = false;
		rewind_go_on(q);
		return;
	}
	r->tries.end = TQP_NEVER;
	counters_inc(q->qp.ctx->hca->counters, COUNTER_LOCAL_ACK_TIMEOUT_ERR);
	if (!try_again(q, now))
		return;
	if (q->dest)
		dest_doubt(q->dest);
	retry_elsewhere(q);
	rewind_go_on(q);
}

/* Has the peer's process run since the last look, and been silent of what it had taken by then? */
static bool silent(struct tqp *q)
{
	struct requester *r = &q->req;
	struct watchdog *dog = &r->dog;
	bool stands = dog->waits && dog->una == r->una;

	dog->una = r->una;
	dog->waits = r->una != r->max_psn && !r->wait && !r->doubt;
	if (!dog->waits) {
		dog->mark = (struct link_mark){ 0 };
		return false;
	}
	return dest_has_taken(q->dest, &dog->mark) && stands;
}

void retry_watch(struct tqp *q, uint64_t now)
{
	struct requester *r = &q->req;
	struct watchdog *dog = &r->dog;
	bool going = q->qp.state == IBV_QPS_RTS || q->qp.state == IBV_QPS_SQD;

	q->watch_at = TQP_NEVER;
	if (r->una != r->max_psn || dog->una != r->una)
		dog->busy = now;
	if (!going || !link_is_lossless(q->dest) || now - dog->busy >= WATCH_IDLE) {
		dog->on = false;
		return;
	}
	if (silent(q)) {
		counters_inc(q->qp.ctx->hca->counters, COUNTER_LOCAL_ACK_TIMEOUT_ERR);
		if (!try_again(q, now))
			return;
		rewind_go_on(q);
	}
	ack_timer_watch(q, now);
}
