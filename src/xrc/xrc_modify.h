// SPDX-License-Identifier: MIT
/* Modify and query of a target QP, under both its turns (eqp_ops). ETIMEDOUT: a member that is
 * stopped has the shared one. */
#pragma once
#include "engine/node_state.h"

int xrc_modify(struct eqp *e, const struct ibv_qp_attr *attr, int mask);
int xrc_modify_query(struct eqp *e, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init);
