// SPDX-License-Identifier: MIT
/* The node's timer wheel: one lazy entry per QP (M19), one per CQ whose event waits for more
 * completions, and one for ports that others hold (port_wait.h). Whoever makes progress runs it,
 * inside a quiesce section. */
#pragma once
#include "engine/node_state.h"
#include "hca/cq.h"

void timers_arm(struct eqp *e, uint64_t at); /* no-op when an earlier one is armed */
void timers_drop(struct eqp *e);
/* Any other timer, with what it does; a running one is moved. */
void timers_add(struct node *n, struct timer *t, void (*fire)(struct timer *, uint64_t),
		uint64_t at);
extern const struct cq_timers timers_of_cqs;
void timers_run(struct node *n); /* works off what is due; a load when nothing is armed */
uint64_t timers_next(struct node *n);
