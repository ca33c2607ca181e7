// SPDX-License-Identifier: MIT
/* A QP that a destination has no room for is on that destination's waiting list. A service with
 * answers waits for as long as it takes: its peer's silence ends the wait (retry.h). A UD or UC QP
 * waits for a process of this host for 5 seconds at most, since such a process is stopped, and for
 * an adapter it would make no difference. Then the segment is lost, and so is each further one for
 * which that process has no room, until it has taken something. */
#pragma once
#include "transport/tqp.h"

/* @d has answered EAGAIN, and q->waiter is on its list. False: the QP waits. True: it does not, and
 * the segment is lost. @dqpn: whom it was for. */
bool blocked_begin(struct tqp *q, struct dest *d, uint32_t dqpn, uint64_t now);
/* q->deadline has passed. @d: where the QP waits, if it does. */
void blocked_timer(struct tqp *q, struct dest *d, uint64_t now);

/* @d has taken a segment. */
static inline void blocked_over(struct tqp *q, const struct dest *d)
{
	if (unlikely(q->req.late.process) && q->req.late.process == load_relaxed(&d->process))
		q->req.late.process = 0;
}

/* Off the waiting list of @d. */
static inline void blocked_cancel(struct tqp *q, struct dest *d)
{
	if (q->req.blocked)
		d->ops->cancel(d, &q->waiter);
}

/* The same, and the reference *@d, which may be NULL, is given back. */
static inline void blocked_drop(struct tqp *q, struct dest **d)
{
	if (!*d)
		return;
	blocked_cancel(q, *d);
	(*d)->ops->put(*d);
	*d = NULL;
}
