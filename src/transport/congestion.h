// SPDX-License-Identifier: MIT
/* How many PSNs a QP keeps on their way through a network: a window that grows while it is used and
 * shrinks, at most once per round trip, when the path is congested. What says so: marks (ECN, told
 * by CNPs), a round trip that has grown, losses beside it, or many losses at once. A loss alone
 * says nothing. What spaces packets in time are the ACKs: where none came for a while the window is
 * that of the start, so that it never leaves at once. */
#pragma once
#include "transport/tqp.h"

enum { CONGESTION_HOST = 1 << 22 /* same host: half of what PSNs can tell apart */ };

void congestion_begin(struct tqp *q); /* una is set */
uint32_t congestion_path(const struct tqp *q); /* PSNs that the peer's end can take at once */
uint32_t congestion_network(const struct tqp *q); /* no more than that, and at least 2 */

/* PSNs that may be on their way. */
static inline uint32_t congestion_window(const struct tqp *q)
{
	return likely(link_is_lossless(q->dest)) ? CONGESTION_HOST : congestion_network(q);
}

/* Is the @k-th packet of a message, which leaves now, to ask for an ACK? In the middle of a long
 * one, before the window is full and well before it is half empty. */
bool congestion_asks(const struct tqp *q, uint32_t k);
bool congestion_ack_due(const struct tqp *q); /* one is asked for, by what is on its way */
/* The packet at @psn, which asks for an ACK, has left just now. */
void congestion_asked(struct tqp *q, uint32_t psn, uint64_t now);
void congestion_progress(struct tqp *q, uint64_t now); /* una has moved */
void congestion_resume(struct tqp *q,
		       uint64_t now); /* nothing is on its way; something may leave */
void congestion_lost(struct tqp *q, uint32_t n); /* @n PSNs, just now */
void congestion_silence(struct tqp *q); /* nothing is acknowledged any more */
void congestion_noted(struct tqp *q); /* the path says that it is congested */

/* A packet came marked: its sender gets a CNP, unless it got one just now. */
void congestion_marked(struct tqp *q, const struct seg *s, uint64_t now);
