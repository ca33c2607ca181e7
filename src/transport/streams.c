// SPDX-License-Identifier: MIT
#include "transport/streams.h"
#include "transport/ack_timer.h"
#include "transport/recovery.h"

void streams_stop(struct sent *e)
{
	e->flags = (uint8_t)((e->flags & ~(SENT_READ | SENT_DONE | SENT_INLINES)) | SENT_FLUSHED |
			     SENT_SIGNALED);
	e->npsn = 0;
}

/* Is it known that nothing behind @e was executed? A responder that refuses a request takes none
 * after it; other failures leave that open, unless nothing has left. */
static bool nothing_behind(const struct tqp *q, const struct sent *e, enum verdict v)
{
	if (v == V_REMOTE_INVALID || v == V_REMOTE_ACCESS || v == V_REMOTE_OP ||
	    v == V_RNR_EXCEEDED)
		return true;
	return !psn_after(q->req.max_psn, psn_add(e->psn, e->npsn));
}

/* What is left is sent under PSNs that no answer to the last tries can mean. */
static void begin_anew(struct tqp *q, uint64_t now)
{
	struct requester *r = &q->req;
	uint32_t psn = r->max_psn;

	recovery_end(q);
	r->cur = r->head;
	r->reads = 0;
	r->direct.done = 0;
	r->direct.waited = false;
	r->una = r->psn = psn;
	for (uint32_t i = r->head; i != r->tail; i++) {
		struct sent *e = sent_at(r, i);

		if (q->env->stopped(q, e->block))
			streams_stop(e);
		e->psn = psn;
		psn = psn_add(psn, e->npsn);
	}
	r->next_psn = psn;
	ack_timer_progress(q, now);
}

/* A malformed work request names no stream that could be believed. */
bool streams_spare(struct tqp *q, enum verdict v, uint64_t now)
{
	const struct sent *e = sent_at(&q->req, q->req.head - 1);

	if (v == V_LOCAL_QP_OP || v == V_BAD_RESPONSE || !nothing_behind(q, e, v) ||
	    !q->env->spare(q, e->block))
		return false;
	begin_anew(q, now);
	return true;
}
