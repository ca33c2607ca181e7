// SPDX-License-Identifier: MIT
/* Placing the payload of SENDs and WRITEs, and the receive completions: RC and UC. */
#pragma once
#include "transport/tqp.h"
#include "transport/fate.h"

/* PLACE_RNR: no receive WQE; PLACE_NO_REF: the payload must come by value; PLACE_GONE: the sender's
 * memory is gone; PLACE_REFUSED: struct refusal says why. */
enum place { PLACE_DONE, PLACE_RNR, PLACE_NO_REF, PLACE_GONE, PLACE_REFUSED };

struct refusal {
	enum verdict v;
	uint64_t id; /* the reason's record */
};

/* Places the payload of @s, a segment of a SEND or WRITE. */
enum place place_segment(struct tqp *q, const struct seg *s, struct refusal *no);
/* Completes with success the receive WQE that was taken. */
void place_complete(struct tqp *q, const struct seg *s, uint64_t now);
/* Does what the verdict's fate says: error completion of the receive that was taken, event, ERR. */
void place_fail(struct tqp *q, const struct refusal *no, uint64_t now);
/* Copies the payload from @skip on to @g's pieces. 0, EFAULT, EREMOTEIO, EPERM. */
struct gather;
int place_copy(struct tqp *q, const struct seg *s, uint32_t skip, const struct gather *g);
