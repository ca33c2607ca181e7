// SPDX-License-Identifier: MIT
/* Payload that lies in too many places for the pieces of one segment, or that a signature changes
 * on its way: gather() was refused with KEY_APART or KEY_SIGNED. Each call copies the payload
 * through the queue pair's own buffer, which it may enlarge, and leaves one piece in @g: that
 * buffer, by value, valid until the next call. Under the QP's turn, inside a quiesce section.
 * False: gather() was refused for another reason, or the copy is refused, as @g then says. A wrong
 * signature is recorded in its mkey and in q->linear.wrong; the payload is transferred all the
 * same. */
#pragma once
#include "transport/gather.h"
#include "transport/tqp.h"

/* The payload of a segment to be sent. Cuts @ask->len to @max, a multiple of the MTU, the most that
 * may go by value. */
bool linear_source(struct tqp *q, struct gather_ask *ask, uint32_t max, struct gather *g);
/* Places the payload of @s from @skip on. The caller may then place it in @g's piece, too, which
 * returns the error if the copy fails. */
bool linear_place(struct tqp *q, const struct gather_ask *ask, const struct seg *s, uint32_t skip,
		  struct gather *g);
void linear_free(struct tqp *q);
