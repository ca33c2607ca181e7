// SPDX-License-Identifier: MIT
#include "transport/rewind.h"
#include "transport/recovery.h"
#include "transport/rtt.h"
#include "transport/sent.h"
#include "wire/aeth.h"

void rewind_to(struct tqp *q, uint32_t psn)
{
	struct requester *r = &q->req;
	uint32_t i = r->head;

	rtt_forget(q);
	if (r->rec) {
		recovery_all_again(q);
		return;
	}
	r->psn = psn;
	r->reads = 0;
	for (; i != r->tail; i++) {
		const struct sent *e = sent_at(r, i);

		if (psn_within(psn, e->psn, e->npsn) || (!e->npsn && !(e->flags & SENT_DONE)))
			break; /* local work that was not executed yet */
		if ((e->flags & (SENT_READ | SENT_DONE)) == SENT_READ)
			r->reads++;
	}
	r->cur = i;
}

void rewind_go_on(struct tqp *q)
{
	q->req.wait = WAIT_NOTHING;
	q->req.timer_at = TQP_NEVER;
	rtt_forget(q);
	if (q->req.rec)
		recovery_again(q);
	else
		rewind_to(q, q->req.una);
}

void rewind_clear(struct tqp *q)
{
	if (q->req.wait != WAIT_LOST || q->req.tries.end == TQP_NEVER)
		rewind_go_on(q);
}
