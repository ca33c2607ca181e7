// SPDX-License-Identifier: MIT
#include "hca/qp.h"
#include <errno.h>
#include <string.h>
#include "hca/async.h"
#include "hca/limits.h"
#include "hca/qp_attrs.h"
#include "hca/qp_moves.h"
#include "obs/explain.h"
#include "util/fork.h"

static int service_check(const struct qp_attr *a)
{
	const struct service *s = a->service;

	if (!s || s->home == HOME_XRCD)
		return refuse(EOPNOTSUPP,
			      "ibv_create_qp: QPs of this type (%s) are not built; RC, UC, UD, "
			      "XRC and RAW_PACKET are",
			      s ? s->name : "unknown");
	if (a->create_flags & ~s->create_flags)
		return refuse(EOPNOTSUPP,
			      "ibv_create_qp: create_flags 0x%x, %s QPs know 0x%x; leave the "
			      "rest out",
			      a->create_flags, s->name, s->create_flags);
	return 0;
}

/* The checks of a QP that receives nothing and so has no receive CQ. */
static int initiator_check(const struct pd *pd, const struct qp_attr *a)
{
	if (!a->scq)
		return refuse(EINVAL, "ibv_create_qp: no send_cq; an %s QP needs one",
			      a->service->name);
	if (a->scq->ctx->root != pd->ctx->root)
		return refuse(EINVAL,
			      "ibv_create_qp: PD 0x%x and the send_cq are of different contexts; "
			      "use those of one",
			      pd->pdn);
	if (!fork_is_ours(a->scq->epoch))
		return refuse(EIO,
			      "ibv_create_qp: the CQ was made before fork(); make it in the child");
	return 0;
}

static int objects_check(const struct pd *pd, const struct qp_attr *a)
{
	if (!a->service->receives)
		return initiator_check(pd, a);
	if (a->hash.table)
		return a->hash.table->ctx->root == pd->ctx->root &&
				       fork_is_ours(a->hash.table->epoch)
			       ? 0
			       : refuse(EINVAL,
					"ibv_create_qp_ex: PD 0x%x and the rwq_ind_tbl are of "
					"different contexts or processes; use those of one",
					pd->pdn);
	if (!a->scq || !a->rcq)
		return refuse(EINVAL, "ibv_create_qp: no %s; a QP needs both",
			      a->scq ? "recv_cq" : "send_cq");
	if (a->scq->ctx->root != pd->ctx->root || a->rcq->ctx->root != pd->ctx->root ||
	    (a->srq && a->srq->pd->ctx->root != pd->ctx->root))
		return refuse(EINVAL,
			      "ibv_create_qp: PD 0x%x and a CQ or the SRQ are of different "
			      "contexts; use those of one",
			      pd->pdn);
	if (!fork_is_ours(a->scq->epoch) || !fork_is_ours(a->rcq->epoch) ||
	    (a->srq && !fork_is_ours(a->srq->epoch)))
		return refuse(EIO,
			      "ibv_create_qp: a CQ or the SRQ was made before fork(); make them in "
			      "the child");
	return 0;
}

int qp_init(struct qp *qp, struct pd *pd, const struct qp_attr *attr, uint32_t qpn)
{
	int err = pd_use(pd, "ibv_create_qp");

	memset(qp, 0, sizeof(*qp));
	if (!err)
		err = service_check(attr);
	if (!err)
		err = objects_check(pd, attr);
	if (!err)
		err = device_take(&pd->ctx->hca->count.qp, LIMIT_QP, "ibv_create_qp");
	if (err)
		return err;
	*qp = (struct qp){
		.ctx = pd->ctx,
		.pd = pd,
		.epoch = fork_epoch(),
		.service = attr->service,
		.qpn = qpn,
		.shown = qpn,
		.uidx = attr->uidx,
		.sq_ids = attr->sq_ids,
		.scq = attr->scq,
		.rcq = attr->rcq,
		.inlines = attr->rcq && attr->rcq->run ? QP_COMPRESSES : 0,
		.srq = attr->srq,
		.sq = attr->sq,
		.rq = { .ring = attr->rq },
		.sq_sig_all = attr->sq_sig_all,
		.atomic_writes = attr->atomic_writes,
		.create_flags = attr->create_flags,
		.cap = attr->cap,
		.hash = attr->hash,
		.user = attr->user,
		.state = IBV_QPS_RESET,
	};
	pd_get(pd);
	if (qp->hash.table)
		fetch_add_relaxed(&qp->hash.table->refs, 1);
	if (qp->scq)
		cq_get(qp->scq);
	if (qp->rcq)
		cq_get(qp->rcq);
	if (qp->srq)
		srq_get(qp->srq);
	return 0;
}

void qp_fini(struct qp *qp)
{
	if (!qp->pd)
		return;
	if (fork_is_ours(qp->epoch)) {
		if (qp->user) /* events of no object are the port's */
			async_drop(qp->ctx, qp->user);
		device_give(&qp->ctx->hca->count.qp);
	}
	if (qp->srq)
		srq_put(qp->srq);
	if (qp->rcq)
		cq_put(qp->rcq);
	if (qp->scq)
		cq_put(qp->scq);
	if (qp->hash.table)
		fetch_sub_acq_rel(&qp->hash.table->refs, 1);
	pd_put(qp->pd);
	qp->pd = NULL;
}

