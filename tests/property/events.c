// SPDX-License-Identifier: MIT
/* Asynchronous events: who reads them, and which may be. */
#include <errno.h>
#include "property/side.h"

static bool may_be(const struct side *s, enum ibv_event_type t)
{
	switch (t) {
	case IBV_EVENT_COMM_EST:
		return true;
	case IBV_EVENT_SQ_DRAINED:
		return true;
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return s->v.l->srq[s->s] && s->v.l->type != IBV_QPT_XRC_SEND;
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		return s->v.they_break;
	default:
		return false;
	}
}

/* Those of a port come when its addresses do. */
static bool of_a_qp(enum ibv_event_type t)
{
	switch (t) {
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_GID_CHANGE:
		return false;
	case IBV_EVENT_CQ_ERR:
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_DEVICE_FATAL:
		board_fail("the event %s", ibv_event_type_str(t));
	default:
		return true;
	}
}

void events_read(struct process *pr)
{
	struct ibv_async_event ev;
	struct pool *pool;

	pthread_mutex_lock(&pr->events_lock);
	while (!ibv_get_async_event(pr->ctx, &ev)) {
		struct side *s;

		if (ev.event_type == IBV_EVENT_SRQ_LIMIT_REACHED) {
			pool = ev.element.srq->srq_context;
			if (++pool->reached > pool->limits)
				board_fail(
					"process %u: %u limits of the SRQ were reached, %u armed",
					pr->number, pool->reached, pool->limits);
			ibv_ack_async_event(&ev);
			continue;
		}
		if (!of_a_qp(ev.event_type)) {
			ibv_ack_async_event(&ev);
			continue;
		}
		s = ev.element.qp->qp_context;
		if (!s && ev.element.qp->qp_type == IBV_QPT_XRC_RECV) {
			ibv_ack_async_event(&ev);
			continue;
		}
		if (!s || !may_be(s, ev.event_type))
			board_fail("process %u: the event %s, which may not be", pr->number,
				   ibv_event_type_str(ev.event_type));
		atomic_fetch_add(&s->async[ev.event_type], 1);
		ibv_ack_async_event(&ev);
	}
	if (errno != EAGAIN)
		board_fail("ibv_get_async_event: errno %d", errno);
	pthread_mutex_unlock(&pr->events_lock);
}
