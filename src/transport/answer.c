// SPDX-License-Identifier: MIT
#include <errno.h>
#include <stdlib.h>
#include "hca/mkey/fleeting.h"
#include "transport/answer.h"
#include "transport/blame.h"
#include "transport/credit.h"
#include "transport/gather.h"
#include "transport/hold.h"
#include "transport/linear/linear.h"
#include "transport/place.h"
#include "wire/aeth.h"
#include "wire/opcode.h"

enum {
	PARTING_ACKS = 3,
	REPLIES = 3,
	AT_ONCE = 128, /* PSNs of a response in one turn: a softhca peer asks for no more */
	LONG = 32, /* PSNs of a response that shares its turn with none behind it */
};

/* 0, or EAGAIN: the QP is called again when the link has room; EFAULT. An answer to a peer that is
 * gone counts as sent. */
static int put(struct tqp *q, struct seg *s)
{
	int err;

	if (unlikely(!q->qp.service->sends) && opcode_service(s->op) != SVC_OWN)
		s->op |= q->qp.service->wire;
	if (q->req.blocked || q->rsp.silent)
		return EAGAIN;
	err = q->dest ? dest_send(q->dest, s, &q->waiter) : 0;
	q->req.blocked = err == EAGAIN;
	return err == EAGAIN || err == EFAULT ? err : 0;
}

static inline struct seg bare(uint32_t dqpn, uint32_t sqpn, uint32_t psn, uint8_t syndrome)
{
	return (struct seg){ .op = OP_ACKNOWLEDGE,
			     .flags = SEG_SQPN,
			     .pkey = 0xffff,
			     .dqpn = dqpn,
			     .sqpn = sqpn,
			     .psn = psn,
			     .npsn = 1,
			     .syndrome = syndrome };
}

static inline struct seg reply(const struct tqp *q, uint32_t psn, uint8_t syndrome)
{
	struct seg s = bare(q->rsp.peer, q->qp.qpn, psn, syndrome);

	s.flags |= q->req.arming;
	s.msn = q->rsp.msn;
	return s;
}

/* Makes @s an OP_GROUNDS, whose bytes are in @buf. */
static void with_grounds(struct seg *s, const struct grounds *why, struct piece *piece,
			 uint8_t buf[GROUNDS_BYTES])
{
	grounds_encode(why, buf);
	*piece = (struct piece){ (uintptr_t)buf, GROUNDS_BYTES, 0 };
	s->op = OP_GROUNDS;
	s->len = GROUNDS_BYTES;
	s->pieces = piece;
	s->npieces = 1;
}

/* @why is lost when the link has no room for it. */
static int answer_bare(struct dest *to, const struct seg *request, uint8_t syndrome,
		       const struct grounds *why)
{
	struct seg s = bare(request->sqpn, request->dqpn, request->psn, syndrome), first = s;
	uint8_t bytes[GROUNDS_BYTES];
	struct piece piece;

	if (why->code) {
		with_grounds(&first, why, &piece, bytes);
		dest_send(to, &first, NULL);
	}

	s.op |= opcode_service(request->op);
	if (request->op == OP_DC_CONNECT) {
		s.op = OP_DC_ANSWER;
		s.dc_answered = request->dc_session;
	}
	return dest_send(to, &s, NULL);
}

int answer_no_responder(const struct seg *s, struct grounds why)
{
	uint8_t svc = opcode_service(s->op);
	bool told = svc == SVC_RC || svc == SVC_XRC || svc == SVC_DC;

	if (!told || !opcode_has(s->op, WIRE_REQUEST) || !link_has_notices(s->from) ||
	    !(s->flags & SEG_SQPN))
		return 0;
	return answer_bare(s->from, s, SYN_NO_RESPONDER, &why);
}

bool answer_idle(const struct tqp *q)
{
	const struct responder_reads *rd = q->rsp.reads;

	return (!rd || rd->first == rd->last) && !q->rsp.nak_due;
}

