// SPDX-License-Identifier: MIT
#include "transport/drop.h"
#include <stdbool.h>
#include <stdio.h>
#include "hca/qp_names.h"
#include "obs/explain.h"
#include "obs/verdict.h"
#include "transport/blame.h"
#include "transport/tqp.h"
#include "wire/opcode.h"

enum { TOLD_MAX = 64, CLAUSE = 128 };

/* The numbers that were compared are the sender's own. Lost where the link has no room. */
static void tell(const struct seg *s, enum drop_why why, uint64_t count, uint32_t mtu)
{
	struct seg out = { .op = OP_DROPPED,
			   .flags = SEG_SQPN,
			   .syndrome = (uint8_t)why,
			   .pkey = 0xffff,
			   .dqpn = s->sqpn,
			   .sqpn = s->dqpn,
			   .psn = s->psn,
			   .npsn = 1,
			   .dropped = count < UINT32_MAX ? (uint32_t)count : UINT32_MAX,
			   .qkey = s->qkey,
			   .port_mtu = why == DROP_LONG ? mtu : 0 };

	if (link_has_notices(s->from) && (s->flags & SEG_SQPN) && !(s->flags & SEG_MCAST))
		dest_send(s->from, &out, NULL);
}

/* What the receiver sees. The Q_Key that came is not shown: it may be another QP's secret. */
static const char *cause(const struct tqp *q, const struct seg *s, enum drop_why why, char *buf)
{
	switch (why) {
	case DROP_QKEY:
		snprintf(buf, CLAUSE, "it does not have this QP's Q_Key 0x%x; send with that",
			 q->qp.attr.qkey);
		break;
	case DROP_NO_RECEIVE:
		snprintf(buf, CLAUSE, "no receive was posted; post more, and earlier");
		break;
	case DROP_LONG:
		snprintf(buf, CLAUSE, "its %u B exceed this port's MTU of %u B; send less", s->len,
			 q->req.mtu);
		break;
	default:
		snprintf(buf, CLAUSE, "the QP is in %s; move it to RTR before its peers send",
			 qp_state_name(q->qp.state));
		break;
	}
	return buf;
}

enum { SENDER = 24 };

/* " from QP 0x412". A connection's packet does not tell its sender's number: @q, or NULL, may know
 * whom it is connected to; else "". */
static const char *sender(const struct tqp *q, const struct seg *s, char out[SENDER])
{
	uint32_t qpn = q ? q->qp.attr.dest_qp_num : 0;

	if (s->flags & SEG_SQPN || opcode_service(s->op) == SVC_UD)
		qpn = s->sqpn;
	out[0] = 0;
	if (qpn)
		snprintf(out, SENDER, " from QP 0x%x", qpn);
	return out;
}

void drop_say(struct tqp *q, const struct seg *s, enum drop_why why)
{
	static const char *const verdict[] = {
		[DROP_QKEY] = "dropped, Q_Key is not the QP's",
		[DROP_NO_RECEIVE] = "dropped, no receive is posted",
		[DROP_LONG] = "dropped, longer than the MTU",
		[DROP_STATE] = "dropped, the QP does not receive in its state",
	};
	uint32_t n = q->drops.n[why] + 1;
	char text[CLAUSE], from[SENDER];

	verdict_say(verdict[why]);
	if (n)
		q->drops.n[why] = n;
	if (!n || !explain_due(n))
		return;
	reason("%s%s dropped by %s QP 0x%x (%u so far): %s", blame_name(s->op), sender(q, s, from),
	       q->qp.service->name, q->qp.qpn, n, cause(q, s, why, text));
	tell(s, why, n, q->req.mtu);
}

/* A requester on this host hears it by a notice, and says it if its tries end: one that is done
 * sends its last message to a peer that has left, and nothing is wrong. */
static bool requester_says(const struct seg *s)
{
	uint8_t service = opcode_service(s->op);

	return link_has_notices(s->from) && service != SVC_UD && service != SVC_UC;
}

