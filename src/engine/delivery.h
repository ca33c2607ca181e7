// SPDX-License-Identifier: MIT
/* Inbound segments to the QPs that they name. A thread that drains keeps the turn of the QP that it
 * delivered to last, so that a burst costs one turn. Inside a quiesce section. */
#pragma once
#include "engine/node_state.h"

void delivery_to_qp(struct node *n, uint32_t qpn, const struct seg *s);
/* The PSNs of the QP that @s is for: *epsn of the next request, *una of its oldest open request.
 * Keeps the turn for the segment's delivery. False: the service has no order, or more than one
 * responder. Only while tracing. */
bool delivery_expects(struct node *n, const struct seg *s, uint32_t *epsn, uint32_t *una);
/* Would the segment be dropped, since a receive that it needs is not posted? Keeps the turn of its
 * QP. */
bool delivery_lacks_receive(struct node *n, const struct seg *s);
void delivery_release(void); /* the drain is over: gives the kept turn back */
