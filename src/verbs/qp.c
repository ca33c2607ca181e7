// SPDX-License-Identifier: MIT
/* Queue pairs and multicast membership. */
#include <string.h>
#include "driver/dtarget.h"
#include "engine/groups.h"
#include "engine/reserved.h"
#include "hca/alive.h"
#include "obs/explain.h"
#include "verbs/export.h"
#include "verbs/ops.h"

/* The objects that a queue pair with a PD is made of. An RSS QP's CQs are not looked at. */
static int check_parts(const struct ibv_qp_init_attr_ex *a, const char *call)
{
	int err = alive_check(ALIVE_PD, a->pd, call);

	if (!err && (a->comp_mask & IBV_QP_INIT_ATTR_IND_TABLE))
		return alive_of(a->pd->context, ALIVE_RWQ_TABLE, a->rwq_ind_tbl, call);
	if (!err)
		err = alive_of(a->pd->context, ALIVE_CQ, a->send_cq, call);
	if (!err)
		err = alive_of(a->pd->context, ALIVE_CQ, a->recv_cq, call);
	return err ? err : alive_of(a->pd->context, ALIVE_SRQ, a->srq, call);
}

static int check_domain(const struct ibv_context *ib, const struct ibv_xrcd *xrcd, const char *call)
{
	int err = alive_check(ALIVE_CONTEXT, ib, call);

	return err ? err : alive_of(ib, ALIVE_XRCD, xrcd, call);
}

static struct ibv_qp *create_target(struct ibv_context *ib, struct ibv_qp_init_attr_ex *attr)
{
	struct dqp *qp;
	int err = 0;

	if (attr->comp_mask & IBV_QP_INIT_ATTR_XRCD)
		err = check_domain(ib, attr->xrcd, "ibv_create_qp_ex");
	if (!err)
		err = dtarget_create(attr, &qp);
	return err ? null_errno(err) : alive_made_of(ALIVE_QP, &qp->ib, attr->xrcd, NULL);
}

struct ibv_qp *ops_create_qp_ex(struct ibv_context *ib, struct ibv_qp_init_attr_ex *attr)
{
	struct dqp *qp;
	int err;

	if (attr->qp_type == IBV_QPT_XRC_RECV)
		return create_target(ib, attr);
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD))
		return null_errno(
			refuse(EINVAL,
			       "ibv_create_qp_ex: comp_mask 0x%x for a QP of type %s without a PD; "
			       "set IBV_QP_INIT_ATTR_PD",
			       attr->comp_mask, qp_type_name(attr->qp_type)));
	err = check_parts(attr, "ibv_create_qp");
	if (!err)
		err = dqp_create(to_pd(attr->pd), attr, &qp);
	return err ? null_errno(err) : alive_made(ALIVE_QP, &qp->ib);
}

/* For libmlx5. */
EXPORT struct ibv_qp *softhca_create_dc(struct ibv_qp_init_attr_ex *attr, const struct dqp_dc *dc)
{
	struct dqp *qp;
	int err;

	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd)
		return null_errno(
			refuse(EINVAL,
			       "mlx5dv_create_qp: comp_mask 0x%x of a DC %s without a PD; set "
			       "IBV_QP_INIT_ATTR_PD",
			       attr->comp_mask, dc->target ? "target" : "initiator"));
	err = check_parts(attr, "mlx5dv_create_qp");
	if (!err)
		err = dqp_create_dc(to_pd(attr->pd), attr, dc, &qp);
	return err ? null_errno(err) : alive_made(ALIVE_QP, &qp->ib);
}

/* For libmlx5. */
EXPORT int softhca_qp_alive(const struct ibv_qp *qp, const char *call)
{
	return alive_check(ALIVE_QP, qp, call);
}

/* For libmlx5. */
EXPORT int softhca_stream_reset(struct ibv_qp *qp, uint16_t id)
{
	int err = alive_check(ALIVE_QP, qp, "mlx5dv_dci_stream_id_reset");

	return err ? err : dqp_stream_reset(to_dqp(qp), id);
}

/* ibv_qp_init_attr is the front of its extended form. */
EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = { 0 };
	struct ibv_qp *qp;

	_Static_assert(offsetof(struct ibv_qp_init_attr_ex, sq_sig_all) ==
			       offsetof(struct ibv_qp_init_attr, sq_sig_all),
		       "a prefix");
	memcpy(&ex, attr, sizeof(*attr));
	ex.comp_mask = IBV_QP_INIT_ATTR_PD;
	ex.pd = pd;
	qp = ops_create_qp_ex(NULL, &ex);
	if (qp)
		attr->cap = ex.cap;
	return qp;
}

struct ibv_qp *ops_open_qp(struct ibv_context *ib, struct ibv_qp_open_attr *attr)
{
	struct dqp *qp;
	int err = 0;

	if (attr->comp_mask & IBV_QP_OPEN_ATTR_XRCD)
		err = check_domain(ib, attr->xrcd, "ibv_open_qp");
	if (!err)
		err = dtarget_open(attr, &qp);
	return err ? null_errno(err) : alive_made_of(ALIVE_QP, &qp->ib, attr->xrcd, NULL);
}

EXPORT int ibv_destroy_qp(struct ibv_qp *qp)
{
	struct alive_end end;
	int err = alive_take(ALIVE_QP, qp, "ibv_destroy_qp", &end);

	return positive_errno(err ? err : alive_left(&end, dqp_destroy(to_dqp(qp))));
}

EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int err = alive_check(ALIVE_QP, qp, "ibv_modify_qp");

	return positive_errno(err ? err : dqp_modify(to_dqp(qp), attr, mask));
}

int ops_modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr)
{
	int err = alive_check(ALIVE_QP, qp, "ibv_modify_qp_rate_limit");

	return positive_errno(err ? err : dqp_rate(to_dqp(qp), attr));
}

EXPORT int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
			struct ibv_qp_init_attr *init_attr)
{
	int err = alive_check(ALIVE_QP, qp, "ibv_query_qp");

	if (!err) /* everything, as drivers do */
		err = dqp_query(to_dqp(qp), attr, init_attr);
	if (!err && (mask & IBV_QP_STATE)) /* so programs learn of moves that the queue made */
		store_relaxed(&qp->state, attr->qp_state);
	return positive_errno(err);
}

/* NULL: not created with IBV_QP_INIT_ATTR_SEND_OPS_FLAGS. Programs probe, so that is no refusal. */
EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	struct ibv_qp_ex *ex = &to_dqp(qp)->ib;

	return ex->wr_start ? ex : NULL;
}

/* For libmlx5. NULL of NULL: perftest asks so on the side that sends nothing. */
EXPORT struct mlx5dv_qp_ex *softhca_qp_dv(struct ibv_qp_ex *ib)
{
	return ib ? &to_dqp(&ib->qp_base)->dv : NULL;
}

/* For libmlx5. */
EXPORT void softhca_qp_dv_flags(struct ibv_qp *ib, uint32_t flags)
{
	dqp_dv_flags(to_dqp(ib), flags);
}

/* For libmlx5. */
EXPORT void softhca_qp_inlines(struct ibv_qp *ib, bool allow)
{
	dqp_inlines(to_dqp(ib), allow);
}

/* For libmlx5. */
EXPORT void softhca_qp_sig_pipelining(struct ibv_qp *ib)
{
	to_dqp(ib)->dev->qp.sig_pipelining = true;
}

/* For libmlx5. */
EXPORT int softhca_qp_udp_sport(struct ibv_qp *qp, uint16_t sport)
{
	int err = alive_check(ALIVE_QP, qp, "mlx5dv_modify_qp_udp_sport");

	return err ? err : dqp_udp_sport(to_dqp(qp), sport);
}

/* For libmlx5. */
EXPORT int softhca_qp_cancel(struct mlx5dv_qp_ex *dv, uint64_t wr_id)
{
	struct dqp *qp = container_of(dv, struct dqp, dv);
	unsigned int n = 0;
	int err = alive_check(ALIVE_QP, dv ? &qp->ib : NULL, "mlx5dv_qp_cancel_posted_send_wrs");

	err = err ? err : dqp_cancel(qp, wr_id, &n);
	return err ? -positive_errno(err) : (int)n;
}

/* For libmlx5. */
EXPORT int softhca_qpn_reserve(struct ibv_context *ib, uint32_t *qpn)
{
	return reserved_take(to_context(ib), qpn);
}

/* For libmlx5. */
EXPORT int softhca_qpn_release(struct ibv_context *ib, uint32_t qpn)
{
	return reserved_give(to_context(ib), qpn);
}

/* Only the last cache line of a message is ordered behind the rest. */
EXPORT int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	(void)qp;
	(void)op;
	(void)flags;
	return 0;
}

#define ECE_VENDOR 0x15b3 /* what devices of this vendor call themselves there */

/* Of this vendor's options none is offered, so none is ever agreed on. */
EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	int err = alive_check(ALIVE_QP, qp, "ibv_set_ece");

	if (err)
		return positive_errno(err);
	if (ece->comp_mask)
		err = refuse(EINVAL,
			     "ibv_set_ece: comp_mask 0x%x on QP 0x%x, nothing is defined; "
			     "pass 0",
			     ece->comp_mask, qp->qp_num);
	else if (!ece->vendor_id)
		err = refuse(EOPNOTSUPP,
			     "ibv_set_ece: vendor_id 0 on QP 0x%x: the peer knows no "
			     "ECE; leave the call out",
			     qp->qp_num);
	else if (ece->vendor_id != ECE_VENDOR)
		err = refuse(EINVAL,
			     "ibv_set_ece: vendor_id 0x%x on QP 0x%x, this device's is "
			     "0x%x; leave the call out for peers of other vendors",
			     ece->vendor_id, qp->qp_num, ECE_VENDOR);
	if (err)
		return positive_errno(err);
	ece->options = 0;
	return 0;
}

EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	int err = alive_check(ALIVE_QP, qp, "ibv_query_ece");

	if (!err)
		*ece = (struct ibv_ece){ .vendor_id = ECE_VENDOR };
	return positive_errno(err);
}

EXPORT int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	int err = alive_check(ALIVE_QP, qp, "ibv_attach_mcast");

	(void)lid; /* RoCE has none */
	return positive_errno(err ? err : groups_attach(to_dqp(qp)->dev, gid, true));
}

EXPORT int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	int err = alive_check(ALIVE_QP, qp, "ibv_detach_mcast");

	(void)lid;
	return positive_errno(err ? err : groups_attach(to_dqp(qp)->dev, gid, false));
}
