// SPDX-License-Identifier: MIT
/* Queue pairs from creation to destruction, as the driver asks for it. Teardown (qp_life_destroy):
 * unpublish the number and the direct-access entry, wait for peers' hazards, then eqp_life_end(),
 * free. */
#pragma once
#include "engine/node_state.h"

int qp_life_create(struct pd *pd, const struct qp_attr *attr, struct tqp **out);
/* EBUSY: attached to a multicast group, or flow rules name it. Of a QP that was inherited by fork()
 * only the private memory is freed. */
int qp_life_destroy(struct tqp *q);
/* As ibv_modify_qp(): 0 or a positive errno with a reason. RTR resolves the path. */
int qp_life_modify(struct tqp *q, const struct ibv_qp_attr *attr, int mask);
/* As ibv_modify_qp_rate_limit(), which has checked nothing yet. */
int qp_life_rate(struct tqp *q, const struct ibv_qp_rate_limit_attr *attr);
int qp_life_query(struct tqp *q, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init);
