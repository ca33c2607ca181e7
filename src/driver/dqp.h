// SPDX-License-Identifier: MIT
/* Queue pair, the driver's half: ring memory, cursors, wr_ids, WQE writing. It touches the device
 * only through rings, doorbell records and engine/doorbell.h; life and state by engine/qp_life.h.
 * Locking: sq.lock guards the SQ cursors and the builder (held from wr_start to wr_complete),
 * rq.lock the RQ's; both are leaves that are dropped before the doorbell. */
#pragma once
#include "driver/account.h"
#include "driver/objects.h"
#include "engine/qp_life.h"
#include "engine/xrc_target.h"

struct sq_slot {
	uint64_t wr_id;
	uint32_t head; /* sq.head when it was posted */
	uint8_t op; /* enum ibv_wc_opcode: not in the CQE for UMR-based work (M33) */
};

struct dqp_sq {
	struct spin lock;
	uint8_t *buf;
	uint32_t cnt; /* basic blocks */
	uint32_t head; /* WQEs posted */
	uint32_t tail; /* WQEs completed; written by the CQ's consumer (A), read by post (A) */
	uint32_t pi; /* blocks posted */
	uint32_t max_wr;
	struct sq_slot *slot; /* by first block & (cnt - 1) */
};

struct dqp_rq {
	struct spin lock;
	uint8_t *buf;
	uint32_t cnt, stride;
	uint32_t head, tail; /* posted; completed */
	uint32_t max_wr, max_sge;
	uint64_t *wr_id;
};

struct wr_build { /* what is being built, under sq.lock */
	int err; /* first error; nothing of the batch is posted then */
	uint8_t takes; /* ibv_wr_*: WR_TAKES_*: the setters that may follow */
	const char *call; /* what the program called */
	const void *owner; /* the thread between wr_start and wr_complete; NULL none */
	uint32_t pi, head; /* where the batch started: an abort goes back */
	uint8_t *ctrl; /* of the WQE being built, NULL none */
	uint8_t *seg; /* next segment; wraps at the ring's end */
	uint32_t segs; /* segments so far */
	uint8_t *av; /* UD: the address vector's place */
	bool need_av; /* and nobody has filled it yet */
};

struct dqp {
	struct ibv_qp_ex ib; /* first; its prefix is the ibv_qp */
	struct tqp *dev;
	uint32_t epoch;
	uint32_t uidx;
	const struct service *service; /* the device half's */
	bool sq_sig_all;
	uint32_t max_inline, max_send_sge, max_tso_header;
	struct dqp_sq sq;
	struct dqp_rq rq;
	struct wr_build build;
	uint32_t async_delivered; /* events taken; account.h */
	struct xrc_handle handle; /* XRC_RECV (driver/dtarget.h) */
	uint32_t dbrec[2] __attribute__((aligned(64)));
};

static inline struct dqp *to_dqp(struct ibv_qp *ib)
{
	return (struct dqp *)ib;
}

static inline struct account dqp_account(struct dqp *qp)
{
	struct ibv_qp *ib = &qp->ib.qp_base;

	return (struct account){ &ib->mutex, &ib->cond, &ib->events_completed,
				 &qp->async_delivered };
}

/* ibv_create_qp_ex's attributes with comp_mask PD, CREATE_FLAGS, SEND_OPS_FLAGS; cap is updated. */
int dqp_create(struct pd *pd, struct ibv_qp_init_attr_ex *attr, struct dqp **out);
int dqp_destroy(struct dqp *qp);
int dqp_modify(struct dqp *qp, struct ibv_qp_attr *attr,
	       int mask); /* keeps ib.state; purges on RESET */
int dqp_rate(struct dqp *qp, const struct ibv_qp_rate_limit_attr *attr);
int dqp_query(struct dqp *qp, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init);
int dqp_post_send(struct ibv_qp *ib, struct ibv_send_wr *wr,
		  struct ibv_send_wr **bad); /* ops entry */
/* The ops entry: type 1 windows; mw->rkey is the new one when it returns 0. */
int dqp_bind_mw(struct ibv_qp *ib, struct ibv_mw *mw, struct ibv_mw_bind *b);
int dqp_post_recv(struct ibv_qp *ib, struct ibv_recv_wr *wr,
		  struct ibv_recv_wr **bad); /* ops entry */
/* Fills every function of ib that is legal for the type (driver/wr_builder.c). */
int wr_builder_attach(struct dqp *qp,
		      uint64_t send_ops_flags); /* EOPNOTSUPP: flags that do not work */
