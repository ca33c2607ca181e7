// SPDX-License-Identifier: MIT
/* Payload that lies in too many places for the pieces of one segment, or that a signature changes
 * on its way: gather() was refused with KEY_APART or KEY_SIGNED. Each call copies it by way of the
 * queue pair's own buffer, which it may enlarge, and leaves in @g one piece: that buffer, by value,
 * until the next call. Under the QP's turn, inside a quiesce section. False: not for that reason,
 * or the copy is refused, as @g then says. A signature that is wrong is noted in its mkey and in
 * q->linear.wrong; the payload goes its way. */
#pragma once
#include "transport/gather.h"
#include "transport/tqp.h"

/* The payload of a segment that is sent. Cuts @ask->len to what may go by value: @max, a multiple
 * of the MTU. */
bool linear_source(struct tqp *q, struct gather_ask *ask, uint32_t max, struct gather *g);
/* Places the payload of @s from @skip on. The caller may place it in @g's piece again, which says
 * what went wrong if something did. */
bool linear_place(struct tqp *q, const struct gather_ask *ask, const struct seg *s, uint32_t skip,
		  struct gather *g);
void linear_free(struct tqp *q);
