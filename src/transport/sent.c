// SPDX-License-Identifier: MIT
#include "transport/sent.h"
#include <errno.h>
#include <stdlib.h>
#include "transport/inner.h"
#include "util/be.h"

enum { SENT_MAX = 512 /* work requests that are started and not completed */ };

/* The SQ's oldest block that is not completed; inner work has no block. */
static uint16_t oldest_block(const struct requester *r)
{
	for (uint32_t i = r->head; i != r->tail; i++)
		if (likely(!(sent_at(r, i)->flags & SENT_INNER)))
			return sent_at(r, i)->block;
	return r->next_block;
}

uint16_t sent_posted(const struct tqp *q)
{
	const struct requester *r = &q->req;
	const struct sq_ring *sq = &q->qp.sq;
	uint16_t oldest, posted, ours;

	if (!sq->cnt)
		return 0;
	oldest = oldest_block(r);
	ours = r->next_block - oldest;
	/* (A) pairs with the driver's release before it stores the record */
	posted = (uint16_t)be32toh(load_acquire(sq->dbrec)) - oldest;
	if (posted > sq->cnt)
		posted = sq->cnt; /* the record is the program's memory: it may say anything */
	return posted > ours ? posted - ours : 0;
}

bool sent_reread(struct tqp *q, const struct sent *e, struct wqe *w)
{
	if (unlikely(e->flags & (SENT_INNER | SENT_REFUSED))) {
		if (e->flags & SENT_INNER)
			inner_wqe(q, e->block, w);
		return e->flags & SENT_INNER;
	}
	return !wqe_parse(&q->qp.sq, e->block, q->qp.sq.cnt, q->qp.service->wqe, w) &&
	       w->opcode == e->opcode && w->len == e->len;
}

/* A refused entry is the newest, since it is never sent: its blocks end at next_block. */
enum verdict sent_refusal(struct tqp *q, const struct sent *e, struct wqe *w)
{
	uint16_t n = q->req.next_block - e->block;

	if (!(e->flags & SENT_REFUSED))
		return V_LOCAL_QP_OP;
	return wqe_parse(&q->qp.sq, e->block, n, q->qp.service->wqe, w) == EMSGSIZE ? V_LOCAL_LENGTH
										    : V_LOCAL_QP_OP;
}

void sent_unstart(struct tqp *q)
{
	struct requester *r = &q->req;
	const struct sent *e = sent_at(r, r->tail - 1);

	if (!r->sqd.stopped || r->cur == r->tail || r->cur != r->tail - 1 ||
	    (e->flags & (SENT_FENCE | SENT_INNER | SENT_DONE)) != SENT_FENCE || r->psn != e->psn ||
	    r->psn != r->max_psn)
		return;
	r->tail--;
	r->next_psn = e->psn;
	r->next_block = e->block;
}

uint32_t sent_pdn(const struct tqp *q, const struct sent *e)
{
	return e->flags & SENT_INNER ? q->qp.srq->pd->pdn : q->qp.pd->pdn;
}

int sent_allot(struct tqp *q)
{
	uint32_t n = q->qp.sq.cnt < SENT_MAX && !inner_waits(q) ? q->qp.sq.cnt : SENT_MAX;

	q->req.sent = calloc(n, sizeof(*q->req.sent));
	if (!q->req.sent)
		return ENOMEM;
	q->req.mask = n - 1;
	return 0;
}
