// SPDX-License-Identifier: MIT
/* READ and atomic requests at the responder, and their duplicates: a READ is executed again
 * within the range it was granted, an atomic is answered from what was saved. */
#pragma once
#include "transport/place.h"

/* A new request. False: refused, as *no says. *out: its answer, but for the MSN. */
bool execute(struct tqp *q, const struct seg *s, struct answer *out, struct refusal *no);
/* A duplicate. False: nothing known of it, or too many wait: silence. */
bool execute_again(struct tqp *q, const struct seg *s, struct answer *out);
