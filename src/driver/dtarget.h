// SPDX-License-Identifier: MIT
/* Handles on target QPs of XRC domains. A handle has no queues and no CQs, only the public struct;
 * dqp_modify(), dqp_query() and dqp_destroy() take it. */
#pragma once
#include "driver/dqp.h"

/* ibv_create_qp_ex with IBV_QP_INIT_ATTR_XRCD; cap is set to zeros. */
int dtarget_create(struct ibv_qp_init_attr_ex *attr, struct dqp **out);
/* EINVAL: the domain has no such number, or qp_type is another. */
int dtarget_open(const struct ibv_qp_open_attr *attr, struct dqp **out);
