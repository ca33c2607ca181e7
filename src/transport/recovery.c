// SPDX-License-Identifier: MIT
#include "transport/recovery.h"
#include <stdlib.h>
#include "transport/congestion.h"
#include "transport/hold.h"
#include "transport/rtt.h"
#include "transport/sent.h"
#include "wire/aeth.h"

enum { TRAIN = 15 }; /* packets of 4 KiB */

enum state {
	NEVER, /* not sent */
	SENT, /* on its way, or its answer is */
	LOST, /* to be sent again */
	KEPT, /* by the peer, which waits for a PSN before it */
	DONE, /* executed; of a READ: its bytes are here */
	STATES
};

struct out {
	uint32_t sending; /* the number of its last sending */
	uint32_t at; /* and its time, us */
	uint8_t state; /* enum state */
	bool again; /* it was sent more than once */
	bool read; /* of a READ or atomic: answered by data */
	bool begins; /* the first PSN of such a request, as it was sent first */
};

struct recovery {
	struct out out[RECOVERY_PSNS]; /* by PSN */
	uint32_t in[STATES]; /* how many are in each state */
	uint32_t sendings;
	bool heard;
};

/* What an answer reports as arrived. */
struct news {
	uint64_t now;
	bool any;
	const struct out *out; /* the latest sending that surely has; NULL: none */
	uint32_t psn;
};

static uint32_t us(uint64_t ns)
{
	return (uint32_t)(ns / 1000);
}

static struct out *out_at(const struct tqp *q, uint32_t psn)
{
	return &q->req.rec->out[psn % RECOVERY_PSNS];
}

static void turn(struct tqp *q, struct out *o, enum state to)
{
	q->req.rec->in[o->state]--;
	q->req.rec->in[to]++;
	o->state = to;
}

static uint32_t outstanding(const struct tqp *q)
{
	return (q->req.psn - q->req.una) & PSN_MASK;
}

/* Records the PSNs that were sent before recovery began. */
static void take_over(struct tqp *q, uint64_t now)
{
	const struct requester *r = &q->req;
	uint32_t psn = r->una;

	for (uint32_t i = r->head; psn != r->psn && i != r->tail; i++) {
		const struct sent *e = sent_at(r, i);
		uint32_t left = (e->psn + e->npsn - psn) & PSN_MASK,
			 all = (r->psn - psn) & PSN_MASK;

		if (!e->npsn)
			continue;
		left = left < all ? left : all;
		recovery_sent(q, psn, left, e->flags & SENT_READ, now);
		psn = psn_add(psn, left);
	}
}

void recovery_begin(struct tqp *q, bool told, uint64_t now)
{
	struct requester *r = &q->req;

	if (r->rec || !link_is_of_packets(q->dest) || !q->qp.service->reliable ||
	    !q->qp.service->sends)
		return;
	if (!told && !link_reports_loss(q->dest))
		return;
	if (r->psn != r->max_psn || outstanding(q) > RECOVERY_PSNS)
		return;
	r->rec = calloc(1, sizeof(*r->rec));
	if (!r->rec)
		return; /* sending goes back after a loss, as to a peer that does not report */
	r->rec->in[NEVER] = RECOVERY_PSNS;
	take_over(q, now);
}

void recovery_end(struct tqp *q)
{
	free(q->req.rec);
	q->req.rec = NULL;
}

void recovery_sent(struct tqp *q, uint32_t psn, uint32_t n, bool read, uint64_t now)
{
	uint32_t number = ++q->req.rec->sendings;

	for (uint32_t i = 0; i < n; i++) {
		struct out *o = out_at(q, psn + i);

		o->again = o->state != NEVER;
		o->sending = number;
		o->at = us(now);
		o->read = read;
		if (read && !o->again)
			o->begins = !i;
		turn(q, o, SENT);
	}
}

