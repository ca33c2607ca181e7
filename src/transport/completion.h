// SPDX-License-Identifier: MIT
/* Send completions: the oldest started work request is done, or has failed. */
#pragma once
#include "transport/fate.h"
#include "transport/gather.h"
#include "transport/tqp.h"

void completion_done(struct tqp *q, uint64_t now);
/* cq_push(), with the message in the entry too, if it fits and the addresses in the list of @ask
 * are the program's own: by others (zero based, another iova) the reader of the entry could not put
 * the bytes in their place. ask->len is set here. */
int completion_push_inlined(struct tqp *q, struct cq *cq, const struct cqe *c,
			    struct gather_ask *ask);
/* The QP goes to ERR (UC and UD: SQE). @id: the reason's record. */
void completion_fail(struct tqp *q, enum verdict v, uint64_t id, uint64_t now);
