// SPDX-License-Identifier: MIT
/* QPs whose sender was told "receiver not ready": the next receive post tells them (M20). Usually
 * none, and then a receive post costs one load here. */
#pragma once
#include "engine/node_state.h"

/* Under the turn, after rnr_waiting was set: on the list when it is an SRQ, and a note to itself
 * when a receive was posted in between. */
void rq_waiters_look(struct eqp *e);
void rq_waiters_del(struct eqp *e);
void rq_waiters_note_srq(struct node *n,
			 const struct srq *srq); /* leaves TURN_RQ to those on @srq */