bool recovery_open(const struct tqp *q, uint32_t window)
{
	const struct recovery *rec = q->req.rec;

	if (rec->in[LOST] && out_at(q, q->req.una)->state == LOST)
		return true;
	return rec->in[SENT] < window && (rec->in[LOST] || outstanding(q) < RECOVERY_AHEAD);
}

bool recovery_crowded(const struct tqp *q)
{
	const struct requester *r = &q->req;
	uint32_t end = congestion_path(q), room = end / 4 < TRAIN ? end / 4 : TRAIN;

	return !r->rec->in[LOST] && r->rec->in[SENT] + room > end && r->cc.window >= end &&
	       congestion_ack_due(q);
}

uint32_t recovery_questions(const struct tqp *q)
{
	uint32_t una = q->req.una, n = 0;

	for (uint32_t psn = una; psn != q->req.psn; psn = psn_add(psn, 1)) {
		const struct out *o = out_at(q, psn);

		n += o->read && (o->begins || psn == una);
	}
	return n;
}

bool recovery_lost(const struct tqp *q)
{
	return q->req.rec->in[LOST];
}

uint32_t recovery_first(const struct tqp *q, uint32_t *n)
{
	uint32_t psn = q->req.una, end = q->req.psn;
	const struct out *first, *o;

	while (out_at(q, psn)->state != LOST)
		psn = psn_add(psn, 1);
	first = out_at(q, psn);
	for (*n = 1; first->read && psn_add(psn, *n) != end; ++*n) {
		o = out_at(q, psn + *n);
		if (o->state != LOST || o->sending != first->sending)
			break;
	}
	return psn;
}

/* Was @o, or its answer, sent before @by? A READ's PSNs are requested together and answered in
 * order. */
static bool earlier(const struct out *o, uint32_t psn, const struct news *by)
{
	int32_t d = (int32_t)(o->sending - by->out->sending);

	return d ? d < 0 : psn_before(psn, by->psn);
}

/* An answer that comes sooner than a round trip takes may well be one to the sending before. */
static bool too_soon(const struct tqp *q, const struct out *o, uint64_t now)
{
	const struct rtt *t = &q->req.rtt;
	uint64_t ns = t->least > t->mean / 2 ? t->least : t->mean / 2;

	return o->again && us(now) - o->at < us(ns);
}

static void note(const struct tqp *q, struct news *n, const struct out *o, uint32_t psn)
{
	n->any = true;
	if (too_soon(q, o, n->now) || (n->out && earlier(o, psn, n)))
		return;
	n->out = o;
	n->psn = psn;
}

/* Of the PSNs up to @end, those that were sent before @n and have not arrived are lost. */
static void infer(struct tqp *q, const struct news *n, uint32_t end)
{
	uint32_t before = q->req.rec->in[LOST];

	q->req.rec->heard |= n->any;
	if (!n->out)
		return;
	if (!n->out->again)
		end = n->psn; /* higher PSNs were sent later */
	for (uint32_t psn = q->req.una; psn != end; psn = psn_add(psn, 1)) {
		struct out *o = out_at(q, psn);

		if (o->state == SENT && earlier(o, psn, n))
			turn(q, o, LOST);
	}
	if (q->req.rec->in[LOST] == before)
		return;
	rtt_forget(q);
	congestion_lost(q, q->req.rec->in[LOST] - before);
}

static bool unknown(const struct out *o) /* has it arrived, or not? */
{
	return o->state == SENT || o->state == LOST;
}

static void executed(struct tqp *q, uint32_t end, struct news *n)
{
	for (uint32_t psn = q->req.una; psn != end; psn = psn_add(psn, 1)) {
		struct out *o = out_at(q, psn);

		if (o->read) {
			if (o->state == KEPT)
				turn(q, o, SENT); /* its response is on its way now */
			continue;
		}
		if (unknown(o))
			note(q, n, o, psn);
		turn(q, o, DONE);
	}
}

