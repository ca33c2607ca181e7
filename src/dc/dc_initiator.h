// SPDX-License-Identifier: MIT
/* A DC initiator (DCI): an RC requester whose peer is the target of the work request in hand. It
 * goes on to the next target when nothing is outstanding at the last one: it ends that connection,
 * asks the next target for one, and sends when the target has answered with the number of the
 * responder. docs/design/dynamically-connected.md */
#pragma once
#include "engine/qp_life.h"

/* As ibv_create_qp() for qp_life_modify(), qp_life_query() and qp_life_destroy(). */
int dc_initiator_create(struct pd *pd, const struct qp_attr *attr, struct tqp **out);
