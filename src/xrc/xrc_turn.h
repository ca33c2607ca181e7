// SPDX-License-Identifier: MIT
/* The shared turn of a target QP: a word in its entry of the page, taken under the QP's local turn.
 * Its value is the word of the member that has it. If that member has died, the next one takes the
 * turn over and puts the QP in ERR. */
#pragma once
#include "xrc/xrc_domain.h"

struct xrc_handle;

/* This process's half of a target QP. Under its local turn. */
struct xrc_target {
	struct eqp e; /* first */
	struct xrc_domain *domain;
	uint32_t index;
	uint32_t gen, moves; /* of the shared entry, as this process knows it */
	uint32_t number; /* the QPN, when this process gave it; else 0 */
	bool inside; /* this process has the shared turn */
	struct xrc_handle *handles; /* written under xrc_member_lock() and the turn */
};

static inline struct xrc_target *to_xrc(struct eqp *e)
{
	return (struct xrc_target *)e;
}

static inline struct xrc_shared *xrc_turn_shared(const struct xrc_target *x)
{
	return &x->domain->page->target[x->index];
}

/* False: another member has it, and did not give it back in time. */
bool xrc_turn_begin(struct xrc_target *x);
/* Takes the local turn and this one for a call of the program, inside a quiesce section.
 * ETIMEDOUT, with none of them: a member that is stopped has the QP. */
int xrc_turn_call(struct xrc_target *x, const char *call);
void xrc_turn_return(struct xrc_target *x); /* ends all three */
void xrc_turn_end(struct xrc_target *x);
/* Between the two: loads the state that other members have left. ENOMEM: nothing was loaded. */
int xrc_turn_catch_up(struct xrc_target *x, uint64_t now);