static int use(struct qp *qp)
{
	if (!fork_is_ours(qp->epoch))
		return refuse(
			EIO, "ibv_modify_qp: QP 0x%x was made before fork(); make one in the child",
			qp->qpn);
	return context_use(qp->ctx, "ibv_modify_qp");
}

static int cur_state_check(const struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	if (!(mask & IBV_QP_CUR_STATE) || attr->cur_qp_state == qp->state)
		return 0;
	return refuse(EINVAL,
		      "ibv_modify_qp: QP 0x%x is in %s, cur_qp_state says %s; leave "
		      "IBV_QP_CUR_STATE out or query it before",
		      qp->qpn, qp_state_name(qp->state), qp_state_name(attr->cur_qp_state));
}

/* A program does not set ARMED. It sets REARM after an alternate path, and MIGRATED after the peer
 * has agreed. */
static int migration_check(const struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	enum ibv_mig_state is = qp->attr.path_mig_state, to = attr->path_mig_state;

	if (!(mask & IBV_QP_PATH_MIG_STATE))
		return 0;
	if (to == IBV_MIG_ARMED)
		return refuse(
			EINVAL,
			"ibv_modify_qp: QP 0x%x: path_mig_state IBV_MIG_ARMED comes by itself "
			"when the peer is rearmed too; set IBV_MIG_REARM",
			qp->qpn);
	if (to == IBV_MIG_REARM && !(mask & IBV_QP_ALT_PATH) && !qp->attr.alt_ah_attr.is_global)
		return refuse(
			EINVAL,
			"ibv_modify_qp: QP 0x%x: IBV_MIG_REARM without an alternate path; set "
			"IBV_QP_ALT_PATH before or with it",
			qp->qpn);
	if (to == IBV_MIG_MIGRATED && is == IBV_MIG_REARM)
		return refuse(EINVAL,
			      "ibv_modify_qp: QP 0x%x: the peer has not agreed to migrate yet "
			      "(IBV_MIG_REARM); rearm it too and exchange a message",
			      qp->qpn);
	return 0;
}

int qp_modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	enum ibv_qp_state to = mask & IBV_QP_STATE ? attr->qp_state : qp->state;
	int err = use(qp);

	mask &= ~qp->service->ignores;
	if (!err && qp->hash.table)
		err = refuse(EOPNOTSUPP,
			     "ibv_modify_qp: QP 0x%x spreads frames over work queues and has no "
			     "states; move the work queues (ibv_modify_wq)",
			     qp->qpn);
	if (!err)
		err = cur_state_check(qp, attr, mask);
	if (!err)
		err = qp_moves_check(qp->qpn, qp->service, qp->state, to, mask);
	if (!err && (mask & IBV_QP_ALT_PATH) && !qp->service->alternate_path)
		err = refuse(EOPNOTSUPP,
			     "ibv_modify_qp: QP 0x%x: %s QPs have no alternate path; leave "
			     "IBV_QP_ALT_PATH out",
			     qp->qpn, qp->service->name);
	if (!err)
		err = qp_attrs_check(qp, attr, mask);
	if (!err)
		err = migration_check(qp, attr, mask);
	if (err)
		return err;
	if (to == IBV_QPS_RESET)
		memset(&qp->attr, 0, sizeof(qp->attr));
	if (to == IBV_QPS_SQD && qp->state != to)
		qp->attr.en_sqd_async_notify = 0; /* each move asks anew */
	qp_attrs_set(&qp->attr, attr, mask);
	store_relaxed(&qp->state, to);
	return 0;
}

void qp_query(const struct qp *qp, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init)
{
	const struct ibv_qp *user = qp->user;

	*attr = qp->attr;
	attr->qp_state = attr->cur_qp_state = qp->state;
	attr->cap = qp->cap;
	*init = (struct ibv_qp_init_attr){
		.qp_context = user ? user->qp_context : NULL,
		.send_cq = qp->scq ? qp->scq->user : NULL,
		.recv_cq = qp->rcq ? qp->rcq->user : NULL,
		.srq = qp->srq ? qp->srq->user : NULL,
		.cap = qp->cap,
		.qp_type = qp->service->type,
		.sq_sig_all = qp->sq_sig_all,
	};
}

uint64_t qp_wr_id(const struct wr_ids *ids, uint32_t index)
{
	const uint8_t *at = ids->at;
	uint64_t id = 0;

	if (at)
		memcpy(&id, at + (size_t)ids->stride * (index & ids->mask), sizeof(id));
	return id;
}

uint32_t qp_mtu(const struct qp *qp)
{
	const struct hca *hca;

	if (!qp->service->one_packet)
		return 128U << qp->attr.path_mtu;
	hca = qp->ctx->hca;
	return 128U << hca->ports->active_mtu(hca->ports_arg);
}
