// SPDX-License-Identifier: MIT
/* Shared receive queues of the basic type. */
#include "driver/dsrq.h"
#include "obs/explain.h"
#include "verbs/export.h"
#include "verbs/ops.h"

EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct dsrq *srq;
	int err = dsrq_create(to_pd(pd), attr, &srq);

	return err ? null_errno(err) : &srq->ib;
}

/* The inline function comes here only for what ibv_create_srq() cannot express. */
struct ibv_srq *ops_create_srq_ex(struct ibv_context *ib, struct ibv_srq_init_attr_ex *attr)
{
	(void)ib;
	return null_errno(refuse(EOPNOTSUPP,
				 "ibv_create_srq_ex: comp_mask 0x%x, type %d: only a basic SRQ "
				 "with a PD is built; leave XRC and tag matching out",
				 attr->comp_mask, attr->srq_type));
}

int ops_get_srq_num(struct ibv_srq *srq, uint32_t *num)
{
	*num = to_dsrq(srq)->dev->srqn;
	return 0;
}

EXPORT int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	return dsrq_modify(to_dsrq(srq), attr, mask);
}

EXPORT int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	return dsrq_query(to_dsrq(srq), attr);
}

EXPORT int ibv_destroy_srq(struct ibv_srq *srq)
{
	return dsrq_destroy(to_dsrq(srq));
}
