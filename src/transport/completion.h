// SPDX-License-Identifier: MIT
/* Send completions: the oldest started work request is done, or has failed. */
#pragma once
#include "transport/fate.h"
#include "transport/tqp.h"

void completion_done(struct tqp *q, uint64_t now);
/* The QP goes to ERR (UC and UD: SQE). @id: the reason's record. */
void completion_fail(struct tqp *q, enum verdict v, uint64_t id, uint64_t now);
