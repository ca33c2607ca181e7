// SPDX-License-Identifier: MIT
#include "transport/cast.h"
#include <errno.h>
#include "transport/blocked.h"

#define PATIENCE_NS UINT64_C(1000000000)

void cast_pause(struct tqp *q)
{
	blocked_drop(q, &q->req.way.at);
}

void cast_stop(struct tqp *q)
{
	cast_pause(q);
	q->req.way = (struct cast_way){ 0 };
}

int cast_send(struct tqp *q, const struct seg *s, uint64_t now)
{
	int err;

	cast_pause(q);
	err = q->env->cast(q, s);
	if (err != EAGAIN)
		return 0;
	q->req.blocked = true;
	q->req.timer_at = q->req.way.next ? now + PATIENCE_NS : TQP_NEVER;
	if (q->req.timer_at < q->deadline)
		q->deadline = q->req.timer_at;
	return EAGAIN;
}

void cast_timer(struct tqp *q, uint64_t now)
{
	struct requester *r = &q->req;

	if (!r->blocked)
		return; /* a rate limit, if anything */
	if (now < r->timer_at) {
		q->deadline = r->timer_at < q->deadline ? r->timer_at : q->deadline;
		return;
	}
	cast_pause(q);
	r->blocked = false;
	r->way.late = true;
	counters_inc(q->qp.ctx->hca->counters, COUNTER_PORT_XMIT_DISCARDS);
}
