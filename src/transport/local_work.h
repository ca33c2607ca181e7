// SPDX-License-Identifier: MIT
/* Work requests that send nothing: NOP, binding and invalidating memory windows, setting up mkeys,
 * copying memory, and those of a DCI stream in error. */
#pragma once
#include "transport/sent.h"

/* Executes @w, once even if sending goes back over it. False: it has failed, or it will fail when
 * the work requests before it are done. */
bool local_work_do(struct tqp *q, struct sent *e, const struct wqe *w, uint64_t now);
