// SPDX-License-Identifier: MIT
/* Connections: calls that send messages. */
#include <stdlib.h>
#include <string.h>
#include "rdmacm/id.h"

enum { RETRIES = 7 };

/* The program's parameters against the device; EINVAL. */
static int check(const struct id *i, const struct rdma_conn_param *p)
{
	if (i->id.ps != RDMA_PS_TCP)
		return 0;
	if (!i->id.qp && !p)
		return EINVAL;
	if (!p || !i->dev)
		return 0;
	if (p->responder_resources != RDMA_MAX_RESP_RES &&
	    p->responder_resources > i->dev->max_responder)
		return EINVAL;
	return p->initiator_depth != RDMA_MAX_INIT_DEPTH &&
			       p->initiator_depth > i->dev->max_initiator
		       ? EINVAL
		       : 0;
}

/* Private data: the endpoint's, then the program's. */
static int put_data(const struct id *i, const struct rdma_conn_param *p, struct cm_param *out)
{
	size_t own = p && p->private_data ? p->private_data_len : 0;

	if (i->connect_len + own > sizeof(out->data))
		return EINVAL;
	if (i->connect_len)
		memcpy(out->data, i->connect_data, i->connect_len);
	if (own)
		memcpy(out->data + i->connect_len, p->private_data, own);
	out->data_len = (uint8_t)(i->connect_len + own);
	return 0;
}

static void put_qp(const struct id *i, const struct rdma_conn_param *p, struct cm_param *out)
{
	if (i->id.qp) {
		out->qpn = i->id.qp->qp_num;
		out->srq = i->id.qp->srq != NULL;
	} else if (p) {
		out->qpn = p->qp_num;
		out->srq = p->srq;
	}
	out->ece_vendor = i->local_ece.vendor_id;
	out->ece_options = i->local_ece.options;
}

EXPORT int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
{
	struct id *i = to_id(id);
	const struct rdma_conn_param *p = conn_param;
	uint8_t responder = i->dev ? i->dev->max_responder : 0;
	uint8_t initiator = i->dev ? i->dev->max_initiator : 0;
	struct cm_param out = { .retry_count = RETRIES, .rnr_retry_count = RETRIES };
	void *data = i->connect_data;
	size_t len = i->connect_len;
	bool sync = i->sync;
	int err = check(i, p);

	err = err ? err : put_data(i, p, &out);
	if (err)
		return minus1_errno(err);
	out.responder_resources = responder;
	out.initiator_depth = initiator;
	if (p) {
		if (p->responder_resources != RDMA_MAX_RESP_RES)
			out.responder_resources = p->responder_resources;
		if (p->initiator_depth != RDMA_MAX_INIT_DEPTH)
			out.initiator_depth = p->initiator_depth;
		out.flow_control = p->flow_control;
		out.retry_count = p->retry_count;
		out.rnr_retry_count = p->rnr_retry_count;
	}
	put_qp(i, p, &out);
	i->connect_data = NULL;
	i->connect_len = 0;
	err = softhca_cm()->connect(i->cm, &out);
	if (err) {
		i->connect_data = data;
		i->connect_len = len;
	} else {
		free(data);
	}
	return id_result(i, sync, err);
}

/* --- the passive end --- */

static uint8_t lower(uint8_t a, uint8_t b)
{
	return a < b ? a : b;
}

static void accept_depths(struct id *i, const struct rdma_conn_param *p, struct cm_param *out)
{
	uint8_t max_initiator = i->dev ? i->dev->max_initiator : 0;
	uint8_t max_responder = i->dev ? i->dev->max_responder : 0;

	out->initiator_depth = lower(i->initiator, max_initiator);
	if (p && p->initiator_depth != RDMA_MAX_INIT_DEPTH)
		out->initiator_depth = p->initiator_depth;
	out->responder_resources = lower(i->responder, max_responder);
	if (p && p->responder_resources != RDMA_MAX_RESP_RES)
		out->responder_resources = p->responder_resources;
}

static int accept_qp(struct id *i, const struct cm_param *out)
{
	int err;

	if (!i->id.qp || i->id.qp_type == IBV_QPT_UD)
		return 0;
	err = ece_take(i, true);
	err = err ? err : qp_to_rtr(i, out->responder_resources);
	return err ? err : qp_to_rts(i, out->initiator_depth);
}

EXPORT int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
{
	struct id *i = to_id(id);
	const struct rdma_conn_param *p = conn_param;
	struct cm_param out = { .rnr_retry_count = RETRIES };
	bool waits = i->sync && id->qp_type != IBV_QPT_UD;
	int err = !id->qp && !p ? EINVAL : check(i, p);

	err = err ? err : put_data(i, p, &out);
	if (err)
		return minus1_errno(err);
	accept_depths(i, p, &out);
	if (p) {
		out.flow_control = p->flow_control;
		out.rnr_retry_count = p->rnr_retry_count;
	}
	out.qkey = RDMA_UDP_QKEY;
	err = accept_qp(i, &out);
	if (err)
		return minus1_errno(err); /* as Linux: the request stays */
	put_qp(i, p, &out);
	err = softhca_cm()->accept(i->cm, &out);
	if (err) {
		qp_to_err(i);
		softhca_cm()->reject(i->cm, NULL, 0, false);
		return minus1_errno(err);
	}
	return waits ? id_complete(i) : 0;
}

/* NULL: no private data, whatever its length, as in rdma_connect(). */
static int reject(struct rdma_cm_id *id, const void *data, uint8_t len, bool ece)
{
	return minus1_errno(softhca_cm()->reject(to_id(id)->cm, data, data ? len : 0, ece));
}

EXPORT int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
	return reject(id, private_data, private_data_len, false);
}

EXPORT int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data,
			   uint8_t private_data_len)
{
	return reject(id, private_data, private_data_len, true);
}

EXPORT int rdma_establish(struct rdma_cm_id *id)
{
	struct id *i = to_id(id);
	int err = id->qp ? EINVAL : softhca_cm()->establish(i->cm);

	if (err && !id->qp)
		softhca_cm()->reject(i->cm, NULL, 0,
				     false); /* as Linux, once a REQ or REP is out */
	return minus1_errno(err);
}

EXPORT int rdma_disconnect(struct rdma_cm_id *id)
{
	struct id *i = to_id(id);
	bool follows, sync = i->sync;
	int err;

	if (!id->verbs)
		return minus1_errno(EINVAL);
	qp_to_err(i);
	err = softhca_cm()->disconnect(i->cm, &follows);
	return id_result(i, sync && follows, err);
}
