// SPDX-License-Identifier: MIT
/* The responder of the unreliable connected service: drops a message with a gap, or one whose
 * target refuses it, as a whole and in silence. */
#pragma once
#include "transport/tqp.h"

void uc_input(struct tqp *q, const struct seg *s, uint64_t now);
