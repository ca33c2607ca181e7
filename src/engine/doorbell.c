// SPDX-License-Identifier: MIT
#include "engine/doorbell.h"
#include <sched.h>
#include "engine/backlog.h"
#include "engine/idle/rest.h"
#include "engine/idle/stand_in.h"
#include "engine/idle/vain.h"
#include "engine/progress.h"
#include "engine/rq_waiters.h"
#include "engine/turn.h"
#include "engine/wake.h"
#include "util/clock.h"
#include "util/fork.h"

void doorbell_sq(struct tqp *q)
{
	struct eqp *e = to_eqp(q);

	quiesce_enter_by_rmw(); /* the turn's, of a QP that its caller keeps alive */
	turn_note(e, TURN_SQ);
	progress_own(e->node);
	quiesce_exit();
}

bool doorbell_by_number(uint32_t qpn)
{
	struct node *n = node_self();
	struct eqp *e;
	bool rings;

	if (!n)
		return false;
	quiesce_enter();
	e = node_qp(n, qpn);
	rings = e && e->q.qp.sq.cnt;
	if (rings)
		doorbell_sq(&e->q);
	quiesce_exit();
	return rings;
}

void doorbell_rq(struct tqp *q)
{
	struct eqp *e = to_eqp(q);

	/* The doorbell record is stored and fenced: pairs with turn_after(), behind which
	 * rq_waiters_add() fences and looks at the record, and with flush_all(). */
	if (likely(!load_relaxed(&q->rnr_waiting) && load_relaxed(&q->qp.state) != IBV_QPS_ERR))
		return;
	quiesce_enter();
	turn_note(e, TURN_RQ);
	progress_own(e->node);
	quiesce_exit();
}

/* Each QP once: another thread may take the receive before it, and then the QP waits again, as the
 * last. */
static void note_waiters(struct node *n, const struct srq *srq)
{
	struct eqp *e;

	for (unsigned int left = rq_waiters_count(n, srq); left; left--) {
		e = rq_waiters_pop(n, srq);
		if (!e)
			break;
		turn_note(e, TURN_RQ);
	}
}

bool doorbell_srq(struct srq *srq)
{
	struct node *n = node_current;

	full_fence(); /* pairs with rq_waiters_add() */
	if (likely(!load_relaxed(&n->rq_waiters)))
		return false;
	quiesce_enter();
	note_waiters(n, srq);
	progress_own(n);
	quiesce_exit();
	return true;
}

void doorbell_uncork(void)
{
	struct node *n = node_self();

	if (!n)
		return;
	store_relaxed(&n->glances, load_relaxed(&n->glances) + 1);
	if (likely(!load_relaxed(&n->corked)))
		return;
	quiesce_enter();
	backlog_corks(n);
	quiesce_exit();
}

void doorbell_armed(void)
{
	struct node *n = node_current;

	if (likely(!n || !vain_armed(&n->vain)))
		return;
	full_fence(); /* pairs with nap_ns(): it sees that there is no crowd, or we its nap */
	if (load_relaxed(&n->naps_long))
		wake_kick(n);
}

static void yield(struct node *n, uint64_t before)
{
	uint64_t after;

	sched_yield();
	after = clock_now();
	vain_yielded(&vain_mine, before, after);
	vain_tell(&n->vain, &vain_mine, after - before);
}

/* Not inlined: each poll would save the registers that this needs. */
__attribute__((noinline)) static void in_vain(struct node *n)
{
	uint64_t now = clock_now();

	stand_in(n, now);
	switch (vain_next(&vain_mine, &n->vain, rest_possible(n), now)) {
	case VAIN_POLL:
		break;
	case VAIN_YIELD:
		yield(n, now);
		break;
	case VAIN_REST:
		if (!rest(n, now, vain_rest(&vain_mine)))
			sched_yield();
		break;
	}
}

void progress(void)
{
	struct node *n = node_current;
	unsigned int got;

	if (unlikely(!n || !fork_is_ours(n->epoch)))
		return;
	store_relaxed(&n->poll_seq, load_relaxed(&n->poll_seq) + 1);
	quiesce_enter();
	got = progress_round(n);
	quiesce_exit();
	if (got)
		vain_found(&vain_mine);
	else if (unlikely(vain_looks(&vain_mine)))
		in_vain(n);
}
