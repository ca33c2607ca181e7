// SPDX-License-Identifier: MIT
#include "transport/corked.h"
#include "transport/answer.h"
#include "transport/receive.h"
#include "transport/sent.h"

static void flush_datagrams(struct requester *r)
{
	struct dest *d = r->ud.open;

	if (likely(!d))
		return;
	r->ud.open = NULL;
	d->ops->flush(d);
	d->ops->put(d);
}

void corked_flush(struct tqp *q)
{
	flush_datagrams(&q->req);
	if (!q->req.unflushed && !q->unsettled)
		return;
	receive_let_go(q);
	if (!q->req.unflushed && !q->unsettled)
		return;
	if (q->req.unflushed)
		answer_behind(q); /* the flush sends both */
	q->req.unflushed = false;
	q->unsettled = 0;
	q->dest->ops->flush(q->dest);
}

void corked_keep(struct tqp *q, struct dest *d)
{
	struct requester *r = &q->req;

	if (r->ud.open == d)
		return;
	flush_datagrams(r);
	fetch_add_relaxed(&d->refs, 1);
	r->ud.open = d;
}

/* Has all that is posted left, so that only another post can follow? What waits for an ACK, for
 * room or for a timer would keep the rest waiting. */
static bool all_sent(const struct tqp *q)
{
	const struct requester *r = &q->req;

	return r->cur == r->tail && !r->blocked && !r->wait && q->qp.state == IBV_QPS_RTS &&
	       !sent_posted(q);
}

void corked_posted(struct tqp *q, uint64_t now)
{
	const struct requester *r = &q->req;
	const struct dest *d = r->ud.open ? r->ud.open : r->unflushed ? q->dest : NULL;

	if (link_may_congest(d) && q->env->cork && !q->rsp.ack_delayed && all_sent(q) &&
	    q->env->cork(q, now))
		return;
	corked_flush(q);
}
