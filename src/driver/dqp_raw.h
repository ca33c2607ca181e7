// SPDX-License-Identifier: MIT
/* What of a queue pair's creation only RAW_PACKET has: room for TSO headers, and the QPs that
 * spread what they receive over work queues (RSS) and have no queues and no CQs of their own. */
#pragma once
#include "driver/dqp.h"

#define DQP_RAW_MASK                                                                               \
	(IBV_QP_INIT_ATTR_MAX_TSO_HEADER | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH)

static inline bool dqp_is_rss(const struct ibv_qp_init_attr_ex *a)
{
	return a->comp_mask & IBV_QP_INIT_ATTR_IND_TABLE;
}

/* Segments of a send WQE that @bytes of inline headers take behind their Ethernet segment. */
static inline uint32_t dqp_tso_segs(uint32_t bytes)
{
	return bytes > 2 ? (bytes - 2 + 15) / 16 : 0;
}

/* Checks those attributes and sets qp->max_tso_header. */
int dqp_raw_check(struct dqp *qp, const struct ibv_qp_init_attr_ex *a);
void dqp_hash(const struct ibv_qp_init_attr_ex *a, struct qp_hash *out); /* of an RSS QP */
