// SPDX-License-Identifier: MIT
/* Shared receive queues: basic, tag-matching and of XRC domains. */
#include <errno.h>
#include "driver/dsrq.h"
#include "hca/alive.h"
#include "obs/explain.h"
#include "verbs/export.h"
#include "verbs/ops.h"

/* ibv_srq_init_attr is the front of its extended form, but its padding is comp_mask there: the
 * fields are copied one by one. */
EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex ex = { .srq_context = attr->srq_context, .attr = attr->attr };
	struct dsrq *srq;
	int err = alive_check(ALIVE_PD, pd, "ibv_create_srq");

	if (!err)
		err = dsrq_create(to_pd(pd), &ex, &srq);
	if (err)
		return null_errno(err);
	attr->attr = ex.attr;
	return alive_made(ALIVE_SRQ, &srq->ib);
}

static int check_tm(const struct ibv_srq_init_attr_ex *a)
{
	uint32_t need = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
			IBV_SRQ_INIT_ATTR_TM;

	if (a->comp_mask == need && a->cq)
		return 0;
	return refuse(
		EINVAL,
		"ibv_create_srq_ex: comp_mask 0x%x%s, a tag-matching SRQ has TYPE, PD, CQ and "
		"TM (0x%x); set these",
		a->comp_mask, a->cq ? "" : " without a cq", need);
}

static int check_xrc(const struct ibv_srq_init_attr_ex *a)
{
	const uint32_t need = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			      IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;

	if (a->comp_mask == need && a->pd && a->xrcd && a->cq)
		return 0;
	return refuse(EINVAL,
		      "ibv_create_srq_ex: comp_mask 0x%x of an XRC SRQ; it needs pd, xrcd and cq, "
		      "and nothing else (0x%x)",
		      a->comp_mask, need);
}

/* The inline function comes here only for what ibv_create_srq() cannot express. */
struct ibv_srq *ops_create_srq_ex(struct ibv_context *ib, struct ibv_srq_init_attr_ex *attr)
{
	static const char call[] = "ibv_create_srq_ex";
	struct dsrq *srq;
	int err;

	if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) && attr->srq_type == IBV_SRQT_XRC)
		err = check_xrc(attr);
	else if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) && attr->srq_type == IBV_SRQT_TM)
		err = check_tm(attr);
	else
		err = refuse(EOPNOTSUPP,
			     "ibv_create_srq_ex: comp_mask 0x%x, type %d: basic SRQs with a PD, "
			     "tag-matching ones and those of XRC domains are built; ask for one of "
			     "these",
			     attr->comp_mask, attr->srq_type);
	if (!err)
		err = alive_check(ALIVE_CONTEXT, ib, call);
	if (!err)
		err = alive_check(ALIVE_PD, attr->pd, call);
	if (!err)
		err = alive_of(ib, ALIVE_PD, attr->pd, call);
	if (!err)
		err = alive_of(ib, ALIVE_CQ, attr->cq, call);
	if (!err && (attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD))
		err = alive_of(ib, ALIVE_XRCD, attr->xrcd, call);
	if (!err)
		err = dsrq_create(to_pd(attr->pd), attr, &srq);
	if (err)
		return null_errno(err);
	return alive_made_of(ALIVE_SRQ, &srq->ib, srq->dev->xrcd ? attr->xrcd : NULL,
			     srq->dev->cq ? attr->cq : NULL);
}

int ops_get_srq_num(struct ibv_srq *srq, uint32_t *num)
{
	int err = alive_check(ALIVE_SRQ, srq, "ibv_get_srq_num");

	if (!err)
		*num = to_dsrq(srq)->dev->srqn;
	return positive_errno(err);
}

EXPORT int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	int err = alive_check(ALIVE_SRQ, srq, "ibv_modify_srq");

	return positive_errno(err ? err : dsrq_modify(to_dsrq(srq), attr, mask));
}

EXPORT int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	int err = alive_check(ALIVE_SRQ, srq, "ibv_query_srq");

	return positive_errno(err ? err : dsrq_query(to_dsrq(srq), attr));
}

EXPORT int ibv_destroy_srq(struct ibv_srq *srq)
{
	struct alive_end end;
	int err = alive_take(ALIVE_SRQ, srq, "ibv_destroy_srq", &end);

	return positive_errno(err ? err : alive_left(&end, dsrq_destroy(to_dsrq(srq))));
}
