// SPDX-License-Identifier: MIT
/* READs, atomics and atomic writes at the responder, and their duplicates: a duplicate READ is
 * executed again within the PSNs of the first one, a duplicate atomic is answered from the saved
 * result. */
#pragma once
#include "transport/place.h"

/* Bytes of payload of a masked atomic: swap_mask and compare_mask (prm/wqe.h), big-endian. */
enum { ATOMIC_MASKS = 16 };

/* A new request. False: refused, as *no says. *out: its answer, but for the MSN. */
bool execute(struct tqp *q, const struct seg *s, struct answer *out, struct refusal *no);
/* A duplicate. False: no answer, since the request is not saved or too many answers wait. */
bool execute_again(struct tqp *q, const struct seg *s, struct answer *out);
