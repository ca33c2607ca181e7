// SPDX-License-Identifier: MIT
/* Work requests that send nothing: NOP, memory windows bound and invalidated, mkeys set up,
 * memory copied, what is of a DCI stream in error. */
#pragma once
#include "transport/sent.h"

/* Executes @w once, though sending may go back over it. False: it has failed, or waits to fail
 * until the work requests before it are done. */
bool local_work_do(struct tqp *q, struct sent *e, const struct wqe *w, uint64_t now);