void drop_nobody(uint64_t *count, const struct seg *s)
{
	uint64_t n;
	char from[SENDER];

	verdict_say("dropped, there is no such QP");
	if (!opcode_has(s->op, WIRE_REQUEST) || requester_says(s))
		return;
	n = fetch_add_relaxed(count, 1) + 1;
	if (!explain_due(n))
		return;
	reason("%s%s dropped (%lu so far): this process has no QP 0x%x; was it destroyed, or is "
	       "the number wrong?",
	       blame_name(s->op), sender(NULL, s, from), (unsigned long)n, s->dqpn);
	if (opcode_service(s->op) == SVC_UD || opcode_service(s->op) == SVC_UC)
		tell(s, DROP_NO_QP, n, 0);
}

void drop_damaged(uint64_t *count, const struct seg *s)
{
	uint64_t n = fetch_add_relaxed(count, 1) + 1;

	verdict_say("dropped, its ICRC is wrong");
	if (explain_due(n))
		reason("packet from QP 0x%x to QP 0x%x dropped (%lu so far): its ICRC is wrong; "
		       "the sender's SOFTHCA_FAULT damages packets (corrupt)",
		       s->sqpn, s->dqpn, (unsigned long)n);
}

void drop_unheard(struct tqp *q, uint32_t dqpn)
{
	uint32_t n = q->drops.n[DROP_NO_QP] + 1;

	if (n)
		q->drops.n[DROP_NO_QP] = n;
	if (n && explain_due(n))
		reason("message on %s QP 0x%x to QP 0x%x dropped (%u so far): no process of this "
		       "host has that number; has it ended, or is the number wrong?",
		       q->qp.service->name, q->qp.qpn, dqpn, n);
}

void drop_refused(struct tqp *q, const struct seg *s)
{
	struct seg out = { .op = OP_GROUNDS,
			   .flags = SEG_SQPN,
			   .pkey = 0xffff,
			   .dqpn = s->flags & SEG_SQPN ? s->sqpn : q->qp.attr.dest_qp_num,
			   .sqpn = q->qp.qpn,
			   .psn = s->psn,
			   .npsn = 1,
			   .npieces = 1,
			   .len = GROUNDS_BYTES };
	uint8_t bytes[GROUNDS_BYTES];
	struct piece piece = { (uintptr_t)bytes, GROUNDS_BYTES, 0 };

	if (!q->rsp.grounds.code || !link_has_notices(s->from) || (s->flags & SEG_MCAST))
		return;
	grounds_encode(&q->rsp.grounds, bytes);
	q->rsp.grounds.code = GROUNDS_NONE;
	out.pieces = &piece;
	dest_send(s->from, &out, NULL);
}

/* What the sender can do about it; NULL: no cause that this release knows. */
static const char *advice(const struct seg *s, char *buf)
{
	switch (s->syndrome) {
	case DROP_QKEY:
		snprintf(buf, CLAUSE,
			 "Q_Key 0x%x is not that QP's; set wr.ud.remote_qkey to the peer's qkey",
			 s->qkey);
		return buf;
	case DROP_NO_RECEIVE:
		return "no receive was posted there; send later, or let the peer post more";
	case DROP_LONG:
		snprintf(buf, CLAUSE, "it exceeds that port's MTU of %u B; send less", s->port_mtu);
		return buf;
	case DROP_STATE:
		return "that QP is not in RTR or RTS; send when the peer is ready";
	case DROP_NO_QP:
		return "that process has no such QP; was it destroyed, or is the number wrong?";
	default:
		return NULL;
	}
}

/* The peer has refused it, in the peer's words. */
static void refused(struct tqp *q, const struct seg *s)
{
	char text[GROUNDS_TEXT];
	struct grounds g;
	const char *what = NULL;

	if (s->data && grounds_decode(s->data, s->len, &g))
		what = grounds_text(&g, text);
	if (!what || q->drops.told == TOLD_MAX)
		return;
	q->drops.told++;
	reason("message on %s QP 0x%x refused by QP 0x%x: peer: %s", q->qp.service->name, q->qp.qpn,
	       s->sqpn, what);
}

void drop_told(struct tqp *q, const struct seg *s)
{
	char text[CLAUSE];
	const char *what;

	if (s->op == OP_GROUNDS) {
		refused(q, s);
		return;
	}
	what = advice(s, text);
	if (!what || q->drops.told == TOLD_MAX)
		return;
	q->drops.told++;
	reason("message on %s QP 0x%x dropped by QP 0x%x (%u so far there): %s",
	       q->qp.service->name, q->qp.qpn, s->sqpn, s->dropped, what);
}
