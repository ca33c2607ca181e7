// SPDX-License-Identifier: MIT
#include "engine/rq_waiters.h"
#include "engine/turn.h"

static void add(struct eqp *e)
{
	struct node *n = e->node;
	struct eqp **end = &n->rq_waiters;

	if (load_relaxed(&e->rq_listed) || !e->q.qp.srq)
		return;
	spin_lock(&n->rq_waiters_lock);
	while (*end)
		end = &(*end)->rq_next;
	store_relaxed(&e->rq_listed, true);
	e->rq_next = NULL;
	store_release(end, e);
	spin_unlock(&n->rq_waiters_lock);
}

void rq_waiters_look(struct eqp *e)
{
	struct qp *qp = &e->q.qp;

	add(e);
	full_fence(); /* pairs with doorbell_rq(), doorbell_srq() */
	if (qp->srq ? srq_posted(qp->srq) : rq_posted(&qp->rq))
		fetch_or_acq_rel(&e->turn, TURN_RQ);
}

void rq_waiters_del(struct eqp *e)
{
	struct node *n = e->node;

	spin_lock(&n->rq_waiters_lock);
	for (struct eqp **p = &n->rq_waiters; *p; p = &(*p)->rq_next)
		if (*p == e) {
			*p = e->rq_next;
			break;
		}
	store_relaxed(&e->rq_listed, false);
	spin_unlock(&n->rq_waiters_lock);
}

/* One at a time: the note runs without the lock. */
static struct eqp *pop_on(struct node *n, const struct srq *srq)
{
	struct eqp *e = NULL;

	spin_lock(&n->rq_waiters_lock);
	for (struct eqp **p = &n->rq_waiters; *p; p = &(*p)->rq_next)
		if (load_relaxed(&(*p)->q.qp.srq) == srq) {
			e = *p;
			*p = e->rq_next;
			store_relaxed(&e->rq_listed, false);
			break;
		}
	spin_unlock(&n->rq_waiters_lock);
	return e;
}

static unsigned int count_on(struct node *n, const struct srq *srq)
{
	unsigned int count = 0;

	spin_lock(&n->rq_waiters_lock);
	for (struct eqp *e = n->rq_waiters; e; e = e->rq_next)
		count += load_relaxed(&e->q.qp.srq) == srq;
	spin_unlock(&n->rq_waiters_lock);
	return count;
}

/* Each once: another thread may have taken the receive meanwhile, and then it waits again, behind
 * the others. */
void rq_waiters_note_srq(struct node *n, const struct srq *srq)
{
	struct eqp *e;

	for (unsigned int left = count_on(n, srq); left && (e = pop_on(n, srq)); left--)
		turn_note(e, TURN_RQ);
}
