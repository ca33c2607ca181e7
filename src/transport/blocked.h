// SPDX-License-Identifier: MIT
/* A QP that a destination has no room for is on that destination's waiting list. */
#pragma once
#include "transport/tqp.h"

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
