// SPDX-License-Identifier: MIT
/* Queue pairs, SRQs and CQs of ids. */
#include <string.h>
#include "rdmacm/id.h"

/* --- moves --- */

static int move(struct id *i, enum ibv_qp_state state, struct ibv_qp_attr *attr, int *mask)
{
	memset(attr, 0, sizeof(*attr));
	attr->qp_state = state;
	return softhca_cm()->qp_attr(i->cm, attr, mask);
}

static int to_init(struct id *i, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	int mask, err = move(i, IBV_QPS_INIT, &attr, &mask);

	return err ? err : ibv_modify_qp(qp, &attr, mask);
}

int qp_to_rtr(struct id *i, uint8_t responder)
{
	struct ibv_qp_attr attr;
	int mask, err = to_init(i, i->id.qp);

	err = err ? err : move(i, IBV_QPS_RTR, &attr, &mask);
	if (err)
		return err;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		attr.max_dest_rd_atomic = responder;
	return ibv_modify_qp(i->id.qp, &attr, mask);
}

int qp_to_rts(struct id *i, uint8_t initiator)
{
	struct ibv_qp_attr attr;
	int mask, err = move(i, IBV_QPS_RTS, &attr, &mask);

	if (err)
		return err;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		attr.max_rd_atomic = initiator;
	return ibv_modify_qp(i->id.qp, &attr, mask);
}

void qp_to_err(struct id *i)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	if (i->id.qp)
		ibv_modify_qp(i->id.qp, &attr, IBV_QP_STATE);
}

static int datagrams(struct id *i, struct ibv_qp *qp)
{
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR }, rts = { .qp_state = IBV_QPS_RTS };
	int err = to_init(i, qp);

	err = err ? err : ibv_modify_qp(qp, &rtr, IBV_QP_STATE);
	return err ? err : ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

EXPORT int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	if (!attr || !mask)
		return minus1_errno(EINVAL);
	return minus1_errno(softhca_cm()->qp_attr(to_id(id)->cm, attr, mask));
}

/* --- CQs of an id's own --- */

static int make_cq(struct id *i, uint32_t size, struct ibv_comp_channel **channel,
		   struct ibv_cq **cq)
{
	*channel = ibv_create_comp_channel(i->id.verbs);
	if (!*channel)
		return errno;
	*cq = ibv_create_cq(i->id.verbs, (int)size, &i->id, *channel, 0);
	if (*cq)
		return 0;
	ibv_destroy_comp_channel(*channel);
	*channel = NULL;
	return errno;
}

static void drop_cq(struct ibv_comp_channel **channel, struct ibv_cq **cq, bool *own)
{
	if (*own && *cq) {
		ibv_destroy_cq(*cq);
		ibv_destroy_comp_channel(*channel);
		*cq = NULL;
		*channel = NULL;
	}
	*own = false;
}

static void drop_cqs(struct id *i)
{
	drop_cq(&i->id.recv_cq_channel, &i->id.recv_cq, &i->own_recv_cq);
	drop_cq(&i->id.send_cq_channel, &i->id.send_cq, &i->own_send_cq);
}

static int make_cqs(struct id *i, const struct ibv_qp_init_attr_ex *a)
{
	int err = 0;

	if (!a->recv_cq && !i->id.recv_cq && a->cap.max_recv_wr) {
		err = make_cq(i, a->cap.max_recv_wr, &i->id.recv_cq_channel, &i->id.recv_cq);
		i->own_recv_cq = !err;
	}
	if (!err && !a->send_cq && !i->id.send_cq && a->cap.max_send_wr) {
		err = make_cq(i, a->cap.max_send_wr, &i->id.send_cq_channel, &i->id.send_cq);
		i->own_send_cq = !err;
	}
	if (err)
		drop_cqs(i);
	return err;
}

/* --- queue pairs --- */

/* Whether connection management connects queue pairs of @type in @ps. */
static bool of_space(enum rdma_port_space ps, enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_RC:
	case IBV_QPT_UC:
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
		return ps == RDMA_PS_TCP || ps == RDMA_PS_IB;
	case IBV_QPT_UD:
		return ps != RDMA_PS_TCP;
	default:
		return false;
	}
}

static int check(struct id *i, struct ibv_qp_init_attr_ex *a)
{
	if (i->id.qp || !i->id.verbs)
		return EINVAL;
	if (!of_space(i->id.ps, a->qp_type))
		return softhca_refuse(EINVAL,
				      "rdma_create_qp: qp_type %d is none of port space 0x%x; "
				      "RDMA_PS_TCP has RC, UC and XRC, RDMA_PS_UDP has UD",
				      a->qp_type, i->id.ps);
	if ((a->recv_cq && i->id.recv_cq && a->recv_cq != i->id.recv_cq) ||
	    (a->send_cq && i->id.send_cq && a->send_cq != i->id.send_cq))
		return EINVAL;
	return (a->comp_mask & IBV_QP_INIT_ATTR_PD) && a->pd && a->pd->context != i->id.verbs
		       ? EINVAL
		       : 0;
}

