// SPDX-License-Identifier: MIT
/* The receive WQE that the message in hand uses. */
#pragma once
#include <errno.h>
#include "transport/tqp.h"

/* Takes one into q->rsp.rwqe, if none is taken yet. ENOENT: none is posted. */
static inline int receive_take(struct tqp *q)
{
	struct rwqe *w = &q->rsp.rwqe;

	if (q->rsp.have_rwqe)
		return 0;
	if (q->qp.srq ? srq_take(q->qp.srq, w) : rq_take(&q->qp.rq, w))
		return ENOENT;
	q->rsp.have_rwqe = true;
	return 0;
}
