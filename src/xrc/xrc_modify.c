// SPDX-License-Identifier: MIT
#include "xrc/xrc_modify.h"
#include <errno.h>
#include "engine/path.h"
#include "engine/turn.h"
#include "util/clock.h"
#include "xrc/xrc_handle.h"
#include "xrc/xrc_turn.h"

static void leave(struct xrc_target *x)
{
	xrc_turn_end(x);
	turn_after(&x->e);
	turn_leave(&x->e);
	quiesce_exit();
}

/* Takes both turns and catches up. */
static int enter(struct xrc_target *x)
{
	int err = xrc_turn_call(x, "ibv_modify_qp");

	if (err)
		return err;
	err = xrc_turn_catch_up(x, clock_now());
	if (err)
		xrc_turn_return(x);
	return err;
}

static void modified(struct xrc_target *x, enum ibv_qp_state old, struct dest *d)
{
	struct tqp *q = &x->e.q;
	struct xrc_shared *t = xrc_turn_shared(x);

	if (d)
		path_swap(&x->e, d);
	tqp_moved(q, old, clock_now());
	if (q->qp.state == IBV_QPS_RESET) {
		path_swap(&x->e, NULL);
		t->died = 0;
	}
	x->moves = ++t->moves;
	xrc_store_attr(q, &t->state);
}

int xrc_modify(struct eqp *e, const struct ibv_qp_attr *attr, int mask)
{
	struct xrc_target *x = to_xrc(e);
	struct dest *d = NULL;
	enum ibv_qp_state old;
	int err = path_of_modify(e, attr, mask, false, &d);

	if (!err)
		err = enter(x);
	if (!err) {
		e->q.qp.ctx = x->handles->ctx;
		old = e->q.qp.state;
		err = qp_modify(&e->q.qp, attr, mask);
		if (!err)
			modified(x, old, d);
		leave(x);
	}
	if (err && d)
		d->ops->put(d);
	return err;
}

int xrc_modify_query(struct eqp *e, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init)
{
	int err = enter(to_xrc(e));

	if (err)
		return err;
	qp_query(&e->q.qp, attr, init);
	leave(to_xrc(e));
	return 0;
}
