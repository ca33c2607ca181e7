// SPDX-License-Identifier: MIT
/* The answers of an RC responder: ACKs and NAKs, READ responses, atomic answers, in the order of
 * their requests. Answers for which the link has no room wait here. */
#pragma once
#include "transport/tqp.h"

/* The request @s, new or a duplicate, is executed. The link decides whether its ACK leaves now,
 * later, or never. */
void answer_ack(struct tqp *q, const struct seg *s);
void answer_ack_now(struct tqp *q); /* if one is due */
/* Through a network an ACK may be delayed until the program sends its reply. It leaves ahead of a
 * reply that the peer's program sees by a completion, since that program takes the reply to mean
 * that its own message is complete, and may have no room for another one. It leaves behind a plain
 * WRITE. */
void answer_ahead(struct tqp *q, uint8_t op); /* a packet with opcode @op leaves now */
static inline void answer_behind(struct tqp *q) /* the reply is on its way */
{
	if (unlikely(q->rsp.ack_delayed))
		answer_ack_now(q);
}

void answer_replied(struct tqp *q);
static inline void answer_reply(struct tqp *q) /* the program has posted: is it a reply? */
{
	if (unlikely(q->rsp.unreplied))
		answer_replied(q);
}

void answer_nak(struct tqp *q, uint8_t syndrome, uint32_t psn);
/* A refusal without a NAK (fate.h): a peer that understands OP_GROUNDS is told why. */
void answer_grounds(struct tqp *q, uint32_t psn);
void answer_run(struct tqp *q); /* sends the answers that wait */
/* Ends SILENT_IN_TURN: the answers leave, an ACK without waiting for a segment to ride on. */
void answer_release(struct tqp *q);
bool answer_idle(const struct tqp *q); /* true: no answer waits that an ACK could overtake */
int answer_reads(struct tqp *q); /* allocates q->rsp.reads. ENOMEM */
void answer_add(struct tqp *q, const struct answer *a);
void answer_forget(struct tqp *q); /* drops all answers that wait */
/* The same for a responder that ends. On one host the peer has no timer: requests that were
 * executed are acknowledged first, and for the others the peer is told that no responder is there.
 * Through a network the last ACK is sent a few times, since it may get lost. */
void answer_leave(struct tqp *q);
/* As tqp_no_responder(). */
int answer_no_responder(const struct seg *s, struct grounds why);