int answer_reads(struct tqp *q)
{
	if (!q->rsp.reads)
		q->rsp.reads = calloc(1, sizeof(*q->rsp.reads));
	return q->rsp.reads ? 0 : ENOMEM;
}

void answer_forget(struct tqp *q)
{
	struct responder_reads *rd = q->rsp.reads;

	q->ack_due = q->rsp.nak_due = q->rsp.ack_delayed = false;
	q->rsp.silent &= (uint8_t)~SILENT_SHARING;
	if (rd) {
		rd->first = rd->last = rd->fresh = 0;
		rd->nsaved = 0;
	}
}

/* The first PSN that the peer still waits for. */
static uint32_t first_unanswered(const struct tqp *q)
{
	const struct responder_reads *rd = q->rsp.reads;

	if (rd && rd->first != rd->last)
		return rd->out[rd->first % RESPONDER_ANSWERS].psn;
	return q->rsp.nak_due ? q->rsp.nak_psn : psn_add(q->rsp.epsn, PSN_MASK);
}

/* The last ACK may be lost on its way, and this QP cannot repeat it later. */
static void part(struct tqp *q)
{
	for (unsigned int i = 0; q->rsp.msn && i < PARTING_ACKS; i++) {
		q->ack_due = true;
		answer_ack_now(q);
	}
}

void answer_leave(struct tqp *q)
{
	struct seg s = { .op = OP_SEND_ONLY | SVC_RC,
			 .flags = SEG_SQPN,
			 .sqpn = q->rsp.peer,
			 .dqpn = q->qp.qpn,
			 .from = q->dest };
	struct grounds state = { GROUNDS_STATE, { q->qp.state } };

	if (q->qp.service->wire == SVC_RC && link_is_lossless(q->dest)) {
		answer_ack_now(q);
		s.psn = first_unanswered(q);
		if ((q->ack_due || !answer_idle(q)) && answer_no_responder(&s, state) == EAGAIN &&
		    q->env->no_responder_later)
			q->env->no_responder_later(q, &s);
	} else if (link_may_congest(q->dest)) {
		part(q);
	}
	answer_forget(q);
}

/* Takes the place of an ACK while requests are missing: says which came behind them. */
static int put_report(struct tqp *q)
{
	struct seg s = reply(q, q->rsp.epsn, credit_syndrome(q));
	uint8_t bytes[REPORT_MAX];
	struct piece piece = { (uintptr_t)bytes, hold_report(q, s.syndrome, bytes), 0 };

	s.op = OP_REPORT;
	s.len = piece.len;
	s.pieces = &piece;
	s.npieces = 1;
	return put(q, &s);
}

/* The newest PSN that a plain ACK may carry: not that of a READ or an atomic. A peer that has lost
 * the answer could take the ACK for it (Linux rxe does, and goes on without the data). */
static uint32_t ack_psn(const struct tqp *q)
{
	const struct responder_reads *rd = q->rsp.reads;
	uint32_t psn = psn_add(q->rsp.epsn, PSN_MASK);
	uint32_t n = !rd ? 0 : rd->nsaved < RESPONDER_DEPTH ? rd->nsaved : RESPONDER_DEPTH;

	for (uint32_t i = 1; i <= n; i++) {
		const struct saved *e = &rd->saved[(rd->nsaved - i) % RESPONDER_DEPTH];

		/* PSNs come again: once a message has followed it, such a PSN is a message's. */
		if (e->followed || !psn_within(psn, e->psn, e->npsn))
			break;
		psn = psn_add(e->psn, PSN_MASK);
	}
	return psn;
}

/* @more: another segment follows at once and is flushed. */
static int put_ack(struct tqp *q, bool more)
{
	struct seg s = reply(q, ack_psn(q), credit_syndrome(q));

	s.more = more;
	return put(q, &s);
}

static bool ack_may_go(const struct tqp *q)
{
	return q->ack_due && answer_idle(q) && !q->rsp.catching_up;
}

void answer_ack_now(struct tqp *q)
{
	if (ack_may_go(q) && !(hold_any(q) ? put_report(q) : put_ack(q, false)))
		q->ack_due = q->rsp.ack_delayed = false;
}

