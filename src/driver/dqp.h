// SPDX-License-Identifier: MIT
/* Queue pair, the driver's half: ring memory, cursors, wr_ids. Work reaches the device by rings,
 * doorbell records and engine/doorbell.h alone; life and state of the device's half are
 * engine/qp_life.h's.
 * Locking: sq.lock guards the SQ cursors and the builder, from ibv_wr_start() to ibv_wr_complete();
 * rq.lock guards the RQ cursors. Both are leaves and are released before the doorbell. */
#pragma once
#include "driver/account.h"
#include "driver/objects.h"
#include "driver/ring_memory.h"
#include "engine/qp_life.h"
#include "engine/unrung.h"
#include "xrc/xrc_target.h"

struct sq_slot {
	uint64_t wr_id; /* first: qp.sq_ids */
	uint32_t head; /* sq.head before it was posted */
	uint8_t op; /* enum ibv_wc_opcode, which not every CQE tells (docs/design/completions.md) */
};

struct dqp_sq {
	struct spin lock;
	uint8_t *buf; /* the ring */
	uint32_t cnt; /* basic blocks of the ring; a power of two */
	uint32_t head; /* WQEs posted */
	uint32_t tail; /* WQEs completed; stored by polling (A), loaded by posting (A) */
	uint32_t pi; /* blocks posted */
	uint32_t max_wr; /* WQEs, as granted */
	struct sq_slot *slot; /* by the WQE's first block */
};

struct dqp_rq {
	struct spin lock;
	uint8_t *buf; /* the ring */
	uint32_t cnt, stride; /* WQEs of the ring, a power of two; bytes of each */
	uint32_t head, tail; /* WQEs posted; WQEs completed, (B) in posting and polling */
	uint32_t max_wr, max_sge; /* as granted */
	uint64_t *wr_id; /* by slot */
};

struct wr_build { /* the batch that is being built; under sq.lock */
	int err; /* first error of the batch, or 0 */
	uint8_t takes; /* ibv_wr_*: setters that may follow, WR_TAKES_* */
	const char *call; /* name of the program's call, for reasons */
	const void *owner; /* thread between ibv_wr_start() and ibv_wr_complete(); NULL: none */
	uint32_t pi, head; /* cursors before the batch, to which an abort goes back */
	uint8_t *ctrl; /* control segment of the WQE being built; NULL: none */
	uint8_t *seg; /* next segment; wraps at the ring's end */
	uint32_t segs; /* segments of the WQE so far */
	uint8_t *av; /* UD, XRC: place of the address vector or the SRQ number */
	bool need_av; /* the place at av is still empty, or setters are to come */
	uint8_t setters; /* with need_av: those of a UMR that are to come (wr_mkey.h) */
};

struct wr_umr;
struct dqp {
	struct ibv_qp_ex ib; /* first; its prefix is the ibv_qp */
	void (*newer[8])(void); /* NULL: functions that newer headers have behind it (wr_flush) */
	struct tqp *dev;
	uint32_t epoch;
	uint32_t uidx;
	const struct service *service; /* the device half's */
	bool sq_sig_all;
	uint16_t any_inline; /* bytes of inline data that fit behind the longest TSO headers, too */
	uint32_t max_inline, max_send_sge, max_tso_header;
	/* doorbell records: @record, @lent_record, or those of @pages; under both locks */
	uint32_t *dbrec;
	struct dqp_sq sq;
	struct dqp_rq rq;
	struct wr_build build;
	uint32_t async_delivered; /* events taken; account.h */
	struct xrc_handle handle; /* XRC_RECV (driver/dtarget.h) */
	struct mlx5dv_qp_ex dv; /* mlx5dv_wr_*, beside ib's ibv_wr_* */
	struct wr_umr *umr; /* UMR that is being built (wr_mkey.c); NULL until the first one */
	uint8_t inlines; /* enum qp_inlines, once the rings are laid open */
	struct unrung unrung; /* listed: the program writes its rings itself (lay_open.h) */
	uint32_t seen[2]; /* dbrec as of the last look */
	struct ring_memory sq_memory, rq_memory; /* of the rings, until they stand in @pages */
	struct ring_memory lent_record; /* until the queue pair ends; none: @record */
	struct ring_pages pages; /* of the rings, once they are laid open */
	uint32_t record[2] __attribute__((aligned(64)));
};