void recovery_missing(struct tqp *q, uint32_t psn)
{
	struct out *o = out_at(q, psn);

	if (psn == q->req.psn || o->state != KEPT || o->read)
		return; /* an ACK does not tell whether a READ was executed */
	rtt_forget(q);
	for (; psn != q->req.psn; psn = psn_add(psn, 1)) {
		o = out_at(q, psn);
		if (o->state == KEPT)
			turn(q, o, LOST);
	}
}

void recovery_acked(struct tqp *q, uint32_t psn, uint64_t now)
{
	struct news n = { .now = now };

	executed(q, psn, &n);
	infer(q, &n, q->req.psn);
}

void recovery_answered(struct tqp *q, uint32_t psn, uint64_t now)
{
	struct news n = { .now = now };

	executed(q, psn, &n);
	infer(q, &n, psn);
}

void recovery_here(struct tqp *q, uint32_t psn, uint32_t n, uint64_t now)
{
	struct news news = { .now = now };

	for (uint32_t i = 0; i < n; i++) {
		struct out *o = out_at(q, psn + i);

		note(q, &news, o, psn_add(psn, i));
		turn(q, o, DONE);
	}
	infer(q, &news, psn);
}

bool recovery_has(const struct tqp *q, uint32_t psn)
{
	return out_at(q, psn)->state == DONE;
}

/* The peer keeps the request at @psn. If it is a READ, none of its PSNs is lost. */
static void kept(struct tqp *q, uint32_t psn, struct news *n)
{
	struct out *o = out_at(q, psn);
	uint32_t sending = o->sending;

	if (!unknown(o))
		return;
	note(q, n, o, psn);
	do {
		turn(q, o, KEPT);
		psn = psn_add(psn, 1);
		o = out_at(q, psn);
	} while (o->read && o->sending == sending && unknown(o));
}

bool recovery_reported(struct tqp *q, const struct seg *s, uint64_t now)
{
	uint32_t ahead = (s->psn - q->req.una) & PSN_MASK, bits, all = outstanding(q);
	struct news n = { .now = now };

	if ((s->flags & SEG_BYREF) || s->len <= REPORT_AETH || s->len > REPORT_MAX)
		return false;
	if (psn_before(s->psn, q->req.una))
		return true; /* a later report has overtaken it */
	if (ahead > all)
		return false;
	bits = (s->len - REPORT_AETH) * 8;
	executed(q, s->psn, &n);
	recovery_missing(q, s->psn);
	for (uint32_t i = 0; i < bits && ahead + 1 + i < all; i++)
		if (s->data[REPORT_AETH + i / 8] >> i % 8 & 1)
			kept(q, psn_add(s->psn, 1 + i), &n);
	infer(q, &n, q->req.psn);
	return true;
}

uint32_t recovery_front(struct tqp *q)
{
	uint32_t psn = q->req.una;

	for (; psn != q->req.psn && out_at(q, psn)->state == DONE; psn = psn_add(psn, 1))
		turn(q, out_at(q, psn), NEVER);
	return psn;
}

bool recovery_heard(struct tqp *q)
{
	bool heard = q->req.rec->heard;

	q->req.rec->heard = false;
	return heard;
}

void recovery_again(struct tqp *q)
{
	uint32_t psn = q->req.una, sending = out_at(q, psn)->sending;
	struct out *o = out_at(q, psn);

	if (psn == q->req.psn)
		return;
	do {
		if (o->state != DONE)
			turn(q, o, LOST);
		psn = psn_add(psn, 1);
		o = out_at(q, psn);
	} while (psn != q->req.psn && o->read && o->sending == sending);
}

void recovery_all_again(struct tqp *q)
{
	for (uint32_t psn = q->req.una; psn != q->req.psn; psn = psn_add(psn, 1))
		if (unknown(out_at(q, psn)))
			turn(q, out_at(q, psn), LOST);
}
