// SPDX-License-Identifier: MIT
/* Attributes that only RAW_PACKET QPs are created with: room for TSO headers, and receive-side
 * scaling. An RSS QP spreads received frames over work queues, and has no queues and no CQs
 * itself. */
#pragma once
#include "driver/dqp.h"

#define DQP_RAW_MASK                                                                               \
	(IBV_QP_INIT_ATTR_MAX_TSO_HEADER | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH)

static inline bool dqp_is_rss(const struct ibv_qp_init_attr_ex *a)
{
	return a->comp_mask & IBV_QP_INIT_ATTR_IND_TABLE;
}

/* Segments that @bytes of inline headers take behind the Ethernet segment, in whose last 2 bytes
 * they begin. */
static inline uint32_t dqp_tso_segs(uint32_t bytes)
{
	return bytes > 2 ? (bytes - 2 + 15) / 16 : 0;
}

/* Checks these attributes and sets qp->max_tso_header. */
int dqp_raw_check(struct dqp *qp, const struct ibv_qp_init_attr_ex *a);
void dqp_hash(const struct ibv_qp_init_attr_ex *a, struct qp_hash *out); /* of an RSS QP */
