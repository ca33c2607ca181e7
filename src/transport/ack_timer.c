// SPDX-License-Identifier: MIT
#include "transport/ack_timer.h"
#include "transport/congestion.h"
#include "transport/rtt.h"
#include "wire/aeth.h"

enum { PATIENCE = 2 };

/* ns */
#define REPEAT_UNKNOWN	50000000UL /* while no round trip is measured */
#define REPEAT_MIN	2000000UL /* a scheduler may take as long */
#define REPEAT_MIN_BACK 8000000UL /* where a whole window is repeated */
#define REPEAT_MAX	1000000000UL
#define WATCH_MIN	2000000000UL /* a whole peer may have no core for as long */

void ack_timer_set(struct tqp *q, uint64_t at)
{
	q->req.timer_at = at;
	if (at < q->deadline)
		q->deadline = at;
}

/* The time of one of retry_cnt's tries. The specification allows up to four times the attribute:
 * where packets may be lost, each try waits longer than the one before, since more of them do not
 * help a peer that has lost its core, nor a path that is jammed. A peer that reports losses needs
 * no try to repeat them, so each takes all of it: it may be stopped for as long. */
static uint64_t timeout_ns(const struct tqp *q)
{
	uint64_t ns = aeth_timeout_ns(q->qp.attr.timeout);
	unsigned int tried = q->qp.attr.retry_cnt - q->req.tries.left;

	if (ns != UINT64_MAX && link_reports_loss(q->dest))
		return ns << PATIENCE;
	if (ns == UINT64_MAX || link_is_lossless(q->dest))
		return ns;
	return ns << (tried < PATIENCE ? tried : PATIENCE);
}

static uint64_t later(uint64_t now, uint64_t ns)
{
	return ns == UINT64_MAX ? TQP_NEVER : now + ns;
}

/* The time after which the segment at una is repeated, which uses up no try. */
static uint64_t repeat_ns(const struct tqp *q)
{
	uint64_t ns = rtt_overdue_ns(q), min = q->req.rec ? REPEAT_MIN : REPEAT_MIN_BACK;

	ns = !ns ? REPEAT_UNKNOWN : ns < min ? min : ns;
	ns = ns < REPEAT_MAX ? ns << q->req.tries.repeats : REPEAT_MAX;
	return ns < REPEAT_MAX ? ns : REPEAT_MAX;
}

/* Each look is a try. They are far apart, since on one host silence is rarer than a busy core. */
static uint64_t watch_ns(const struct tqp *q)
{
	uint64_t ns = aeth_timeout_ns(q->qp.attr.timeout), min;

	if (ns == UINT64_MAX)
		return ns;
	min = WATCH_MIN / (q->qp.attr.retry_cnt + 1U);
	ns <<= PATIENCE;
	return ns > min ? ns : min;
}

void ack_timer_watch(struct tqp *q, uint64_t now)
{
	q->watch_at = later(now, watch_ns(q));
	if (q->watch_at != TQP_NEVER && q->env->watch)
		q->env->watch(q);
}

static void watch_begin(struct tqp *q, uint64_t now)
{
	struct requester *r = &q->req;

	if (r->una == r->max_psn || !link_is_lossless(q->dest))
		return;
	r->dog = (struct watchdog){ .on = true, .busy = now };
	ack_timer_watch(q, now);
}

void ack_timer_arm(struct tqp *q, uint64_t now)
{
	struct requester *r = &q->req;
	uint64_t at;

	if (r->wait || !q->qp.service->reliable)
		return;
	if (r->una == r->max_psn || !q->dest || (link_is_lossless(q->dest) && !r->doubt)) {
		r->timer_at = r->tries.end = TQP_NEVER;
		if (unlikely(!r->dog.on))
			watch_begin(q, now);
		return;
	}
	if (r->timer_at != TQP_NEVER)
		return;
	if (r->tries.end == TQP_NEVER)
		r->tries.end = later(now, timeout_ns(q));
	at = link_may_congest(q->dest) ? now + repeat_ns(q) : TQP_NEVER;
	ack_timer_set(q, at < r->tries.end ? at : r->tries.end);
}

void ack_timer_lost(struct tqp *q, uint64_t now)
{
	struct requester *r = &q->req;

	if (r->wait == WAIT_LOST)
		return;
	r->wait = WAIT_LOST;
	if (!r->doubt)
		r->doubt = DOUBT_PEER;
	r->tries.end = later(now, aeth_timeout_ns(q->qp.attr.timeout));
	ack_timer_set(q, r->tries.end);
}

void ack_timer_out_of_step(struct tqp *q, uint64_t now)
{
	struct requester *r = &q->req;

	if (!q->dest || r->una == r->max_psn || r->wait)
		return;
	if (link_is_lossless(q->dest))
		ack_timer_lost(q, now);
	else if (r->direct.exchanged)
		return; /* an answer that was late */
	r->doubt = DOUBT_PSN;
}

void ack_timer_progress(struct tqp *q, uint64_t now)
{
	struct requester *r = &q->req;
	/* A delayed ACK may come after the notice that the segments behind it are lost. */
	bool lost = r->wait == WAIT_LOST && r->una != r->max_psn;

	if (link_may_congest(q->dest)) {
		rtt_acked(q, now);
		congestion_progress(q, now);
	}
	r->tries.left = q->qp.attr.retry_cnt;
	r->tries.rnr_left = q->qp.attr.rnr_retry;
	r->timer_at = r->tries.end = TQP_NEVER;
	r->tries.repeats = 0;
	r->wait = WAIT_NOTHING;
	r->tries.overtaken = r->tries.gone_back = false;
	r->doubt = DOUBT_NOTHING;
	r->elsewhere = false;
	if (lost)
		ack_timer_lost(q, now);
	else
		ack_timer_arm(q, now);
}

void ack_timer_heard(struct tqp *q, uint64_t now)
{
	if (q->req.wait)
		return;
	q->req.tries.left = q->qp.attr.retry_cnt;
	q->req.timer_at = q->req.tries.end = TQP_NEVER;
	q->req.tries.repeats = 0;
	ack_timer_arm(q, now);
}

void ack_timer_changed(struct tqp *q, uint64_t now)
{
	struct requester *r = &q->req;

	r->dog.on = false;
	q->watch_at = TQP_NEVER;
	if (r->wait != WAIT_LOST) {
		ack_timer_arm(q, now);
		return;
	}
	r->wait = WAIT_NOTHING;
	ack_timer_lost(q, now);
}