/* What the program has left open. */
static int complete(struct id *i, struct ibv_qp_init_attr_ex *a)
{
	int err = 0;

	if (a->qp_type == IBV_QPT_XRC_RECV) {
		if (!(a->comp_mask & IBV_QP_INIT_ATTR_XRCD) || !a->xrcd) {
			err = opened_xrcd(i->dev, &a->xrcd);
			a->comp_mask |= IBV_QP_INIT_ATTR_XRCD;
		}
	}
	if (!(a->comp_mask & IBV_QP_INIT_ATTR_PD) || !a->pd) {
		a->comp_mask |= IBV_QP_INIT_ATTR_PD;
		a->pd = i->id.pd;
		if (!a->pd)
			err = err ? err : opened_pd(i->dev, &a->pd);
	}
	err = err ? err : make_cqs(i, a);
	if (!a->srq)
		a->srq = i->id.srq;
	if (!a->recv_cq)
		a->recv_cq = i->id.recv_cq;
	if (!a->send_cq)
		a->send_cq = i->id.send_cq;
	return err;
}

int qp_make(struct id *i, struct ibv_qp_init_attr_ex *a)
{
	struct ibv_qp *qp;
	int err = check(i, a);

	err = err ? err : complete(i, a);
	if (err)
		return err;
	qp = ibv_create_qp_ex(i->id.verbs, a);
	if (!qp) {
		err = errno;
		drop_cqs(i);
		return err;
	}
	err = a->qp_type == IBV_QPT_UD ? datagrams(i, qp) : to_init(i, qp);
	if (err) {
		ibv_destroy_qp(qp);
		drop_cqs(i);
		return err;
	}
	i->id.qp = qp;
	i->id.pd = qp->pd ? qp->pd : a->pd;
	if (ibv_query_ece(qp, &i->local_ece))
		i->local_ece = (struct ibv_ece){ 0 };
	return 0;
}

EXPORT int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *qp_init_attr)
{
	return minus1_errno(qp_init_attr ? qp_make(to_id(id), qp_init_attr) : EINVAL);
}

EXPORT int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd,
			  struct ibv_qp_init_attr *qp_init_attr)
{
	struct ibv_qp_init_attr_ex a = { 0 };
	int err;

	if (!qp_init_attr)
		return minus1_errno(EINVAL);
	memcpy(&a, qp_init_attr, sizeof(*qp_init_attr));
	a.comp_mask = IBV_QP_INIT_ATTR_PD;
	a.pd = pd ? pd : id->pd;
	err = qp_make(to_id(id), &a);
	if (!err)
		memcpy(qp_init_attr, &a, sizeof(*qp_init_attr));
	return minus1_errno(err);
}

EXPORT void rdma_destroy_qp(struct rdma_cm_id *id)
{
	if (!id->qp)
		return;
	ibv_destroy_qp(id->qp);
	id->qp = NULL;
	drop_cqs(to_id(id));
}

/* --- SRQs --- */

static int complete_srq(struct id *i, struct ibv_srq_init_attr_ex *a)
{
	int err = 0;

	if (!(a->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !a->pd) {
		a->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
		a->pd = i->id.pd;
	}
	if (a->srq_type != IBV_SRQT_XRC)
		return 0;
	if (!(a->comp_mask & IBV_SRQ_INIT_ATTR_XRCD) || !a->xrcd) {
		err = opened_xrcd(i->dev, &a->xrcd);
		a->comp_mask |= IBV_SRQ_INIT_ATTR_XRCD;
	}
	if (!err && (!(a->comp_mask & IBV_SRQ_INIT_ATTR_CQ) || !a->cq)) {
		err = make_cq(i, a->attr.max_wr, &i->id.recv_cq_channel, &i->id.recv_cq);
		i->own_srq_cq = !err;
		a->cq = i->id.recv_cq;
		a->comp_mask |= IBV_SRQ_INIT_ATTR_CQ;
	}
	return err;
}

static int make_srq(struct id *i, struct ibv_srq_init_attr_ex *a)
{
	struct ibv_srq *srq;
	int err;

	if (!(a->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) || i->id.srq || !i->id.verbs)
		return EINVAL;
	err = complete_srq(i, a);
	if (err)
		return err;
	srq = ibv_create_srq_ex(i->id.verbs, a);
	if (!srq) {
		err = errno;
		drop_cq(&i->id.recv_cq_channel, &i->id.recv_cq, &i->own_srq_cq);
		return err;
	}
	i->id.srq = srq;
	if (!i->id.pd)
		i->id.pd = a->pd;
	return 0;
}

EXPORT int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	return minus1_errno(attr ? make_srq(to_id(id), attr) : EINVAL);
}

EXPORT int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex a = { 0 };
	int err;

	if (!attr)
		return minus1_errno(EINVAL);
	memcpy(&a, attr, sizeof(*attr));
	a.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
	a.srq_type = id->qp_type == IBV_QPT_XRC_RECV ? IBV_SRQT_XRC : IBV_SRQT_BASIC;
	a.pd = pd ? pd : id->pd;
	err = make_srq(to_id(id), &a);
	if (!err)
		memcpy(attr, &a, sizeof(*attr));
	return minus1_errno(err);
}

EXPORT void rdma_destroy_srq(struct rdma_cm_id *id)
{
	struct id *i = to_id(id);

	if (!id->srq)
		return;
	ibv_destroy_srq(id->srq);
	id->srq = NULL;
	drop_cq(&id->recv_cq_channel, &id->recv_cq, &i->own_srq_cq);
}
