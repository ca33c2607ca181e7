// SPDX-License-Identifier: MIT
/* Sending goes back to a PSN that was sent before. */
#pragma once
#include "transport/tqp.h"

/* Sending goes on at @psn; to a peer that reports, all PSNs that are not done go out again. */
void rewind_to(struct tqp *q, uint32_t psn);
void rewind_go_on(struct tqp *q); /* a wait is over: sending goes on at una */
/* The peer has posted receives, or has come to RTR: sending goes on at una, even if its RNR NAK has
 * not come. Not in the middle of a try, which has its time. */
void rewind_clear(struct tqp *q);
