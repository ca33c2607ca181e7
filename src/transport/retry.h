// SPDX-License-Identifier: MIT
/* Trying again and giving up: ack timeout × retry_cnt, RNR timer × rnr_retry, sequence errors. */
#pragma once
#include "transport/tqp.h"

void retry_rnr(struct tqp *q, uint8_t syndrome, uint64_t now); /* an RNR NAK */
void retry_sequence(struct tqp *q, uint64_t now); /* a NAK: send again from una */
/* A later answer has overtaken the one at una: as for a NAK, once. */
void retry_gap(struct tqp *q, uint64_t now);
/* True: the destination is dead, but env->again() has found another one, by which the outstanding
 * segments go out again. */
bool retry_elsewhere(struct tqp *q);
void retry_timer(struct tqp *q, uint64_t now); /* the deadline has passed */
/* A look of the watchdog: a peer of this host that has run, has taken what was sent, and has
 * acknowledged nothing since the last look, uses up a try. */
void retry_watch(struct tqp *q, uint64_t now);
