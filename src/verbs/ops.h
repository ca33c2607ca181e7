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
struct ibv_srq *ops_create_srq_ex(struct ibv_context *ib, struct ibv_srq_init_attr_ex *attr);
int ops_get_srq_num(struct ibv_srq *srq, uint32_t *num);
