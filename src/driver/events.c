// SPDX-License-Identifier: MIT
#include "driver/events.h"
#include "driver/dcq_ring.h"
#include "driver/dqp.h"
#include "driver/dsrq_ring.h"
#include "driver/dwq.h"

/* The account of the object that an event names. False: a port or device event, which names
 * none. */
static bool account_of(const struct ibv_async_event *ev, struct account *out)
{
	switch (ev->event_type) {
	case IBV_EVENT_CQ_ERR:
		*out = dcq_ring_async(to_dcq(ev->element.cq));
		return true;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		*out = dqp_account(to_dqp(ev->element.qp));
		return true;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		*out = dsrq_ring_account(to_dsrq(ev->element.srq));
		return true;
	case IBV_EVENT_WQ_FATAL:
		*out = dwq_account(to_dwq(ev->element.wq));
		return true;
	default:
		return false;
	}
}

static void comp_taken(struct ibv_cq *cq)
{
	struct account a = dcq_ring_comp(to_dcq(cq));

	account_taken(&a);
}

static void async_taken(const struct ibv_async_event *ev)
{
	struct account a;

	if (account_of(ev, &a))
		account_taken(&a);
}

const struct event_takers events_taken = { comp_taken, async_taken };

void events_ack_cq(struct ibv_cq *cq, unsigned int n)
{
	struct account a = dcq_ring_comp(to_dcq(cq));

	account_acknowledge(&a, n);
}

void events_ack_async(struct ibv_async_event *ev)
{
	struct account a;

	if (account_of(ev, &a))
		account_acknowledge(&a, 1);
}
