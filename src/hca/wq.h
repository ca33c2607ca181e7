// SPDX-License-Identifier: MIT
/* Receive work queues (ibv_create_wq) and the indirection tables by which a receive-side-scaling QP
 * spreads frames over them. A WQ is a receive queue with a CQ and a state of its own; several QPs
 * may feed it, each under its own turn. In a striding WQ a receive takes many frames (strides.h).
 * Locking: @lock guards ring and state, from the taking of a WQE until its CQE is written, so that
 * completions have the ring's order. Order of locks: turn, @lock, the CQ's producer lock. Tables
 * are frozen.
 * References: a table keeps one on each of its WQs, a QP on its table. */
#pragma once
#include "hca/strides.h"

struct wq {
	struct pd *pd;
	struct cq *cq;
	uint32_t epoch;
	uint32_t wqn;
	uint32_t uidx; /* the driver's object index, in CQEs */
	struct spin lock; /* guards state, flags, rq and the WQE in hand */
	enum ibv_wq_state state;
	uint32_t flags; /* IBV_WQ_FLAGS_* */
	struct rq rq;
	struct strides strides; /* its form is frozen; the rest under lock */
	void *user; /* struct ibv_wq * */
	uint32_t refs; /* atomic: entries of tables */
};

struct wq_attr {
	struct cq *cq;
	struct rq_ring rq;
	struct stride_form strides;
	uint32_t flags, uidx;
	void *user;
};

int wq_create(struct pd *pd, const struct wq_attr *attr, struct wq **out);
int wq_destroy(struct wq *wq); /* EBUSY while a table names it */
/* As ibv_modify_wq(). *reset: the WQ has moved to RESET, so the driver's cursors start at 0. */
int wq_modify(struct wq *wq, const struct ibv_wq_attr *attr, bool *reset);
static inline bool wq_strides(const struct wq *wq)
{
	return wq->strides.form.size_log;
}

/* Another ring of the same size and content, and another record, take the place of the old ones. */
void wq_switch(struct wq *wq, const struct rq_ring *ring);
/* The WQ may have new WQEs: in ERR they are flushed. The caller has stored their count by
 * store_fenced(), or calls it again and again. */
void wq_doorbell(struct wq *wq);

/* The WQ has failed: it goes to ERR and its WQEs are flushed. Under its lock; the caller raises the
 * event after it. */
void wq_stop(struct wq *wq);

struct rwq_table {
	struct ibv_rwq_ind_table ib; /* first */
	struct context *ctx;
	uint32_t epoch;
	uint32_t refs; /* atomic: QPs */
	uint32_t n; /* a power of two */
	struct wq *wq[];
};

/* @wqs: 1 << log of them. */
int rwq_table_create(struct context *ctx, unsigned int log, struct wq *const *wqs,
		     struct rwq_table **out);
int rwq_table_destroy(struct rwq_table *t); /* EBUSY while a QP uses it */
