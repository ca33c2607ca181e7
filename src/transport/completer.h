// SPDX-License-Identifier: MIT
/* The completer: what comes back to a requester (ACKs, NAKs, READ responses, atomic answers),
 * and the completions of the SQ. */
#pragma once
#include "transport/tqp.h"
#include "transport/fate.h"

void completer_input(struct tqp *q, const struct seg *s, uint64_t now); /* RC responses */
void completer_piggyback(struct tqp *q, const struct seg *s, uint64_t now);
/* Everything before @psn is acknowledged: completes what that covers. True: something moved. */
bool completer_acked(struct tqp *q, uint32_t psn, uint64_t now);
/* Completes the oldest entry, well. */
void completer_done(struct tqp *q, uint64_t now);
/* The oldest entry failed; the QP goes to ERR (UC and UD: SQE). @id: the reason's record. */
void completer_fail(struct tqp *q, enum verdict v, uint64_t id, uint64_t now);
