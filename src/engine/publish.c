// SPDX-License-Identifier: MIT
#include "engine/publish.h"
#include "engine/tracing.h"

void publish(struct eqp *e)
{
	const struct qp *qp = &e->q.qp;
	struct host_qp entry = {
		.state = qp->state,
		.access = qp->attr.qp_access_flags,
		.pdn = qp->pd->pdn,
		.peer_qpn = qp->attr.dest_qp_num,
		.flags = qp->service->direct && !tracing() ? HOST_QP_DIRECT : 0,
	};

	if (e->unpublished)
		return;
	host_publish_qp(e->node->host, qp->qpn, &entry);
	e->q.executed = qp->service->direct && !qp->service->reliable
				? host_executed(e->node->host, qp->qpn)
				: NULL;
}

void publish_end(struct eqp *e)
{
	e->unpublished = true;
	e->q.executed = NULL;
	host_publish_qp(e->node->host, e->q.qp.qpn, NULL);
}

void publish_met(struct eqp *e)
{
	e->met = true;
	if (e->q.qp.service->direct)
		publish(e);
}

void publish_moved(struct tqp *q)
{
	publish(to_eqp(q));
}
