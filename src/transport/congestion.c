// SPDX-License-Identifier: MIT
#include "transport/congestion.h"
#include "transport/recovery.h"
#include "transport/rtt.h"
#include "util/clock.h"
#include "wire/aeth.h"
#include "wire/opcode.h"

enum {
	LOSSY = 128, /* PSNs: the window if the peer has not said how many it can take */
	LOSSY_MIN = 4,
	START = 32,
	LEAST = 2,
	MORE = 6, /* PSNs, each round trip */
	MANY = 3, /* losses in a round trip that tell of congestion, if a quarter of the window */
	CNP_LEN = 16, /* bytes, all zero */
	CNP_EVERY_NS = 50000,
	IDLE_NS = 10000000, /* longer than a scheduler keeps a sender from its core */
};

void congestion_begin(struct tqp *q)
{
	uint32_t una = q->req.una;

	q->req.cc = (struct congestion){ .window = START,
					 .una = una,
					 .round = una,
					 .asked = psn_add(una, PSN_MASK),
					 .slow = true };
}

uint32_t congestion_path(const struct tqp *q)
{
	const struct dest *d = q->dest;
	uint32_t n;

	if (link_is_lossless(d))
		return CONGESTION_HOST;
	n = d ? dest_window(d) : 0;
	if (!n)
		return LOSSY;
	return n < LOSSY_MIN ? LOSSY_MIN : n < RECOVERY_AHEAD ? n : RECOVERY_AHEAD;
}

uint32_t congestion_network(const struct tqp *q)
{
	uint32_t most = congestion_path(q), now = q->req.cc.window;

	return link_may_congest(q->dest) && now < most ? now : most;
}

/* To @num / 8 of its size, once per round trip. */
static void shrink(struct tqp *q, uint32_t num)
{
	struct congestion *c = &q->req.cc;

	if (c->shrunk)
		return;
	c->window = c->window * num / 8;
	if (c->window < LEAST)
		c->window = LEAST;
	c->shrunk = true;
	c->slow = false;
}

bool congestion_ack_due(const struct tqp *q)
{
	const struct requester *r = &q->req;

	return psn_within(r->cc.asked, r->una, (r->psn - r->una) & PSN_MASK);
}

bool congestion_asks(const struct tqp *q, uint32_t k)
{
	const struct requester *r = &q->req;
	uint32_t every = congestion_window(q) / 4;

	if (!every || !(k % every))
		return true;
	return link_may_congest(q->dest) && !congestion_ack_due(q) &&
	       ((r->psn - r->cc.asked) & PSN_MASK) >= every; /* the window was larger */
}

void congestion_asked(struct tqp *q, uint32_t psn, uint64_t now)
{
	q->req.cc.asked = psn;
	if (psn == q->req.max_psn)
		rtt_sent(q, psn, now);
}

void congestion_progress(struct tqp *q, uint64_t now)
{
	struct congestion *c = &q->req.cc;
	const struct requester *r = &q->req;
	uint32_t n = (r->una - c->una) & PSN_MASK, most = congestion_path(q);

	c->at = now;
	c->una = r->una;
	c->acked += n;
	if (c->slow)
		c->window += n;
	if (!psn_before(r->una, c->round)) { /* a round trip is over */
		bool slow = c->slow, crowded = c->window > START && rtt_grown(q, 4);

		if (crowded)
			shrink(q, 6);
		else if (!slow && !c->shrunk && c->acked * 2 >= c->window)
			c->window += MORE; /* the QP has used it */
		c->round = r->max_psn;
		c->shrunk = false;
		c->acked = c->lost = 0;
	}
	if (c->window > most)
		c->window = most;
}

void congestion_resume(struct tqp *q, uint64_t now)
{
	struct congestion *c = &q->req.cc;

	if (clock_elapsed(c->at, now) <= IDLE_NS || c->window <= START)
		return;
	c->window = START;
	c->round = q->req.una;
	c->slow = true;
}

void congestion_lost(struct tqp *q, uint32_t n)
{
	struct congestion *c = &q->req.cc;

	c->lost += n;
	if (c->lost >= MANY && c->lost * 4 > c->window)
		shrink(q, 4);
	else if (rtt_grown(q, 2))
		shrink(q, 6);
}

void congestion_silence(struct tqp *q)
{
	q->req.cc.shrunk = false;
	shrink(q, 4);
}

void congestion_noted(struct tqp *q)
{
	shrink(q, 4);
}

void congestion_marked(struct tqp *q, const struct seg *s, uint64_t now)
{
	static const uint8_t zeros[CNP_LEN];
	struct counters *count = q->qp.ctx->hca->counters;
	struct piece piece = { (uintptr_t)zeros, CNP_LEN, 0 };
	struct seg cnp = { .op = OP_CNP,
			   .flags = SEG_SQPN,
			   .pkey = 0xffff,
			   .dqpn = q->qp.attr.dest_qp_num,
			   .sqpn = q->qp.qpn,
			   .npsn = 1,
			   .len = CNP_LEN,
			   .pieces = &piece,
			   .npieces = 1 };

	counters_inc(count, COUNTER_NP_ECN_MARKED_ROCE_PACKETS);
	if (opcode_has(s->op, WIRE_RESPONSE))
		congestion_noted(q); /* this QP has asked for too much */
	if (!link_may_congest(q->dest) || (q->rsp.silent & SILENT_IN_TURN) ||
	    (q->cnp_at && now - q->cnp_at < CNP_EVERY_NS))
		return;
	q->cnp_at = now;
	if (!dest_send(q->dest, &cnp, NULL))
		counters_inc(count, COUNTER_NP_CNP_SENT);
}
