// SPDX-License-Identifier: MIT
/* QPs whose notes or long work the holder of the turn did not finish: the engine thread or the next
 * poll goes on with them (backlog.h). */
#pragma once
#include "engine/node_state.h"

void ready_put(struct eqp *e); /* nothing when it is listed already */
/* All that are listed; ready_unlist() leads from one to the next. */
struct eqp *ready_take_all(struct node *n);
/* The QP may be listed anew from here on. *@notes: what is to be left for it. */
struct eqp *ready_unlist(struct eqp *e, uint32_t *notes);
