// SPDX-License-Identifier: MIT
/* The round trip time of a path through a network, measured on packets that ask for an ACK and were
 * sent once (Karn), one packet at a time. */
#pragma once
#include "transport/tqp.h"

/* The packet at @psn leaves, for the first time, and asks for an ACK. */
void rtt_sent(struct tqp *q, uint32_t psn, uint64_t now);
void rtt_forget(struct tqp *q); /* a packet is sent again: its ACK cannot be timed */
void rtt_acked(struct tqp *q, uint64_t now); /* q->req.una has moved */
/* The time after which an answer is overdue: the mean and four deviations. 0: not known. */
uint64_t rtt_overdue_ns(const struct tqp *q);
/* Is the round trip above @times the shortest, by more than a scheduler may add? */
bool rtt_grown(const struct tqp *q, unsigned int times);
