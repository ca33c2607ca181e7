// SPDX-License-Identifier: MIT
/* Going back and giving up: ack timeout × retry_cnt, RNR timer × rnr_retry, sequence errors.
 * The same time and status on every link: on same-host links, which lose nothing, the timeout runs
 * only while nobody takes or answers the segments (WAIT_LOST). */
#pragma once
#include "transport/tqp.h"

void retry_arm(struct tqp *q, uint64_t now); /* the ack timer, if segments are outstanding */
void retry_progress(struct tqp *q,
		    uint64_t now); /* something was acknowledged: counts start afresh */
/* Something has arrived behind what is missing: time without progress starts afresh. */
void retry_heard(struct tqp *q, uint64_t now);
/* Sending goes on at @psn; to a peer that reports, all that is on its way goes out again. */
void retry_back(struct tqp *q, uint32_t psn);
void retry_lost(struct tqp *q, uint64_t now); /* same-host: nobody is there */
void retry_rnr(struct tqp *q, uint8_t syndrome, uint64_t now);
void retry_sequence(struct tqp *q, uint64_t now); /* a NAK: send again from una */
void retry_gap(struct tqp *q, uint64_t now); /* the answer at una was overtaken: the same, once */
void retry_timer(struct tqp *q, uint64_t now);
void retry_clear(struct tqp *q); /* RNR clear, whose RNR NAK may not have left: from una, now */