static bool is_plain_write(uint8_t op)
{
	return op == OP_WRITE_FIRST || op == OP_WRITE_MIDDLE || op == OP_WRITE_LAST ||
	       op == OP_WRITE_ONLY;
}

void answer_ahead(struct tqp *q, uint8_t op)
{
	bool more = q->dest && q->dest->ops->flush;

	if (is_plain_write(opcode_operation(op)) || !ack_may_go(q) || hold_any(q) ||
	    put_ack(q, more))
		return;
	q->ack_due = q->rsp.ack_delayed = false;
	q->req.unflushed = more;
}

/* May the ACK of @s wait for the program's reply? A program that has replied to message after
 * message will reply to this one. Its peer may spin on memory for the reply, with no call into the
 * library: an ACK that comes earlier would need the peer's engine thread, which takes the core. */
static bool wait_for_reply(struct tqp *q, const struct seg *s)
{
	struct responder *r = &q->rsp;

	if (!opcode_has(s->op, WIRE_LAST) || psn_add(s->psn, s->npsn) != r->epsn)
		return false;
	if (r->unreplied)
		r->replies = 0;
	r->unreplied = true;
	r->ack_delayed = r->replies >= REPLIES && answer_idle(q) && !hold_any(q) &&
			 q->env->ack_delay && q->env->ack_delay(q);
	return r->ack_delayed;
}

void answer_replied(struct tqp *q)
{
	struct responder *r = &q->rsp;

	r->unreplied = false;
	if (r->replies < REPLIES)
		r->replies++;
}

void answer_ack(struct tqp *q, const struct seg *s)
{
	if (link_gathers_acks(q->dest)) {
		bool listed = q->ack_due;

		q->ack_due = true;
		if (!listed && !q->rsp.silent && q->env->ack_later)
			q->env->ack_later(q);
		return;
	}
	if (!(s->flags & SEG_ACKREQ))
		return;
	q->ack_due = true;
	if (!wait_for_reply(q, s))
		answer_ack_now(q);
}

void answer_release(struct tqp *q)
{
	q->rsp.silent &= (uint8_t)~SILENT_IN_TURN;
	answer_run(q);
	answer_ack_now(q);
	if (q->ack_due && link_gathers_acks(q->dest) && q->env->ack_later)
		q->env->ack_later(q);
}

/* @more: its NAK follows. False: the link has no room. */
static bool put_grounds(struct tqp *q, bool more)
{
	struct seg s = reply(q, q->rsp.nak_psn, 0);
	uint8_t bytes[GROUNDS_BYTES];
	struct piece piece;

	if (!q->rsp.grounds.code || !q->dest)
		return true;
	with_grounds(&s, &q->rsp.grounds, &piece, bytes);
	s.more = more && q->dest->ops->flush;
	if (put(q, &s) == EAGAIN)
		return false;
	q->rsp.grounds.code = GROUNDS_NONE;
	return true;
}

static void put_nak(struct tqp *q)
{
	struct seg s = reply(q, q->rsp.nak_psn, q->rsp.nak);

	if (put_grounds(q, true) && !put(q, &s))
		q->rsp.nak_due = false;
}

void answer_grounds(struct tqp *q, uint32_t psn)
{
	q->rsp.nak_psn = psn;
	put_grounds(q, false);
}

void answer_nak(struct tqp *q, uint8_t syndrome, uint32_t psn)
{
	q->rsp.nak = syndrome;
	q->rsp.nak_psn = psn;
	q->rsp.nak_due = true;
	q->ack_due = false;
	answer_run(q);
}

/* Does an answer leave with those behind it, when the turn ends? */
static bool waits_for_more(const struct tqp *q)
{
	return link_is_of_packets(q->dest) && q->dest->ops->flush;
}

