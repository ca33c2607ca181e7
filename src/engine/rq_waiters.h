// SPDX-License-Identifier: MIT
/* QPs on an SRQ whose sender was told "receiver not ready" (docs/design/receiver-not-ready.md). A
 * post to the SRQ leaves TURN_RQ to them (doorbell.c). Usually there is none, and then a post costs
 * one load of node->rq_waiters. */
#pragma once
#include "engine/node_state.h"

/* Under the turn, after rnr_waiting was set: lists the QP when its receives are an SRQ's. True: a
 * receive was posted in between. */
bool rq_waiters_add(struct eqp *e);
void rq_waiters_del(struct eqp *e);
unsigned int rq_waiters_count(struct node *n, const struct srq *srq); /* QPs that wait for @srq */
/* Takes the one that has waited longest for @srq off the list; NULL: none is left. */
struct eqp *rq_waiters_pop(struct node *n, const struct srq *srq);
