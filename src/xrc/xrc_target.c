// SPDX-License-Identifier: MIT
#include "xrc/xrc_target.h"
#include <errno.h>
#include "engine/qp_table.h"
#include "engine/turn.h"
#include "hca/async.h"
#include "hca/limits.h"
#include "obs/explain.h"
#include "transport/hold.h"
#include "util/fork.h"
#include "xrc/xrc_half.h"
#include "xrc/xrc_member.h"

void xrc_target_forget_srq(struct xrc_domain *d, const struct srq *srq)
{
	for (uint32_t i = 0; i < XRC_TARGETS; i++) {
		struct xrc_target *x = load_acquire(&d->target[i]);

		if (!x)
			continue;
		quiesce_enter();
		turn_take(&x->e);
		xrc_unbind(&x->e.q, srq);
		turn_leave(&x->e);
		quiesce_exit();
	}
	quiesce_wait(); /* a drain may have found the SRQ before */
}

/* --- handles --- */

static void add_handle(struct xrc_target *x, struct xrcd *xrcd, struct xrc_handle *h)
{
	struct xrc_shared *t = xrc_turn_shared(x);

	xrcd_get(xrcd);
	h->ctx = xrcd->ctx;
	h->xrcd = xrcd;
	quiesce_enter();
	turn_take(&x->e);
	h->next = x->handles;
	x->handles = h;
	turn_leave(&x->e);
	quiesce_exit();
	fetch_or_acq_rel(&t->holders[x->domain->me / 64], UINT64_C(1) << x->domain->me % 64);
}

/* A number that no QP of the domain has. A QP of the domain may have one of our numbers, since it
 * outlives the process that gave it. */
static int number(struct xrc_domain *d, uint32_t *qpn)
{
	uint32_t index, taken;
	int err = qp_table_take(d->node, qpn);

	if (err || !xrc_page_find(d->page, *qpn, &index))
		return err;
	taken = *qpn;
	err = number(d, qpn);
	qp_table_give(d->node, taken);
	return err;
}

/* Under the domain's lock. */
static int make(struct xrc_domain *d, struct xrc_target **out)
{
	struct xrc_target *x;
	uint32_t qpn = 0, index = 0;
	int err = number(d, &qpn);

	if (err)
		return err;
	if (!xrc_page_place(d->page, qpn, &index))
		err = refuse(ENOMEM,
			     "ibv_create_qp_ex: all %d target QPs of this XRC domain exist; "
			     "destroy some or use another domain",
			     XRC_TARGETS);
	x = err ? NULL : xrc_half_get(d, index);
	if (!err)
		err = x ? xrc_turn_call(x, "ibv_create_qp_ex")
			: refuse_memory("ibv_create_qp_ex", sizeof(*x));
	if (err) {
		qp_table_give(d->node, qpn);
		return err;
	}
	if (x->number)
		qp_table_give(d->node, x->number); /* of a QP that another member destroyed */
	x->number = qpn;
	xrc_page_begin(xrc_turn_shared(x), qpn);
	x->e.q.qp.qpn = x->e.q.qp.shown = qpn;
	xrc_turn_return(x);
	*out = x;
	return 0;
}

int xrc_target_create(struct xrcd *xrcd, struct xrc_handle *h, struct tqp **out)
{
	struct xrc_domain *d = xrcd->domain;
	uint32_t *count = &xrcd->ctx->hca->count.qp;
	struct xrc_target *x = NULL;
	int err = xrcd_use(xrcd, "ibv_create_qp_ex");

	if (!err)
		err = device_take(count, LIMIT_QP, "ibv_create_qp_ex");
	if (err)
		return err;
	err = xrc_member_lock(d);
	if (!err) {
		err = make(d, &x);
		if (!err)
			add_handle(x, xrcd, h);
		xrc_member_unlock(d);
	}
	if (err) {
		device_give(count);
		return err;
	}
	*out = &x->e.q;
	return 0;
}

int xrc_target_open(struct xrcd *xrcd, uint32_t qpn, struct xrc_handle *h, struct tqp **out)
{
	struct xrc_domain *d = xrcd->domain;
	uint32_t *count = &xrcd->ctx->hca->count.qp;
	struct eqp *e;
	int err = xrcd_use(xrcd, "ibv_open_qp");

	if (!err)
		err = device_take(count, LIMIT_QP, "ibv_open_qp");
	if (err)
		return err;
	err = xrc_member_lock(d);
	if (!err) {
		e = xrc_half_find_in(d, qpn);
		if (e)
			add_handle(to_xrc(e), xrcd, h);
		else
			err = refuse(
				EINVAL,
				"ibv_open_qp: the XRC domain has no QP 0x%x; give the number of "
				"one that a member made and that is not destroyed",
				qpn);
		xrc_member_unlock(d);
	}
	if (err) {
		device_give(count);
		return err;
	}
	*out = &e->q;
	return 0;
}

static void let_go(struct xrc_target *x, struct xrc_handle *h)
{
	quiesce_enter();
	turn_take(&x->e);
	for (struct xrc_handle **p = &x->handles; *p; p = &(*p)->next)
		if (*p == h) {
			*p = h->next;
			break;
		}
	if (x->e.q.qp.ctx == h->ctx)
		x->e.q.qp.ctx = x->domain->ctx;
	turn_leave(&x->e);
	quiesce_exit();
	async_drop(h->ctx, h->user);
}

static bool held_elsewhere(const struct xrc_target *x)
{
	const struct xrc_domain *d = x->domain;

	for (uint32_t i = 0; i < XRC_MEMBERS; i++) {
		uint32_t word = xrc_page_word(load_relaxed(&d->page->member_gen[i]), i);

		if (i != d->me &&
		    (load_relaxed(&xrc_turn_shared(x)->holders[i / 64]) >> i % 64 & 1) &&
		    xrc_member_lives(d, word))
			return true;
	}
	return false;
}

/* Under the domain's lock. ETIMEDOUT: nothing has changed. */
static int destroy(struct xrc_target *x)
{
	struct xrc_shared *t = xrc_turn_shared(x);
	int err = xrc_turn_call(x, "ibv_destroy_qp");

	if (err)
		return err;
	store_relaxed(&t->qpn, 0);
	t->moves++;
	hold_forget(&x->e.q);
	xrc_turn_return(x);
	if (x->number)
		qp_table_give(x->e.node, x->number);
	x->number = 0;
	return 0;
}

int xrc_target_close(struct tqp *q, struct xrc_handle *h)
{
	struct xrc_target *x = to_xrc(to_eqp(q));
	struct xrc_domain *d = x->domain;
	bool last;
	int err;

	if (!fork_is_ours(h->xrcd->epoch)) {
		xrcd_put(h->xrcd);
		return 0;
	}
	err = xrc_member_lock(d);
	if (err)
		return err;
	last = x->handles == h && !h->next; /* of this process */
	err = last && !held_elsewhere(x) ? destroy(x) : 0;
	if (!err) {
		let_go(x, h);
		if (last)
			fetch_and_acq_rel(&xrc_turn_shared(x)->holders[d->me / 64],
					  ~(UINT64_C(1) << d->me % 64));
	}
	xrc_member_unlock(d);
	if (err)
		return err;
	device_give(&h->ctx->hca->count.qp);
	xrcd_put(h->xrcd);
	return 0;
}
