// SPDX-License-Identifier: MIT
/* A DC target (DCT): a number and an access key to which initiators connect. It has no queues:
 * each connection has a responder (dc_responder.h), which takes receives from the target's SRQ
 * and completes them by its CQ, under the target's name. It is complete in RTR.
 * Locking: target->lock guards the table and what responders read of the target; it stands above
 * node->lock. Life: responders end with the target (eqp_ops.end, eqp_ops.forget). */
#pragma once
#include "dc/dc_table.h"
#include "engine/qp_life.h"

struct dc_terms { /* what a responder takes over from its target */
	enum ibv_qp_state state;
	struct ibv_qp_attr attr;
};

struct dc_target {
	struct eqp e; /* first */
	uint64_t access_key;
	struct qp_attr make; /* how responders are made; frozen */
	pthread_mutex_t lock;
	struct dc_table table;
	struct dc_terms terms;
};

/* As ibv_create_qp() for qp_life_modify(), qp_life_query() and qp_life_destroy(). @attr has one CQ,
 * as scq and rcq, and an SRQ. */
int dc_target_create(struct pd *pd, const struct qp_attr *attr, uint64_t access_key,
		     struct tqp **out);
