// SPDX-License-Identifier: MIT
#include "transport/apm.h"
#include "transport/ack_timer.h"
#include "transport/blocked.h"
#include "transport/corked.h"
#include "transport/flush.h"
#include "transport/rewind.h"

static void swap_attributes(struct ibv_qp_attr *a)
{
	struct ibv_qp_attr was = *a;

	a->ah_attr = was.alt_ah_attr;
	a->pkey_index = was.alt_pkey_index;
	a->port_num = was.alt_port_num;
	a->timeout = was.alt_timeout;
	a->alt_ah_attr = was.ah_attr;
	a->alt_pkey_index = was.pkey_index;
	a->alt_port_num = was.port_num;
	a->alt_timeout = was.timeout;
}

static void set_state(struct tqp *q, enum ibv_mig_state state)
{
	q->qp.attr.path_mig_state = state;
	q->req.arming = state == IBV_MIG_MIGRATED ? 0 : SEG_ARMING;
}

/* Segments that were sent on the old path go out again on the new one. */
static bool migrate(struct tqp *q, uint64_t now)
{
	struct dest *old = q->dest;

	if (q->env->usable && !q->env->usable(q)) {
		flush_event(q, IBV_EVENT_PATH_MIG_ERR);
		return false;
	}
	if (old)
		blocked_cancel(q, old);
	corked_flush(q);
	q->again |= q->req.blocked;
	q->req.blocked = false;
	q->req.direct.exchanged = false; /* no direct access before the peer knows the new path */
	q->dest = q->alternate;
	q->alternate = old;
	swap_attributes(&q->qp.attr);
	set_state(q, IBV_MIG_MIGRATED);
	if (q->qp.service->reliable && (q->qp.state == IBV_QPS_RTS || q->qp.state == IBV_QPS_SQD)) {
		rewind_to(q, q->req.una);
		ack_timer_progress(q, now);
		ack_timer_changed(q, now);
	}
	sender_forget(q);
	flush_event(q, IBV_EVENT_PATH_MIG);
	return true;
}

void apm_modified(struct tqp *q, enum ibv_mig_state was, uint64_t now)
{
	enum ibv_mig_state is = q->qp.attr.path_mig_state;

	if (was == is)
		return;
	if (was == IBV_MIG_ARMED && is == IBV_MIG_MIGRATED) {
		set_state(q, was);
		migrate(q, now);
		return;
	}
	set_state(q, is);
}

void apm_input(struct tqp *q, const struct seg *s, uint64_t now)
{
	bool migrated = !(s->flags & SEG_ARMING);

	if (q->qp.attr.path_mig_state == IBV_MIG_REARM && !migrated)
		set_state(q, IBV_MIG_ARMED);
	else if (q->qp.attr.path_mig_state == IBV_MIG_ARMED && migrated)
		migrate(q, now);
}

bool apm_exhausted(struct tqp *q, uint64_t now)
{
	return q->qp.attr.path_mig_state == IBV_MIG_ARMED && migrate(q, now);
}
