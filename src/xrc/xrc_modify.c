// SPDX-License-Identifier: MIT
#include "xrc/xrc_modify.h"
#include <errno.h>
#include <time.h>
#include "engine/path.h"
#include "engine/turn.h"
#include "obs/explain.h"
#include "util/clock.h"
#include "xrc/xrc_handle.h"
#include "xrc/xrc_turn.h"

enum { CALL_MS = 2000 }; /* that a call waits for the shared turn */

/* Takes both turns for a call and catches up. ETIMEDOUT: a member that is stopped has the QP. */
static int enter(struct xrc_target *x)
{
	const struct timespec nap = { .tv_nsec = 1000000 };

	for (unsigned int ms = 0; ms < CALL_MS; ms++) {
		int err = ETIMEDOUT;

		quiesce_enter();
		turn_take(&x->e);
		if (xrc_turn_begin(x)) {
			err = xrc_turn_catch_up(x, clock_now());
			if (!err)
				return 0;
			xrc_turn_end(x);
		}
		turn_leave(&x->e);
		quiesce_exit();
		if (err != ETIMEDOUT)
			return err;
		nanosleep(&nap, NULL);
	}
	return refuse(
		ETIMEDOUT,
		"ibv_modify_qp: a process of the XRC domain has been at work on QP 0x%x for %d "
		"ms; let it go on (is it stopped?)",
		x->e.q.qp.qpn, CALL_MS);
}

static void leave(struct xrc_target *x)
{
	xrc_turn_end(x);
	turn_after(&x->e);
	turn_leave(&x->e);
	quiesce_exit();
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
