// SPDX-License-Identifier: MIT
#include "engine/eqp_life.h"
#include "engine/backlog.h"
#include "engine/listeners.h"
#include "engine/path.h"
#include "engine/path_kept.h"
#include "engine/port_counts.h"
#include "engine/rq_waiters.h"
#include "engine/timers.h"
#include "engine/turn.h"
#include "util/clock.h"

static void resume(struct waiter *w)
{
	quiesce_enter(); /* host_control() is in no section */
	turn_note(container_of(w, struct eqp, q.waiter), TURN_RESUME);
	quiesce_exit();
}

void eqp_life_begin(struct eqp *e, struct node *n, const struct tqp_env *env)
{
	e->node = n;
	e->timer_at = TQP_NEVER;
	list_init(&e->timer.node);
	list_init(&e->watch.node);
	e->inbox_end = &e->inbox;
	spin_init(&e->inbox_lock);
	tqp_init(&e->q, env);
	e->q.waiter.resume = resume;
}

/* Its turn is closed: what takes it off a list from here on cannot put it on another. */
static void leave_lists(struct eqp *e)
{
	rq_waiters_del(e);
	backlog_forget(e);
	timers_drop(e);
}

void eqp_life_end(struct eqp *e)
{
	struct tqp *q = &e->q;
	enum ibv_qp_state old;

	listeners_del(e);
	backlog_forget(e); /* ACKs that it owes leave */
	quiesce_enter();
	turn_close(e);
	port_counts_take(e);
	old = q->qp.state;
	q->qp.state = IBV_QPS_RESET;
	tqp_moved(q, old, clock_now());
	path_swap(e, NULL);
	path_kept_drop(e);
	path_swap_alternate(e, NULL);
	tqp_fini(q);
	quiesce_exit();
	leave_lists(e);
	quiesce_wait();
}
