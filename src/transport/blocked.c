// SPDX-License-Identifier: MIT
#include "transport/blocked.h"
#include <stdio.h>
#include "obs/explain.h"

#define PATIENCE_NS UINT64_C(5000000000) /* a process may have no core for as long */

/* Another process of this host, which was reached before. */
static bool may_be_late(const struct tqp *q, const struct dest *d)
{
	return !q->qp.service->reliable && link_is_lossless(d) && load_relaxed(&d->process);
}

static void say(struct tqp *q, struct dest *d, uint32_t dqpn)
{
	uint32_t n = ++q->req.late.lost;
	struct link_silence s = { 0 };
	char pid[32] = "";

	counters_inc(q->qp.ctx->hca->counters, COUNTER_PORT_XMIT_DISCARDS);
	if (!n || !explain_due(n))
		return;
	if (d->ops->silence)
		d->ops->silence(d, &s);
	if (s.pid)
		snprintf(pid, sizeof(pid), " (pid %d)", s.pid);
	reason("%s QP 0x%x: a message to QP 0x%x is lost (%u so far), since its process%s has "
	       "taken nothing for 5 seconds; is it stopped, or does it get no processor?",
	       q->qp.service->name, q->qp.qpn, dqpn, n, pid);
}

bool blocked_begin(struct tqp *q, struct dest *d, uint32_t dqpn, uint64_t now)
{
	struct requester *r = &q->req;

	r->blocked = true;
	if (!may_be_late(q, d))
		return false;
	if (r->late.process == load_relaxed(&d->process)) {
		blocked_cancel(q, d);
		r->blocked = false;
		say(q, d, dqpn);
		return true;
	}
	r->timer_at = now + PATIENCE_NS;
	if (r->timer_at < q->deadline)
		q->deadline = r->timer_at;
	return false;
}

void blocked_timer(struct tqp *q, struct dest *d, uint64_t now)
{
	struct requester *r = &q->req;

	if (!r->blocked || !d || !may_be_late(q, d))
		return;
	if (now < r->timer_at) {
		q->deadline = r->timer_at < q->deadline ? r->timer_at : q->deadline;
		return;
	}
	blocked_cancel(q, d);
	r->blocked = false;
	r->late.process = load_relaxed(&d->process);
}