static inline struct dqp *to_dqp(struct ibv_qp *ib)
{
	return (struct dqp *)ib;
}

static inline size_t dqp_sq_bytes(const struct dqp *qp)
{
	return (size_t)qp->sq.cnt * WQE_BB;
}

static inline size_t dqp_rq_bytes(const struct dqp *qp)
{
	return (size_t)qp->rq.cnt * qp->rq.stride;
}

static inline struct account dqp_account(struct dqp *qp)
{
	struct ibv_qp *ib = &qp->ib.qp_base;

	return (struct account){ &ib->mutex, &ib->cond, &ib->events_completed,
				 &qp->async_delivered };
}

/* ibv_create_qp_ex's attributes with comp_mask PD, CREATE_FLAGS, SEND_OPS_FLAGS; cap is updated. */
int dqp_create(struct pd *pd, struct ibv_qp_init_attr_ex *attr, struct dqp **out);
/* Scatter to CQE, whatever the environment's MLX5_SCATTER_TO_CQE says: none, or with @allow of
 * answers too, though not all work requests are signaled. Before the queue pair is used. */
void dqp_inlines(struct dqp *qp, bool allow);
/* MLX5DV_QP_CREATE_* of @flags that are the device's. Without those of self loopback a RAW_PACKET
 * QP gets no frames of its own context, which one that the verbs have made does. Before the queue
 * pair is used. */
void dqp_dv_flags(struct dqp *qp, uint32_t flags);
struct dqp_dc {
	bool target; /* else an initiator */
	uint64_t access_key; /* of a target */
	uint32_t errored; /* streams in error that end an initiator; 0: it has none */
};
/* The same for IBV_QPT_DRIVER. */
int dqp_create_dc(struct pd *pd, struct ibv_qp_init_attr_ex *attr, const struct dqp_dc *dc,
		  struct dqp **out);
/* EINVAL: no initiator, or the stream is not in error; EOPNOTSUPP: not in RTS. */
int dqp_stream_reset(struct dqp *qp, uint16_t id);
int dqp_destroy(struct dqp *qp);
int dqp_modify(struct dqp *qp, struct ibv_qp_attr *attr,
	       int mask); /* keeps ib.state up to date; RESET drops unread CQEs */
/* In SQD: makes NOPs of the posted work requests with @wr_id that have not been started. *@n: how
 * many. EINVAL: not in SQD, or work is under way. */
int dqp_cancel(struct dqp *qp, uint64_t wr_id, unsigned int *n);
int dqp_udp_sport(struct dqp *qp, uint16_t sport); /* qp_life_udp_sport() */
int dqp_rate(struct dqp *qp, const struct ibv_qp_rate_limit_attr *attr);
int dqp_query(struct dqp *qp, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init);
int dqp_post_send(struct ibv_qp *ib, struct ibv_send_wr *wr,
		  struct ibv_send_wr **bad); /* ops entry */
/* The ops entry, for windows of type 1. On success mw->rkey is the new key. */
int dqp_bind_mw(struct ibv_qp *ib, struct ibv_mw *mw, struct ibv_mw_bind *b);
int dqp_post_recv(struct ibv_qp *ib, struct ibv_recv_wr *wr,
		  struct ibv_recv_wr **bad); /* ops entry */
/* Sets the ibv_wr_* functions (driver/wr_builder.c); those that the type lacks fail the batch. */
int wr_builder_attach(struct dqp *qp,
		      uint64_t send_ops_flags); /* EOPNOTSUPP: flags that do not work */
/* Sets the mlx5dv_wr_* functions (driver/wr_dv.c); those that are not built fail the batch. */
void wr_dv_attach(struct dqp *qp);
