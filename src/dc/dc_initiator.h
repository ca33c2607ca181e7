// SPDX-License-Identifier: MIT
/* A DC initiator (DCI): an RC requester whose peer is the target of the work request in hand. It
 * goes on to the next target when nothing is outstanding at the last one: it ends that connection,
 * asks the next target for one, and sends when the target has answered with the number of the
 * responder. Work requests of all streams go in one order, as on an RC QP; a stream only limits
 * what an error ends. docs/design/dynamically-connected.md */
#pragma once
#include "engine/qp_life.h"

/* As ibv_create_qp() for qp_life_modify(), qp_life_query() and qp_life_destroy(). @errored: the
 * number of streams in error that ends it, at most 1 << LIMIT_DCI_ERRORED_LOG; 0: it has no
 * streams. */
int dc_initiator_create(struct pd *pd, const struct qp_attr *attr, uint32_t errored,
			struct tqp **out);
/* Stream @id is usable again. EINVAL: it was not in error; EOPNOTSUPP: not in RTS. */
int dc_initiator_stream_reset(struct tqp *q, uint16_t id);
