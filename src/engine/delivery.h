// SPDX-License-Identifier: MIT
/* Inbound segments to the QPs that they name. A thread that drains keeps the turn of the QP that it
 * delivered to last, so that a burst costs one turn. Inside a quiesce section. */
#pragma once
#include "engine/node_state.h"

void delivery_to_qp(struct node *n, uint32_t qpn, const struct seg *s);
void delivery_release(void); /* the drain is over: gives back the turn that it keeps */
