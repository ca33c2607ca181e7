// SPDX-License-Identifier: MIT
/* Writing send WQEs: the steps that ibv_post_send() and the ibv_wr_* API share. All run under
 * sq.lock, between wqe_batch_begin() and wqe_batch_end(). Segments have 16 bytes and go on at the
 * ring's start where it ends. The first error of a batch stays in qp->build.err, and later steps do
 * nothing. */
#pragma once
#include "driver/dqp.h"

enum { /* setters that an operation of the ibv_wr_* API takes, each once */
       WR_TAKES_SGES = 1,
       WR_TAKES_INLINE = 2,
       WR_TAKES_DATA = WR_TAKES_SGES | WR_TAKES_INLINE,
       WR_TAKES_AH = 4,
};

struct wqe_head {
	uint64_t wr_id;
	unsigned int send_flags; /* IBV_SEND_* */
	uint8_t opcode; /* MLX5_OPCODE_* */
	uint8_t wc_opcode; /* enum ibv_wc_opcode */
	uint32_t imm; /* as it goes to the WQE: big-endian */
	const void *hdr; /* TSO: the headers of every segment */
	uint16_t hdr_sz, mss;
};

/* Takes sq.lock; on an error it is not taken. @call names the program's call and is kept. */
int wqe_batch_begin(struct dqp *qp, const char *call);
/* The same for a batch that a thread builds by several calls (ibv_wr_start): the thread owns the
 * region until the batch ends. An error stays in the batch, which begins in any case. */
void wqe_region_begin(struct dqp *qp);
bool wqe_region_mine(const struct dqp *qp);
void wqe_region_missed(const struct dqp *qp, const char *call); /* records that it is not */
/* Is the calling thread building a batch, without an error so far? @call, for the reason if not. */
static inline bool wqe_region_open(struct dqp *qp, const char *call)
{
	if (likely(wqe_region_mine(qp)))
		return likely(!qp->build.err);
	wqe_region_missed(qp, call);
	return false;
}
/* Segments that each of the max_wr WQEs may take: together they never pass the ring. Of a QP that
 * has a send queue. */
static inline uint32_t wqe_share(const struct dqp *qp)
{
	uint32_t segs = qp->sq.cnt / qp->sq.max_wr * (WQE_BB / 16);

	return segs < WQE_MAX_SEGS ? segs : WQE_MAX_SEGS;
}
void wqe_batch_abort(struct dqp *qp); /* forgets what was built, releases the lock */
/* Publishes what was built, releases the lock and rings the doorbell. Returns the batch's first
 * error; with @keep the WQEs that were complete before it are posted nevertheless
 * (ibv_post_send). */
int wqe_batch_end(struct dqp *qp, bool keep);

void wqe_begin(struct dqp *qp, const struct wqe_head *h);
/* A WQE that the program has written itself, whole; its index and QP number are set here. */
void wqe_raw(struct dqp *qp, uint64_t wr_id, const void *wqe);
void wqe_remote(struct dqp *qp, uint64_t addr, uint32_t rkey);
void wqe_atomic(struct dqp *qp, uint64_t swap_add, uint64_t compare);
/* IBV_WR_BIND_MW, before it begins: is @mw a window of type 2, the only ones that work requests
 * bind? */
bool wqe_may_bind(struct dqp *qp, uint64_t wr_id, const struct ibv_mw *mw);
/* ibv_bind_mw and IBV_WR_BIND_MW: @rkey is the window's key from now on. */
void wqe_bind(struct dqp *qp, const struct ibv_mw *mw, uint32_t rkey,
	      const struct ibv_mw_bind_info *info);
void wqe_datagram(struct dqp *qp, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey);
void wqe_dc(struct dqp *qp, struct ibv_ah *ah, uint32_t dctn, uint64_t access_key);
void wqe_xrc(struct dqp *qp, uint32_t srqn);
void wqe_sge_list(struct dqp *qp, const struct ibv_sge *sg, size_t n);
void wqe_inline(struct dqp *qp, const struct ibv_data_buf *bufs, size_t n);
void wqe_inline_always(struct dqp *qp, const struct ibv_data_buf *buf); /* 8 B: fits any WQE */
void wqe_inline_sges(struct dqp *qp, const struct ibv_sge *sg, size_t n);
/* Segments that the caller has built, of @len bytes; they fit. */
void wqe_append(struct dqp *qp, const void *segs, size_t len);
void wqe_finish(struct dqp *qp); /* the WQE is complete */
uint64_t wqe_wr_id(const struct dqp *qp); /* of the WQE that is being written; 0: none is */
