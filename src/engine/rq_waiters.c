// SPDX-License-Identifier: MIT
#include "engine/rq_waiters.h"

static void list(struct eqp *e)
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

bool rq_waiters_add(struct eqp *e)
{
	struct qp *qp = &e->q.qp;

	list(e);
	full_fence(); /* pairs with doorbell_rq(), doorbell_srq() */
	return qp->srq ? srq_posted(qp->srq) : rq_posted(&qp->rq);
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

struct eqp *rq_waiters_pop(struct node *n, const struct srq *srq)
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

unsigned int rq_waiters_count(struct node *n, const struct srq *srq)
{
	unsigned int count = 0;

	spin_lock(&n->rq_waiters_lock);
	for (struct eqp *e = n->rq_waiters; e; e = e->rq_next)
		count += load_relaxed(&e->q.qp.srq) == srq;
	spin_unlock(&n->rq_waiters_lock);
	return count;
}
