// SPDX-License-Identifier: MIT
/* What an RC responder sends: ACKs and NAKs, READ responses, atomic answers, in the order of their
 * requests. What the link does not take waits here. */
#pragma once
#include "transport/tqp.h"

/* The request @s, new or a duplicate, is executed: an ACK now, later, or none, as the link wants
 * it. */
void answer_ack(struct tqp *q, const struct seg *s);
void answer_ack_now(struct tqp *q); /* if one is due */
/* Through a network an ACK may wait a moment for what the program sends next. Before a packet that
 * the peer may be told of by a completion it leaves first: a program takes a reply to mean that its
 * own message is complete, and may have room for no other. Else it leaves behind it. */
void answer_ahead(struct tqp *q, uint8_t op); /* a packet leaves now, with what is unflushed */
static inline void answer_behind(struct tqp *q) /* its message is on its way */
{
	if (unlikely(q->rsp.ack_held))
		answer_ack_now(q);
}

void answer_replied(struct tqp *q);
static inline void answer_reply(struct tqp *q) /* it has posted: does it reply to a message? */
{
	if (unlikely(q->rsp.unreplied))
		answer_replied(q);
}

void answer_nak(struct tqp *q, uint8_t syndrome, uint32_t psn);
void answer_run(struct tqp *q); /* sends what waits */
/* Nothing leaves while q->rsp.silent; now it does, an ACK without waiting for what it could ride
 * on. */
void answer_release(struct tqp *q);
bool answer_idle(const struct tqp *q); /* nothing waits, so an ACK may overtake nothing */
int answer_reads(struct tqp *q); /* allots q->rsp.reads. ENOMEM */
void answer_add(struct tqp *q, const struct answer *a);
void answer_forget(struct tqp *q);
/* The same for a responder that ends. The peer on a same-host link has no timer: what was executed
 * is acknowledged first, and of what was not answered it hears that nobody is there any more.
 * Through a network the last ACK goes out a few more times: it may get lost. */
void answer_leave(struct tqp *q);
/* As tqp_no_responder(). */
int answer_no_responder(const struct seg *s);
