// SPDX-License-Identifier: MIT
#include "driver/dtarget.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "obs/explain.h"
#include "util/fork.h"

static struct dqp *handle_new(void *user_context)
{
	struct dqp *qp = aligned_alloc(64, sizeof(*qp));
	struct ibv_qp *ib;

	if (!qp)
		return NULL;
	memset(qp, 0, sizeof(*qp));
	qp->dbrec = qp->record; /* it has no rings, but may be reset */
	qp->epoch = fork_epoch();
	qp->service = &services[SERVICE_XRC_RECV];
	spin_init(&qp->sq.lock);
	spin_init(&qp->rq.lock);
	ib = &qp->ib.qp_base;
	ib->qp_context = user_context;
	ib->qp_type = qp->service->type;
	ib->state = IBV_QPS_RESET;
	pthread_mutex_init(&ib->mutex, NULL);
	pthread_cond_init(&ib->cond, NULL);
	qp->handle.user = ib;
	return qp;
}

static void name(struct dqp *qp, struct xrcd *x, uint32_t qpn)
{
	qp->ib.qp_base.context = x->ib.context;
	qp->ib.qp_base.handle = qp->ib.qp_base.qp_num = qpn;
}

int dtarget_create(struct ibv_qp_init_attr_ex *a, struct dqp **out)
{
	struct dqp *qp;
	int err;

	if (!(a->comp_mask & IBV_QP_INIT_ATTR_XRCD) || !a->xrcd)
		return refuse(EINVAL,
			      "ibv_create_qp_ex: an XRC_RECV QP belongs to an XRC domain, and "
			      "comp_mask 0x%x names none; set IBV_QP_INIT_ATTR_XRCD and xrcd",
			      a->comp_mask);
	if (a->comp_mask & ~(uint32_t)(IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_PD))
		return refuse(EOPNOTSUPP,
			      "ibv_create_qp_ex: comp_mask 0x%x of an XRC_RECV QP; it takes "
			      "IBV_QP_INIT_ATTR_XRCD alone",
			      a->comp_mask);
	if (a->srq)
		return refuse(EINVAL,
			      "ibv_create_qp_ex: srq is set on an XRC_RECV QP; each message names "
			      "its SRQ, leave it out");
	qp = handle_new(a->qp_context);
	if (!qp)
		return refuse_memory("ibv_create_qp_ex", sizeof(*qp));
	err = xrc_target_create(to_xrcd(a->xrcd), &qp->handle, &qp->dev);
	if (err) {
		free(qp);
		return err;
	}
	name(qp, to_xrcd(a->xrcd), qp->dev->qp.qpn);
	a->cap = (struct ibv_qp_cap){ 0 };
	*out = qp;
	return 0;
}

int dtarget_open(const struct ibv_qp_open_attr *a, struct dqp **out)
{
	const uint32_t need = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct dqp *qp;
	int err;

	if (a->comp_mask >= IBV_QP_OPEN_ATTR_RESERVED)
		return refuse(EOPNOTSUPP,
			      "ibv_open_qp: comp_mask 0x%x has unknown bits; leave them out",
			      a->comp_mask);
	if ((a->comp_mask & need) != need || !a->xrcd)
		return refuse(EINVAL,
			      "ibv_open_qp: comp_mask 0x%x; qp_num, xrcd and qp_type are needed "
			      "(0x%x)",
			      a->comp_mask, need);
	if (a->qp_type != services[SERVICE_XRC_RECV].type)
		return refuse(
			EINVAL,
			"ibv_open_qp: qp_type %d (%s); only XRC_RECV QPs are in an XRC domain",
			a->qp_type, qp_type_name(a->qp_type));
	qp = handle_new(a->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT ? a->qp_context : NULL);
	if (!qp)
		return refuse_memory("ibv_open_qp", sizeof(*qp));
	err = xrc_target_open(to_xrcd(a->xrcd), a->qp_num, &qp->handle, &qp->dev);
	if (err) {
		free(qp);
		return err;
	}
	name(qp, to_xrcd(a->xrcd), a->qp_num);
	if (!qp_life_query(qp->dev, &attr, &init))
		store_relaxed(&qp->ib.qp_base.state, attr.qp_state);
	*out = qp;
	return 0;
}
