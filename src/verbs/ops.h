// SPDX-License-Identifier: MIT
/* The function table of an open device, which the inline functions of verbs.h jump through. Every
 * entry is set: one that is not built yet refuses by its call's convention. */
#pragma once
#include <infiniband/verbs.h>

void ops_fill(struct verbs_context *v);
void ops_fill_memory(struct verbs_context *v); /* the part that memory.c builds */

/* The entries that live in the files of their objects. */
int ops_query_port(struct ibv_context *ib, uint8_t port, struct ibv_port_attr *attr, size_t size);
int ops_query_device_ex(struct ibv_context *ib, const struct ibv_query_device_ex_input *in,
			struct ibv_device_attr_ex *attr, size_t size);
int ops_modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr);
int ops_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
int ops_query_rt_values(struct ibv_context *ib, struct ibv_values_ex *values);
struct ibv_cq_ex *ops_create_cq_ex(struct ibv_context *ib, struct ibv_cq_init_attr_ex *attr);
struct ibv_qp *ops_create_qp_ex(struct ibv_context *ib, struct ibv_qp_init_attr_ex *attr);
struct ibv_qp *ops_open_qp(struct ibv_context *ib, struct ibv_qp_open_attr *attr);
struct ibv_xrcd *ops_open_xrcd(struct ibv_context *ib, struct ibv_xrcd_init_attr *attr);
int ops_close_xrcd(struct ibv_xrcd *xrcd);
struct ibv_srq *ops_create_srq_ex(struct ibv_context *ib, struct ibv_srq_init_attr_ex *attr);
int ops_get_srq_num(struct ibv_srq *srq, uint32_t *num);
struct ibv_flow *ops_create_flow(struct ibv_qp *qp, struct ibv_flow_attr *attr);
int ops_destroy_flow(struct ibv_flow *flow);
struct ibv_counters *ops_create_counters(struct ibv_context *ib,
					 struct ibv_counters_init_attr *attr);
int ops_destroy_counters(struct ibv_counters *ib);
int ops_attach_counters(struct ibv_counters *ib, struct ibv_counter_attach_attr *attr,
			struct ibv_flow *flow);
int ops_read_counters(struct ibv_counters *ib, uint64_t *values, uint32_t n, uint32_t flags);
struct ibv_wq *ops_create_wq(struct ibv_context *ib, struct ibv_wq_init_attr *attr);
int ops_destroy_wq(struct ibv_wq *wq);
int ops_modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *attr);
struct ibv_rwq_ind_table *ops_create_rwq_ind_table(struct ibv_context *ib,
						   struct ibv_rwq_ind_table_init_attr *attr);
int ops_destroy_rwq_ind_table(struct ibv_rwq_ind_table *ib);
