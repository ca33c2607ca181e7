// SPDX-License-Identifier: MIT
/* Work queues and indirection tables. All of these calls are inline and come by the table. */
#include <stdlib.h>
#include "driver/dwq.h"
#include "hca/alive.h"
#include "hca/limits.h"
#include "obs/explain.h"
#include "verbs/export.h"
#include "verbs/ops.h"

static struct ibv_wq *create(struct ibv_context *ib, struct ibv_wq_init_attr *attr,
			     const struct stride_form *strides)
{
	struct dwq *wq;
	int err = alive_check(ALIVE_CONTEXT, ib, "ibv_create_wq");

	if (!err)
		err = alive_of(ib, ALIVE_PD, attr->pd, "ibv_create_wq");
	if (!err)
		err = alive_of(ib, ALIVE_CQ, attr->cq, "ibv_create_wq");
	if (!err)
		err = dwq_create(to_context(ib), attr, strides, &wq);
	return err ? null_errno(err) : alive_made(ALIVE_WQ, &wq->ib);
}

struct ibv_wq *ops_create_wq(struct ibv_context *ib, struct ibv_wq_init_attr *attr)
{
	return create(ib, attr, NULL);
}

EXPORT struct ibv_wq *softhca_create_wq(struct ibv_context *ib, struct ibv_wq_init_attr *attr,
					const struct stride_form *strides)
{
	return create(ib, attr, strides);
}

int ops_destroy_wq(struct ibv_wq *wq)
{
	struct alive_end end;
	int err = alive_take(ALIVE_WQ, wq, "ibv_destroy_wq", &end);

	return positive_errno(err ? err : alive_left(&end, dwq_destroy(to_dwq(wq))));
}

int ops_modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *attr)
{
	int err = alive_check(ALIVE_WQ, wq, "ibv_modify_wq");

	return positive_errno(err ? err : dwq_modify(to_dwq(wq), attr));
}

struct ibv_rwq_ind_table *ops_create_rwq_ind_table(struct ibv_context *ib,
						   struct ibv_rwq_ind_table_init_attr *attr)
{
	unsigned int log = attr->log_ind_tbl_size;
	struct wq *wqs[1 << LIMIT_RWQ_TABLE_LOG];
	struct rwq_table *t;
	int err = alive_check(ALIVE_CONTEXT, ib, "ibv_create_rwq_ind_table");

	if (!err && attr->comp_mask)
		return null_errno(refuse(EOPNOTSUPP,
					 "ibv_create_rwq_ind_table: comp_mask 0x%x, nothing is "
					 "defined; pass 0",
					 attr->comp_mask));
	for (unsigned int i = 0; !err && log <= LIMIT_RWQ_TABLE_LOG && i < 1U << log; i++) {
		err = alive_check(ALIVE_WQ, attr->ind_tbl[i], "ibv_create_rwq_ind_table");
		wqs[i] = err ? NULL : to_dwq(attr->ind_tbl[i])->dev;
	}
	if (!err)
		err = rwq_table_create(to_context(ib), log, wqs, &t);
	return err ? null_errno(err) : alive_made(ALIVE_RWQ_TABLE, &t->ib);
}

int ops_destroy_rwq_ind_table(struct ibv_rwq_ind_table *ib)
{
	struct alive_end end;
	int err = alive_take(ALIVE_RWQ_TABLE, ib, "ibv_destroy_rwq_ind_table", &end);

	return positive_errno(err ? err
				  : alive_left(&end, rwq_table_destroy((struct rwq_table *)ib)));
}
