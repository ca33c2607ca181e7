// SPDX-License-Identifier: MIT
#include "driver/events.h"
#include "hca/async.h"
#include "util/barrier.h"

/* How a public object counts: its mutex guards the first counter. */
struct account {
	pthread_mutex_t *mutex;
	pthread_cond_t *cond;
	uint32_t *completed; /* acknowledged, in the public struct */
	uint32_t *delivered; /* ours, atomic; stands still once the queue has dropped the rest */
};

static struct account cq_async(struct dcq *cq)
{
	struct ibv_cq *ib = (struct ibv_cq *)&cq->ib;

	return (struct account){ &ib->mutex, &ib->cond, &ib->async_events_completed,
				 &cq->async_delivered };
}

static struct account qp_async(struct dqp *qp)
{
	struct ibv_qp *ib = &qp->ib.qp_base;

	return (struct account){ &ib->mutex, &ib->cond, &ib->events_completed,
				 &qp->async_delivered };
}

static struct account srq_async(struct dsrq *srq)
{
	return (struct account){ &srq->ib.mutex, &srq->ib.cond, &srq->ib.events_completed,
				 &srq->async_delivered };
}

static struct account wq_async(struct dwq *wq)
{
	return (struct account){ &wq->ib.mutex, &wq->ib.cond, &wq->ib.events_completed,
				 &wq->async_delivered };
}

/* The account of an event's element; false: a port or device event, which names none. */
static bool account_of(const struct ibv_async_event *ev, struct account *out)
{
	switch (ev->event_type) {
	case IBV_EVENT_CQ_ERR:
		*out = cq_async(to_dcq(ev->element.cq));
		return true;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		*out = qp_async(to_dqp(ev->element.qp));
		return true;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		*out = srq_async(to_dsrq(ev->element.srq));
		return true;
	case IBV_EVENT_WQ_FATAL:
		*out = wq_async(to_dwq(ev->element.wq));
		return true;
	default:
		return false;
	}
}

static void acknowledge(const struct account *a, uint32_t n)
{
	pthread_mutex_lock(a->mutex);
	*a->completed += n;
	pthread_cond_signal(a->cond);
	pthread_mutex_unlock(a->mutex);
}

static void settle(const struct account *a)
{
	pthread_mutex_lock(a->mutex);
	while (*a->completed != load_relaxed(a->delivered))
		pthread_cond_wait(a->cond, a->mutex);
	pthread_mutex_unlock(a->mutex);
}

static void comp_taken(struct ibv_cq *cq)
{
	fetch_add_relaxed(&to_dcq(cq)->comp_delivered, 1);
}

static void async_taken(const struct ibv_async_event *ev)
{
	struct account a;

	if (account_of(ev, &a))
		fetch_add_relaxed(a.delivered, 1);
}

const struct event_takers events_taken = { comp_taken, async_taken };

void events_ack_cq(struct ibv_cq *cq, unsigned int n)
{
	struct account a = { &cq->mutex, &cq->cond, &cq->comp_events_completed, NULL };

	acknowledge(&a, n);
}

void events_ack_async(struct ibv_async_event *ev)
{
	struct account a;

	if (account_of(ev, &a))
		acknowledge(&a, 1);
}

void events_settle_cq(struct dcq *cq)
{
	struct ibv_cq *ib = (struct ibv_cq *)&cq->ib;
	struct account comp = { &ib->mutex, &ib->cond, &ib->comp_events_completed,
				&cq->comp_delivered };
	struct account async = cq_async(cq);

	settle(&comp);
	settle(&async);
}

void events_settle_qp(struct dqp *qp)
{
	struct account a = qp_async(qp);

	async_drop(to_context(qp->ib.qp_base.context), &qp->ib.qp_base);
	settle(&a);
}

void events_settle_wq(struct dwq *wq)
{
	struct account a = wq_async(wq);

	async_drop(to_context(wq->ib.context), &wq->ib);
	settle(&a);
}

void events_settle_srq(struct dsrq *srq)
{
	struct account a = srq_async(srq);

	async_drop(to_context(srq->ib.context), &srq->ib);
	settle(&a);
}
