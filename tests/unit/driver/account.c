// SPDX-License-Identifier: MIT
/* Events taken and acknowledged: the counters behind ibv_ack_cq_events(3) and
 * ibv_ack_async_event(3), per kind of object. */
#include "driver/dcq_ring.h"
#include "driver/dqp.h"
#include "driver/dsrq_ring.h"
#include "driver/dwq.h"
#include "driver/events.h"
#include "test.h"

struct objects {
	struct dcq cq;
	struct dqp qp;
	struct dsrq srq;
	struct dwq wq;
};

static struct objects *open_objects(void)
{
	struct objects *o = aligned_alloc(64, sizeof(*o));

	memset(o, 0, sizeof(*o)); /* mutexes and conditions of zeros are initialised ones */
	return o;
}

TEST(completion_events_are_counted_by_their_cq)
{
	struct objects *o = open_objects();
	struct ibv_cq *ib = (struct ibv_cq *)&o->cq.ib;
	struct account a = dcq_ring_comp(&o->cq), async = dcq_ring_async(&o->cq);

	for (int i = 0; i < 3; i++)
		events_taken.comp(ib);
	check_eq(o->cq.comp_delivered, 3);
	events_ack_cq(ib, 2);
	check_eq(ib->comp_events_completed, 2);
	events_ack_cq(ib, 1);
	account_settle(&a); /* returns: they are equal */
	account_settle(&async);
	check_eq(o->cq.async_delivered, 0);
	free(o);
}

/* Each type of event counts on the object that it names, and on no other. */
TEST(asynchronous_events_are_counted_by_what_they_name)
{
	static const struct {
		enum ibv_event_type type;
		char what;
	} map[] = {
		{ IBV_EVENT_CQ_ERR, 'c' },
		{ IBV_EVENT_QP_FATAL, 'q' },
		{ IBV_EVENT_QP_REQ_ERR, 'q' },
		{ IBV_EVENT_QP_ACCESS_ERR, 'q' },
		{ IBV_EVENT_COMM_EST, 'q' },
		{ IBV_EVENT_SQ_DRAINED, 'q' },
		{ IBV_EVENT_PATH_MIG, 'q' },
		{ IBV_EVENT_PATH_MIG_ERR, 'q' },
		{ IBV_EVENT_QP_LAST_WQE_REACHED, 'q' },
		{ IBV_EVENT_SRQ_ERR, 's' },
		{ IBV_EVENT_SRQ_LIMIT_REACHED, 's' },
		{ IBV_EVENT_WQ_FATAL, 'w' },
		{ IBV_EVENT_GID_CHANGE, 0 },
		{ IBV_EVENT_PORT_ERR, 0 },
		{ IBV_EVENT_DEVICE_FATAL, 0 },
	};

	for (unsigned int i = 0; i < sizeof(map) / sizeof(map[0]); i++) {
		struct objects *o = open_objects();
		struct ibv_async_event ev = { .event_type = map[i].type };
		struct ibv_cq *cq = (struct ibv_cq *)&o->cq.ib;

		if (map[i].what == 'c')
			ev.element.cq = cq;
		else if (map[i].what == 'q')
			ev.element.qp = &o->qp.ib.qp_base;
		else if (map[i].what == 's')
			ev.element.srq = &o->srq.ib;
		else if (map[i].what == 'w')
			ev.element.wq = &o->wq.ib;
		events_taken.async(&ev);
		check_eq(o->cq.async_delivered, map[i].what == 'c');
		check_eq(o->qp.async_delivered, map[i].what == 'q');
		check_eq(o->srq.async_delivered, map[i].what == 's');
		check_eq(o->wq.async_delivered, map[i].what == 'w');
		events_ack_async(&ev);
		check_eq(cq->async_events_completed, map[i].what == 'c');
		check_eq(o->qp.ib.qp_base.events_completed, map[i].what == 'q');
		check_eq(o->srq.ib.events_completed, map[i].what == 's');
		check_eq(o->wq.ib.events_completed, map[i].what == 'w');
		free(o);
	}
}

RUN_TESTS(unit_test(completion_events_are_counted_by_their_cq),
	  unit_test(asynchronous_events_are_counted_by_what_they_name))
