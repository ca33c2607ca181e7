// SPDX-License-Identifier: MIT
#include "engine/ready.h"

void ready_put(struct eqp *e)
{
	struct node *n = e->node;

	if (xchg_acq_rel(&e->ready_listed, 1))
		return;
	e->ready_next = load_relaxed(&n->ready);
	while (!cas_acq_rel(&n->ready, &e->ready_next, e))
		;
}

struct eqp *ready_take_all(struct node *n)
{
	return xchg_acq_rel(&n->ready, NULL);
}

struct eqp *ready_unlist(struct eqp *e, uint32_t *notes)
{
	struct eqp *next = e->ready_next;

	xchg_acq_rel(&e->ready_listed, 0);
	*notes = xchg_acq_rel(&e->go_on, false) ? TURN_RESUME : 0;
	return next;
}