/* The answer to an atomic or an atomic write: one PSN without memory. */
static int put_small(struct tqp *q, struct answer *a)
{
	struct seg s = reply(q, a->psn, credit_syndrome(q));
	int err;

	s.op = a->kind == ANSWER_ATOMIC ? OP_ATOMIC_ACK : OP_READ_RESP_ONLY;
	s.msn = a->msn;
	s.orig = a->orig;
	s.more = waits_for_more(q);
	err = put(q, &s);
	if (err)
		return err;
	q->unsettled |= s.more; /* UNSETTLED_LINK */
	a->psn = psn_add(a->psn, 1);
	return 0;
}

static uint8_t read_op(bool first, bool last)
{
	if (first)
		return last ? OP_READ_RESP_ONLY : OP_READ_RESP_FIRST;
	return last ? OP_READ_RESP_LAST : OP_READ_RESP_MIDDLE;
}

static uint32_t response_len(const struct tqp *q, const struct answer *a, uint32_t *key)
{
	const struct dest *d = q->dest;
	uint32_t mtu = q->req.mtu, max;
	bool by_value = a->no_ref || !load_relaxed(&d->max_ref) || a->len <= d->inline_max;

	*key = by_value ? 0 : a->rkey;
	max = by_value ? d->max_seg : load_relaxed(&d->max_ref);
	max &= ~(mtu - 1); /* a power of two */
	if (!max)
		max = mtu;
	return a->len < max ? a->len : max;
}

/* A READ that was answered before has lost its key since. The program may withdraw it when the READ
 * is done, and the duplicate may be a packet that was late: it is dropped. A requester that has
 * missed the answer tries again (docs/design/fidelity.md). Within the host nothing is late. */
static bool is_late_duplicate(const struct tqp *q, const struct answer *a, enum key_verdict why)
{
	return a->again && why != KEY_OK && !link_has_notices(q->dest);
}

/* While the READ waited, its memory was unmapped or its key has changed. */
static void read_failed(struct tqp *q, const struct answer *a, enum key_verdict why,
			const struct key_ask *ask)
{
	struct seg s = { .op = OP_READ_REQUEST, .va = a->va, .rkey = a->rkey, .dma_len = a->len };
	struct refusal no = { why == KEY_OK ? V_REMOTE_OP : V_REMOTE_ACCESS,
			      blame_rkey(q, &s, why, ask) };
	uint32_t psn = a->psn;

	answer_forget(q);
	place_fail(q, &no, q->rsp.now);
	answer_nak(q, fate_at_responder(no.v, true)->nak, psn);
}

/* The payload is of a key whose bytes lie apart. */
static enum key_verdict pieces_apart(struct tqp *q, const struct key_ask *ask, uint32_t key,
				     struct gather *g, struct seg *s)
{
	struct sge part = { ask->va, (uint32_t)ask->len, ask->key };
	struct gather_ask list = { &part, 1, 0, ask->len, ask->pdn, ask->need };

	g->n = 0;
	if (!gather_apart(q->qp.ctx->hca->keys, ask, key, GATHER_PIECES, g) &&
	    (key || !linear_source(q, &list, (uint32_t)ask->len, g)))
		return g->why;
	s->pieces = g->piece;
	s->npieces = (uint16_t)g->n;
	return KEY_OK;
}

/* One segment of a READ's response. 0: sent, or dropped with the rest; EAGAIN; EFAULT: the QP has
 * failed. */
