// SPDX-License-Identifier: MIT
#include "transport/sender.h"
#include <string.h>
#include "transport/hold.h"
#include "transport/tqp.h"
#include "util/be.h"
#include "util/clock.h"
#include "util/secret.h"
#include "wire/aeth.h"
#include "wire/grh.h"
#include "wire/opcode.h"

/* --- this host --- */

static bool same_process(const struct dest *a, const struct dest *b)
{
	uint64_t process;

	if (likely(a == b))
		return a;
	if (!a || !b)
		return false;
	process = dest_process(a);
	return process && process == dest_process(b);
}

/* --- a network --- */

static bool between(const struct seg *s, const struct dest_net *net)
{
	bool ipv4 = s->l3 == GRH_L3_IPV4;
	size_t n = ipv4 ? 4 : 16, skip = 16 - n;

	return net && !memcmp(s->grh + (ipv4 ? 32 : 8), net->remote.raw + skip, n) &&
	       !memcmp(s->grh + (ipv4 ? 36 : 24), net->local.raw + skip, n);
}

/* The peer has moved to the path that this side keeps ready. */
static bool migrates(const struct tqp *q, const struct seg *s)
{
	return unlikely(q->req.arming) && !(s->flags & SEG_ARMING) &&
	       q->qp.attr.path_mig_state == IBV_MIG_ARMED;
}

/* The next request, or an answer to one that is outstanding: whoever guesses has one PSN of 2^24,
 * or a few. */
static bool is_next(const struct tqp *q, const struct seg *s)
{
	const struct requester *r = &q->req;

	if (s->op == OP_CNP)
		return false;
	if (s->op == OP_REPORT || s->op == OP_GROUNDS || opcode_has(s->op, WIRE_RESPONSE))
		return psn_within(s->psn, r->una, (r->max_psn - r->una) & PSN_MASK);
	return s->psn == q->rsp.epsn;
}

/* What a peer may send that begins on its other path: it repeats what was not acknowledged. */
static bool is_near(const struct tqp *q, const struct seg *s)
{
	int32_t ahead = psn_diff(s->psn, q->rsp.epsn);

	return is_next(q, s) ||
	       (opcode_has(s->op, WIRE_REQUEST) && ahead < HOLD_PSNS && ahead > -HOLD_PSNS);
}

/* A receiver of UC sends nothing that would ask what host the peer is. */
static void get_to_know(const struct tqp *q)
{
	if (!(dest_abilities(q->dest) & DEST_ONE_PORT))
		dest_get_to_know(q->dest);
}

static bool keeps_port(const struct tqp *q)
{
	return q->sender.port && (dest_abilities(q->dest) & DEST_ONE_PORT);
}

/* Has nothing been accepted for so long that the port may have changed on the way? */
static bool lapsed(const struct tqp *q, uint64_t now)
{
	return clock_elapsed(q->sender.at, now) > SENDER_LAPSE;
}

/* --- which port the peer has --- */

#define ASK_EVERY UINT64_C(1000000) /* ns */

enum { NUMBER_AT = 4, PORT_BYTES = 12 };

struct port_message { /* OP_PORT */
	bool asks; /* SEG_ACKREQ */
	uint16_t port; /* the sender's from now on, if there is no number */
	uint64_t number; /* of a question, or of the question that is answered */
};

bool sender_says_port(const struct tqp *q)
{
	return q->qp.service->connected && q->qp.service->wqe == WQE_CONNECTED;
}

static void say(const struct tqp *q, const struct port_message *m)
{
	uint8_t bytes[PORT_BYTES] = { 0 };
	struct piece piece = { (uintptr_t)bytes, sizeof(bytes), 0 };
	struct seg s = { .op = OP_PORT,
			 .flags = (uint16_t)(SEG_SQPN | (m->asks ? SEG_ACKREQ : 0)),
			 .pkey = 0xffff,
			 .dqpn = q->qp.attr.dest_qp_num,
			 .sqpn = q->qp.qpn,
			 .npsn = 1,
			 .len = sizeof(bytes),
			 .pieces = &piece,
			 .npieces = 1 };

	put_be16(bytes, m->port);
	put_be64(bytes + NUMBER_AT, m->number);
	dest_send(q->dest, &s, NULL);
}

