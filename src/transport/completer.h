// SPDX-License-Identifier: MIT
/* The completer takes the answers to requests: ACKs, NAKs, READ responses, atomic answers. */
#pragma once
#include "transport/tqp.h"

void completer_input(struct tqp *q, const struct seg *s, uint64_t now); /* RC responses */
/* The ACK in a request or a response. */
void completer_piggyback(struct tqp *q, const struct seg *s, uint64_t now);
/* All PSNs before @psn are acknowledged: completes their entries. True: una has moved. */
bool completer_acked(struct tqp *q, uint32_t psn, uint64_t now);
