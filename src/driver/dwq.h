// SPDX-License-Identifier: MIT
/* Receive work queue, the driver's half: ring memory, cursors, wr_ids. In a striding one
 * (hca/strides.h) each entry of the CQ is a completion of its own, whose wr_id is that of the
 * receive and whose byte_len is the entry's byte count, strides and all, as by libmlx5; the last of
 * them gives the slot back.
 * Locking: rq.lock guards the cursors, as in dqp.h. */
#pragma once
#include "driver/dqp.h"

struct dwq {
	struct ibv_wq ib; /* first; its mutex and cond are made by the inline ibv_create_wq() */
	struct wq *dev;
	uint32_t epoch;
	uint32_t uidx;
	struct dqp_rq rq;
	struct stride_form strides; /* dev's, which ends before the last entries are read */
	uint32_t async_delivered; /* events taken; account.h */
	uint32_t *dbrec; /* @record, @lent_record, or that of @pages; under rq.lock */
	struct ring_memory memory; /* of the ring, until it stands in @pages. Under rq.lock */
	struct ring_memory lent_record; /* until the WQ ends; none: @record */
	struct unrung unrung; /* listed: the program writes the ring itself (lay_open.h) */
	struct ring_pages pages; /* of the ring, once it is laid open */
	uint32_t record[2] __attribute__((aligned(64)));
};

static inline struct dwq *to_dwq(struct ibv_wq *ib)
{
	return (struct dwq *)ib;
}

static inline struct account dwq_account(struct dwq *wq)
{
	return (struct account){ &wq->ib.mutex, &wq->ib.cond, &wq->ib.events_completed,
				 &wq->async_delivered };
}

/* @strides: NULL: a receive takes one frame. */
int dwq_create(struct context *ctx, struct ibv_wq_init_attr *attr,
	       const struct stride_form *strides, struct dwq **out);
int dwq_destroy(struct dwq *wq); /* EBUSY while an indirection table names it */
int dwq_modify(struct dwq *wq, struct ibv_wq_attr *attr);
/* Gives back the slot that the entry @e, read as @c, completes; returns its wr_id. */
uint64_t dwq_complete(struct dwq *wq, const struct mlx5_cqe64 *e, const struct cqe *c);
