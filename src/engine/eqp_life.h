// SPDX-License-Identifier: MIT
/* Beginning and end of what every QP of the engine has, whether it is a QP of its own (qp_life.h)
 * or this process' half of a target QP (xrc_half.h). */
#pragma once
#include "engine/node_state.h"

/* Makes @e, all zero until now, an empty QP of @n. */
void eqp_life_begin(struct eqp *e, struct node *n, const struct tqp_env *env);
/* For a QP that no number leads to any more: takes it off every list, its destination's waiting
 * list and the timer wheel, and moves it to RESET. When it returns no thread works on the QP. */
void eqp_life_end(struct eqp *e);
