// SPDX-License-Identifier: MIT
#include "xrc/xrc_half.h"
#include <stdlib.h>
#include <string.h>
#include "engine/acks.h"
#include "engine/eqp_life.h"
#include "engine/qp_table.h"
#include "engine/unanswered.h"
#include "util/fork.h"
#include "xrc/xrc_modify.h"
#include "xrc/xrc_responder.h"
#include "xrc/xrc_srq_table.h"

static const struct tqp_env env = {
	.ack_later = acks_later,
	.moved = xrc_responder_moved,
	.no_responder_later = unanswered_later,
	.serve = xrc_responder_serve,
	.event = xrc_responder_event,
};

static const struct eqp_ops ops = {
	.input = xrc_responder_input,
	.modify = xrc_modify,
	.query = xrc_modify_query,
};

static struct xrc_target *half_new(struct xrc_domain *d, uint32_t index)
{
	struct xrc_target *x = aligned_alloc(64, (sizeof(*x) + 63) & ~(size_t)63);

	if (!x)
		return NULL;
	memset(x, 0, sizeof(*x));
	x->domain = d;
	x->index = index;
	x->moves = d->page->target[index].moves - 1;
	x->e.ops = &ops;
	x->e.met = true;
	x->e.q.qp.ctx = d->ctx;
	x->e.q.qp.epoch = fork_epoch();
	x->e.q.qp.service = &services[SERVICE_XRC_RECV];
	eqp_life_begin(&x->e, d->node, &env);
	return x;
}

struct xrc_target *xrc_half_get(struct xrc_domain *d, uint32_t index)
{
	struct xrc_target *x = load_acquire(&d->target[index]), *fresh; /* pairs with the CAS */

	if (likely(x != NULL))
		return x;
	fresh = half_new(d, index);
	if (!fresh || cas_acq_rel(&d->target[index], &x, fresh))
		return fresh;
	free(fresh);
	return x;
}

void xrc_half_free(struct xrc_target *x)
{
	if (!x)
		return;
	eqp_life_end(&x->e);
	if (x->number)
		qp_table_give(x->e.node, x->number);
	free(x);
}

struct eqp *xrc_half_find_in(struct xrc_domain *d, uint32_t qpn)
{
	uint32_t index;
	struct xrc_target *x;

	if (!xrc_page_find(d->page, qpn, &index))
		return NULL;
	x = xrc_half_get(d, index);
	return x ? &x->e : NULL;
}

struct eqp *xrc_half_find(struct node *n, const struct seg *s)
{
	const struct srq *srq = xrc_srq_table_find(n, s->srqn);
	struct eqp *e = srq ? xrc_half_find_in(srq->xrcd->domain, s->dqpn) : NULL;
	struct xrc_domain *d;

	if (likely(e != NULL))
		return e;
	/* another domain's QP: its responder refuses the SRQ */
	for (d = load_acquire(&n->xrc_domains); d && !e; d = load_acquire(&d->next))
		e = xrc_half_find_in(d, s->dqpn);
	return e;
}
