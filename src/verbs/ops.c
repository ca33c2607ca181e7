// SPDX-License-Identifier: MIT
#include "verbs/ops.h"
#include "driver/cq_poll.h"
#include "driver/dqp.h"
#include "driver/dsrq_tags.h"
#include "verbs/export.h"

#define EXTENDED ((void *)UINTPTR_MAX) /* abi_compat: a verbs_context is around the ibv_context */

/* X(type, table, entry, call, convention): entries that are not built yet. */
// clang-format off
#define UNBUILT_OPS(X)                                                                             \
	X(int, *v, modify_flow_action_esp, "ibv_modify_flow_action_esp", positive_errno)           \
	X(int, *v, destroy_flow_action, "ibv_destroy_flow_action", positive_errno)                 \
	X(void *, *v, create_flow_action_esp, "ibv_create_flow_action_esp", null_errno)
// clang-format on

/* As with the rows of unbuilt.h, the caller passes and removes the arguments. */
#define REFUSE_OP(type, table, entry, call, convention)                                            \
	static type refuse_##entry(void)                                                           \
	{                                                                                          \
		return convention(softhca_unbuilt(call, EOPNOTSUPP));                              \
	}
UNBUILT_OPS(REFUSE_OP)

#define SET_OP(type, table, entry, call, convention)                                               \
	(table).entry = (__typeof__((table).entry))(void (*)(void))refuse_##entry;

static void fill_unbuilt(struct verbs_context *v)
{
	UNBUILT_OPS(SET_OP)
}

void ops_fill(struct verbs_context *v)
{
	struct ibv_context_ops *ops = &v->context.ops;

	v->sz = sizeof(*v);
	v->context.abi_compat = EXTENDED;
	fill_unbuilt(v);
	v->query_port = ops_query_port;
	v->query_device_ex = ops_query_device_ex;
	v->query_rt_values = ops_query_rt_values;
	v->create_cq_ex = ops_create_cq_ex;
	v->modify_cq = ops_modify_cq;
	v->modify_qp_rate_limit = ops_modify_qp_rate_limit;
	v->create_qp_ex = ops_create_qp_ex;
	v->create_srq_ex = ops_create_srq_ex;
	v->get_srq_num = ops_get_srq_num;
	v->post_srq_ops = dsrq_post_ops;
	v->ibv_create_flow = ops_create_flow;
	v->ibv_destroy_flow = ops_destroy_flow;
	v->create_counters = ops_create_counters;
	v->destroy_counters = ops_destroy_counters;
	v->attach_counters_point_flow = ops_attach_counters;
	v->read_counters = ops_read_counters;
	v->create_wq = ops_create_wq;
	v->destroy_wq = ops_destroy_wq;
	v->modify_wq = ops_modify_wq;
	v->create_rwq_ind_table = ops_create_rwq_ind_table;
	v->destroy_rwq_ind_table = ops_destroy_rwq_ind_table;
	v->open_qp = ops_open_qp;
	v->open_xrcd = ops_open_xrcd;
	v->close_xrcd = ops_close_xrcd;
	ops->_compat_query_device = ibv_query_device;
	ops->_compat_query_port = ibv_query_port;
	ops->poll_cq = dcq_poll;
	ops->req_notify_cq = dcq_arm;
	ops->post_srq_recv = dsrq_post_recv;
	ops->post_send = dqp_post_send;
	ops->post_recv = dqp_post_recv;
	ops_fill_memory(v);
}
