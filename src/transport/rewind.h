// SPDX-License-Identifier: MIT
/* Sending goes back to what was sent before. */
#pragma once
#include "transport/tqp.h"

/* Sending goes on at @psn; to a peer that reports, all that is on its way goes out again. */
void rewind_to(struct tqp *q, uint32_t psn);
void rewind_go_on(struct tqp *q); /* a wait is over: what stands at una goes out again */
void rewind_clear(struct tqp *q); /* RNR clear, whose RNR NAK may not have left: from una, now */