static int put_read(struct tqp *q, struct answer *a)
{
	struct key_ask ask = { a->rkey, a->pdn, a->va, 0, IBV_ACCESS_REMOTE_READ, q->qp.qpn };
	struct seg s = reply(q, a->psn, credit_syndrome(q));
	uint32_t key, mtu = q->req.mtu;
	uint64_t addr = 0;
	struct piece piece;
	int err;

	if (!q->dest)
		return 0;
	s.len = response_len(q, a, &key);
	s.npsn = s.len <= mtu ? 1 : (s.len + mtu - 1) / mtu;
	s.op = read_op(!a->started, s.len == a->len);
	s.msn = a->msn;
	ask.len = s.len;
	/* by value: until it is copied */
	struct spin *lock = fleeting_enter(q->qp.ctx->hca->keys, a->rkey);
	enum key_verdict why = key_check(q->qp.ctx->hca->keys, &ask, &addr);
	struct gather apart;

	s.more = waits_for_more(q);
	piece = (struct piece){ addr, s.len, key };
	s.pieces = &piece;
	s.npieces = s.len ? 1 : 0;
	if (unlikely(key_is_apart(why)))
		why = pieces_apart(q, &ask, key, &apart, &s);
	err = why == KEY_OK ? put(q, &s) : EFAULT;
	fleeting_leave(lock);
	if (err == EFAULT && is_late_duplicate(q, a, why)) {
		a->npsn = 0;
		return 0;
	}
	if (err == EFAULT)
		read_failed(q, a, why, &ask);
	if (err)
		return err;
	q->unsettled |= s.more; /* UNSETTLED_LINK */
	a->started = true;
	a->va += s.len;
	a->len -= s.len;
	a->psn = psn_add(a->psn, s.npsn);
	a->npsn -= s.npsn;
	return 0;
}

/* The thread that sends reads no packets meanwhile: what waits leaves in later turns. */
static void share(struct tqp *q)
{
	q->rsp.silent |= SILENT_SHARING;
	q->again = true;
}

/* The rest of a READ's response, of which @left PSNs waited in this turn: up to 2 GiB, which a
 * network takes at once. A long response with others behind it has a turn of its own. Not inlined:
 * answers of one segment do without it. */
__attribute__((noinline)) static int put_rest(struct tqp *q, struct answer *a, uint32_t left)
{
	const struct responder_reads *rd = q->rsp.reads;
	bool packets = link_is_of_packets(q->dest);
	int err = 0;

	while (q->dest && a->npsn && !err) {
		if (packets && left - a->npsn >= AT_ONCE) {
			share(q);
			return EAGAIN;
		}
		err = put_read(q, a);
	}
	if (packets && !err && left > LONG && rd->last - rd->first > 1)
		share(q);
	return err;
}

static int put_answer(struct tqp *q, struct answer *a)
{
	uint32_t left = a->npsn;
	int err;

	if (a->kind != ANSWER_READ)
		return put_small(q, a);
	if (!q->dest)
		return 0;
	err = put_read(q, a);
	return err || !a->npsn ? err : put_rest(q, a, left);
}

/* An answer waits for the end of the turn; @first: nothing else did. The peer asks for as many more
 * as it gets answers. If it got all of them at once it would be idle until they come, and this side
 * until it has asked again; so they leave when they are half of what it may ask for. */
static void let_half_go(struct tqp *q, bool first)
{
	struct responder_reads *rd = q->rsp.reads;

	rd->waiting = first ? 1 : rd->waiting + 1;
	if (rd->waiting < q->qp.attr.max_dest_rd_atomic / 2)
		return;
	rd->waiting = 0;
	q->dest->ops->flush(q->dest);
}

void answer_run(struct tqp *q)
{
	struct responder_reads *rd = q->rsp.reads;

	while (rd && rd->first != rd->last) {
		struct answer *a = &rd->out[rd->first % RESPONDER_ANSWERS];
		bool again = a->again, first = !(q->unsettled & UNSETTLED_LINK);

		if (put_answer(q, a))
			return;
		if (q->unsettled & UNSETTLED_LINK)
			let_half_go(q, first);
		rd->first++;
		rd->fresh -= !again;
		if (!again && a->psn == q->rsp.epsn && !hold_any(q))
			q->ack_due = false; /* the answer has acknowledged all */
	}
	if (q->rsp.nak_due)
		put_nak(q);
	else if (q->ack_due && q->dest && !link_gathers_acks(q->dest))
		answer_ack_now(q);
}

void answer_add(struct tqp *q, const struct answer *a)
{
	struct responder_reads *rd = q->rsp.reads;

	rd->out[rd->last++ % RESPONDER_ANSWERS] = *a;
	rd->fresh += !a->again;
	answer_run(q);
}
