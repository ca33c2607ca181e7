// SPDX-License-Identifier: MIT
/* The congestion window: how many PSNs of a QP may be on their way through a network. It grows
 * while the QP uses it and shrinks, at most once per round trip, when the path is congested. Signs
 * of congestion are marks (ECN, reported by CNPs), a round trip that has grown, losses while it
 * grows, and many losses at once; a single loss is none. ACKs space the packets in time: after a
 * pause without ACKs the window is that of the start, so that a large one never leaves in one
 * burst. */
#pragma once
#include "transport/tqp.h"

/* The window on a lossless link, in PSNs: half of those that can be told apart. */
enum { CONGESTION_HOST = 1 << 22 };

void congestion_begin(struct tqp *q); /* q->req.una is set */
uint32_t congestion_path(const struct tqp *q); /* PSNs that the peer's end can take at once */
uint32_t congestion_network(const struct tqp *q); /* the window: congestion_path() at most */

/* PSNs that may be on their way. */
static inline uint32_t congestion_window(const struct tqp *q)
{
	return likely(link_is_lossless(q->dest)) ? CONGESTION_HOST : congestion_network(q);
}

/* Shall the @k-th packet of a message, which leaves now, ask for an ACK? In a long message some
 * packets in the middle do, so that ACKs come before the window is full. */
bool congestion_asks(const struct tqp *q, uint32_t k);
bool congestion_ack_due(const struct tqp *q); /* a packet on its way asks for an ACK */
/* The packet at @psn, which asks for an ACK, has left just now. */
void congestion_asked(struct tqp *q, uint32_t psn, uint64_t now);
void congestion_progress(struct tqp *q, uint64_t now); /* q->req.una has moved */
void congestion_resume(struct tqp *q,
		       uint64_t now); /* no packet is on its way, and one may leave now */
void congestion_lost(struct tqp *q, uint32_t n); /* @n PSNs were found to be lost */
void congestion_silence(struct tqp *q); /* the peer has stopped acknowledging */
void congestion_noted(struct tqp *q); /* a CNP or a mark says that the path is congested */

/* A marked packet has arrived: its sender gets a CNP, at most one in 50 us. */
void congestion_marked(struct tqp *q, const struct seg *s, uint64_t now);