/* The peer's QP answers by the port that it has now; whoever else sends to us does not get the
 * question. */
static void ask(struct tqp *q, uint64_t now)
{
	struct sender *from = &q->sender;

	if (now < from->ask_at || !sender_says_port(q) ||
	    (!from->number && secret_number(&from->number)))
		return;
	from->ask_at = now + ASK_EVERY;
	say(q, &(struct port_message){ .asks = true, .number = from->number });
}

void sender_told(struct tqp *q, const struct seg *s, uint64_t now)
{
	struct sender *from = &q->sender;
	uint16_t port;
	uint64_t number;

	if (!s->data || s->len < PORT_BYTES)
		return;
	port = get_be16(s->data);
	number = get_be64(s->data + NUMBER_AT);
	if (s->flags & SEG_ACKREQ) {
		say(q, &(struct port_message){ .number = number });
		return;
	}
	if (number ? number != from->number : !port || s->sport != from->port)
		return;
	from->port = number ? s->sport : port;
	from->at = now;
	from->number = 0;
}

void sender_follow(struct tqp *q, const struct dest *next)
{
	const struct dest_net *was = link_ends(q->dest), *is = link_ends(next);
	uint16_t port;

	if (!was || !is)
		return;
	if (memcmp(&was->remote, &is->remote, sizeof(is->remote))) {
		sender_forget(q);
		return;
	}
	port = dest_innermost(next)->sport;
	if (port != dest_innermost(q->dest)->sport && sender_says_port(q) &&
	    (dest_abilities(q->dest) & DEST_ONE_PORT))
		say(q, &(struct port_message){ .port = port });
}

/* --- a packet --- */

/* Until the peer's host has answered any port is heard, but the first one stays the peer's. */
static bool right_port(struct tqp *q, const struct seg *s, uint64_t now)
{
	bool next = is_next(q, s), first = !q->sender.port, same = s->sport == q->sender.port;

	if (next || !first)
		get_to_know(q);
	if (keeps_port(q) && !same) {
		if (migrates(q, s) && (q->qp.service->reliable || !lapsed(q, now)))
			return is_near(q, s);
		if (!lapsed(q, now)) {
			ask(q, now);
			return false;
		}
		if (!next)
			return !q->qp.service->reliable; /* UC begins anew with any PSN */
	}
	if (next && (first || same || lapsed(q, now))) {
		q->sender.at = now;
		q->sender.port = s->sport;
	}
	return true;
}

static bool from_network(struct tqp *q, const struct seg *s, uint64_t now)
{
	if (!s->grh || !q->dest)
		return false;
	if (!between(s, link_ends(q->dest)) &&
	    !(s->op != OP_PORT && migrates(q, s) && between(s, link_ends(q->alternate))))
		return false;
	return s->op == OP_PORT || right_port(q, s, now);
}

bool sender_admits(struct tqp *q, const struct seg *s, uint64_t now)
{
	if (unlikely(s->flags & SEG_NET))
		return q->qp.service->any_sender || from_network(q, s, now);
	if (q->qp.service->any_sender)
		return true;
	return same_process(s->from, q->dest) &&
	       (!(s->flags & SEG_SQPN) || s->sqpn == q->qp.attr.dest_qp_num);
}

bool sender_is_known(const struct tqp *q, const struct seg *s)
{
	return !(s->flags & SEG_NET) || !keeps_port(q) || s->sport == q->sender.port;
}

void sender_forget(struct tqp *q)
{
	q->sender = (struct sender){ 0 };
}
