// SPDX-License-Identifier: MIT
/* What an RC responder sends: ACKs and NAKs, READ responses, atomic answers, in the order of their
 * requests. What the link does not take waits here. */
#pragma once
#include "transport/tqp.h"

/* The request @s, new or a duplicate, is executed: an ACK now, later, or none, as the link wants
 * it. */
void answer_ack(struct tqp *q, const struct seg *s);
void answer_ack_now(struct tqp *q); /* if one is due */
void answer_nak(struct tqp *q, uint8_t syndrome, uint32_t psn);
void answer_run(struct tqp *q); /* sends what waits */
bool answer_idle(const struct tqp *q); /* nothing waits, so an ACK may overtake nothing */
int answer_reads(struct tqp *q); /* allots q->rsp.reads. ENOMEM */
void answer_add(struct tqp *q, const struct answer *a);
void answer_forget(struct tqp *q);
/* The same for a responder that ends. The peer on a same-host link has no timer: what was executed
 * is acknowledged first, and of what was not answered it hears that nobody is there any more. */
void answer_leave(struct tqp *q);
/* A bare answer to whoever sent @request: SYN_NO_RESPONDER, … 0 or what the link says. */
int answer_bare(struct dest *to, const struct seg *request, uint8_t syndrome);
