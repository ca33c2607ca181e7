// SPDX-License-Identifier: MIT
/* The completer: what comes back to a requester (ACKs, NAKs, READ responses, atomic answers). */
#pragma once
#include "transport/tqp.h"

void completer_input(struct tqp *q, const struct seg *s, uint64_t now); /* RC responses */
void completer_piggyback(struct tqp *q, const struct seg *s, uint64_t now);
/* Everything before @psn is acknowledged: completes what that covers. True: something moved. */
bool completer_acked(struct tqp *q, uint32_t psn, uint64_t now);
