// SPDX-License-Identifier: MIT
/* The responder of the unreliable connected service: a message with a gap, or one that may not
 * go where it wants, is dropped whole and in silence. */
#pragma once
#include "transport/tqp.h"

void uc_input(struct tqp *q, const struct seg *s, uint64_t now);
