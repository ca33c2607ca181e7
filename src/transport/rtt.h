// SPDX-License-Identifier: MIT
/* How long the path takes there and back, measured on packets that ask for an ACK and were sent
 * once (Karn), one at a time. Networks only. */
#pragma once
#include "transport/tqp.h"

/* @psn, never sent before, leaves and will be answered at once. */
void rtt_sent(struct tqp *q, uint32_t psn, uint64_t now);
void rtt_forget(struct tqp *q); /* something goes out again: an answer would say nothing */
void rtt_acked(struct tqp *q, uint64_t now); /* una has moved */
/* The time after which an answer is overdue: the mean and four deviations. 0: not known. */
uint64_t rtt_overdue_ns(const struct tqp *q);
/* Is it above @times what it was at its best? Schedulers take their time, too. */
bool rtt_grown(const struct tqp *q, unsigned int times);
