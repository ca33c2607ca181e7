// SPDX-License-Identifier: MIT
#include "driver/lay_open.h"
#include <errno.h>
#include <string.h>
#include "driver/arms.h"
#include "driver/doorbell_page.h"
#include "driver/dsrq_ring.h"
#include "driver/dwq.h"
#include "driver/ring_memory.h"
#include "driver/wqe_build.h"
#include "engine/doorbell.h"
#include "hca/ah.h"
#include "hca/dm.h"
#include "hca/wq.h"
#include "obs/explain.h"
#include "util/fork.h"

static int ours(uint32_t epoch, const char *what, uint32_t number)
{
	if (fork_is_ours(epoch))
		return 0;
	return refuse(EIO, "mlx5dv_init_obj: %s 0x%x was made before fork(); make a new one", what,
		      number);
}

/* The acquire pairs with the program's barrier between the WQEs and the record. */
static bool moved(const uint32_t *record, uint32_t *seen)
{
	uint32_t now = load_acquire(record);
	bool other = now != *seen;

	*seen = now;
	return other;
}

static bool look_at_qp(struct unrung *u)
{
	struct dqp *qp = container_of(u, struct dqp, unrung);
	bool rq = moved(&qp->dbrec[MLX5_RCV_DBR], &qp->seen[MLX5_RCV_DBR]);
	bool waits = load_relaxed(&qp->dev->rnr_waiting);
	bool sq = moved(&qp->dbrec[MLX5_SND_DBR], &qp->seen[MLX5_SND_DBR]);

	if (rq) {
		full_fence(); /* as doorbell_rq() asks for */
		doorbell_rq(qp->dev);
	}
	if (sq)
		doorbell_sq(qp->dev);
	/* Where stores ring, only a sender that waits for a receive has a use for the next look. */
	return doorbell_page_rings() ? waits : rq || sq;
}

static bool look_at_srq(struct unrung *u)
{
	struct dsrq *srq = container_of(u, struct dsrq, unrung);

	if (!moved(&srq->dbrec[0], &srq->seen))
		return false;
	return doorbell_srq(srq->dev) || !doorbell_page_rings();
}

/* Frames that find no receive are dropped, so nobody waits for the record of a work queue; but what
 * is posted in ERR is flushed. */
static bool look_at_wq(struct unrung *u)
{
	wq_doorbell(container_of(u, struct dwq, unrung)->dev);
	return false;
}

static bool look_at_cq(struct unrung *u)
{
	return arms_take(container_of(u, struct dcq, unrung));
}

/* --- rings in pages of their own --- */

struct move {
	struct dqp *qp;
	struct ring_pages to; /* none afterwards, if it was used */
	struct ring_memory sq, rq; /* of the rings before; none if they stay */
};

static struct ring_memory take(struct ring_memory *m)
{
	struct ring_memory was = *m;

	*m = (struct ring_memory){ 0 };
	return was;
}

static void record_copy(const struct ring_pages *to, const uint32_t *from)
{
	to->record[0] = load_relaxed(&from[0]);
	to->record[1] = load_relaxed(&from[1]);
}

static void ring_copy(uint8_t *to, const uint8_t *from, size_t size)
{
	if (size)
		memcpy(to, from, size);
}

/* The receive queue comes first, as in libmlx5. */
static size_t sq_offset(const struct dqp *qp)
{
	return (dqp_rq_bytes(qp) + WQE_BB - 1) & ~(size_t)(WQE_BB - 1);
}

/* Under the locks of both queues and the turn. */
static void move_rings(struct qp *dev, struct move *m)
{
	struct dqp *qp = m->qp;

	m->rq = take(&qp->rq_memory);
	m->sq = take(&qp->sq_memory);
	ring_copy(m->to.at, qp->rq.buf, dqp_rq_bytes(qp));
	ring_copy(m->to.at + sq_offset(qp), qp->sq.buf, dqp_sq_bytes(qp));
	record_copy(&m->to, qp->dbrec);
	qp->rq.buf = qp->rq.cnt ? m->to.at : NULL;
	qp->sq.buf = qp->sq.cnt ? m->to.at + sq_offset(qp) : NULL;
	qp->dbrec = m->to.record;
	dev->sq.buf = qp->sq.buf;
	dev->rq.ring.buf = qp->rq.buf;
	dev->sq.dbrec = &qp->dbrec[MLX5_SND_DBR];
	dev->rq.ring.dbrec = &qp->dbrec[MLX5_RCV_DBR];
	qp->pages = m->to;
	m->to.at = NULL;
}

static void move_still(struct qp *dev, void *arg)
{
	struct move *m = arg;
	struct dqp *qp = m->qp;

	spin_lock(&qp->sq.lock);
	spin_lock(&qp->rq.lock);
	dev->laid_open = true;
	if (m->to.at && !qp->pages.at)
		move_rings(dev, m);
	spin_unlock(&qp->rq.lock);
	spin_unlock(&qp->sq.lock);
}

static int apart_qp(struct dqp *qp)
{
	struct move m = { .qp = qp };

	if (wqe_region_mine(qp))
		return refuse(EINVAL,
			      "mlx5dv_init_obj: this thread is between ibv_wr_start and "
			      "ibv_wr_complete on QP 0x%x; end that first",
			      qp->ib.qp_base.qp_num);
	if (qp->pages.at)
		return 0;
	if (!qp->sq_memory.from && !qp->rq_memory.from &&
	    ring_pages_make(sq_offset(qp) + dqp_sq_bytes(qp), &m.to))
		return refuse_memory("mlx5dv_init_obj", sq_offset(qp) + dqp_sq_bytes(qp));
	qp_life_still(qp->dev, move_still, &m);
	ring_memory_free(&m.sq);
	ring_memory_free(&m.rq);
	ring_pages_free(&m.to);
	return 0;
}

/* Not if all entries are unread, since cq_switch() leaves one free. */
static void move_cq(struct dcq *cq, struct ring_pages *to, struct ring_memory *old)
{
	struct cqe_ring ring = { to->at, cq->cnt, (uint32_t)cq->cqe_size };

	record_copy(to, cq->dbrec);
	if (cq_switch(cq->dev, &ring, to->record, cq->ci) >= ring.cnt)
		return;
	*old = take(&cq->memory);
	dcq_ring_set(cq, to->at, cq->cnt);
	cq->dbrec = to->record;
	cq->pages = *to;
	to->at = NULL;
}

static bool cq_moves(const struct dcq *cq)
{
	return !cq->pages.at && !cq->told && !cq->memory.from;
}

/* The ring has the same size until open_ends_cq(). Returns the bytes that are to move. */
static size_t open_begins_cq(struct dcq *cq)
{
	size_t size;

	dcq_ring_lock(cq);
	cq->opening++;
	size = cq_moves(cq) ? cq->cnt * cq->cqe_size : 0;
	dcq_ring_unlock(cq);
	return size;
}

static void open_ends_cq(struct dcq *cq)
{
	dcq_ring_lock(cq);
	cq->opening--;
	dcq_ring_unlock(cq);
}

static int apart_cq(struct dcq *cq, size_t size)
{
	struct ring_memory old = { 0 };
	struct ring_pages to;

	if (!size)
		return 0;
	if (ring_pages_make(size, &to))
		return refuse_memory("mlx5dv_init_obj", size);
	cqe_init(to.at, cq->cnt, (uint32_t)cq->cqe_size);
	dcq_ring_lock(cq);
	if (cq_moves(cq))
		move_cq(cq, &to, &old);
	dcq_ring_unlock(cq);
	ring_memory_free(&old);
	ring_pages_free(&to);
	return 0;
}

static bool srq_moves(const struct dsrq *srq)
{
	return !srq->pages.at && !srq->memory.from;
}

/* As open_begins_cq(). */
static size_t open_begins_srq(struct dsrq *srq)
{
	size_t size;

	spin_lock(&srq->lock);
	srq->opening++;
	size = srq_moves(srq) ? (size_t)srq->cnt * srq->stride : 0;
	spin_unlock(&srq->lock);
	return size;
}

static void open_ends_srq(struct dsrq *srq)
{
	spin_lock(&srq->lock);
	srq->opening--;
	spin_unlock(&srq->lock);
}

static int apart_srq(struct dsrq *srq, size_t size)
{
	struct ring_memory old = { 0 };
	struct ring_pages to;

	if (!size)
		return 0;
	if (ring_pages_make(size, &to))
		return refuse_memory("mlx5dv_init_obj", size);
	spin_lock(&srq->lock);
	if (srq_moves(srq)) {
		struct rq_ring ring = { to.at, srq->cnt, srq->stride, to.record };

		old = take(&srq->memory);
		ring_copy(to.at, srq->buf, size);
		record_copy(&to, srq->dbrec);
		srq_switch(srq->dev, &ring, false);
		srq->buf = to.at;
		srq->dbrec = to.record;
		srq->pages = to;
		to.at = NULL;
	}
	spin_unlock(&srq->lock);
	ring_memory_free(&old);
	ring_pages_free(&to);
	return 0;
}

static int apart_wq(struct dwq *wq)
{
	size_t size = (size_t)wq->rq.cnt * wq->rq.stride;
	struct ring_memory old = { 0 };
	struct ring_pages to;

	if (wq->pages.at || wq->memory.from)
		return 0;
	if (ring_pages_make(size, &to))
		return refuse_memory("mlx5dv_init_obj", size);
	spin_lock(&wq->rq.lock);
	if (!wq->pages.at) {
		struct rq_ring ring = { to.at, wq->rq.cnt, wq->rq.stride,
					&to.record[MLX5_RCV_DBR] };

		old = take(&wq->memory);
		ring_copy(to.at, wq->rq.buf, size);
		record_copy(&to, wq->dbrec);
		wq_switch(wq->dev, &ring);
		wq->rq.buf = to.at;
		wq->dbrec = to.record;
		wq->pages = to;
		to.at = NULL;
	}
	spin_unlock(&wq->rq.lock);
	ring_memory_free(&old);
	ring_pages_free(&to);
	return 0;
}

/* --- what is told --- */

int lay_open_qp(struct dqp *qp, struct mlx5dv_qp *out)
{
	int err = ours(qp->epoch, "QP", qp->ib.qp_base.qp_num);
	uint8_t *page = NULL;

	if (!err && !qp->sq.buf && !qp->rq.buf && !qp->ib.qp_base.srq)
		err = refuse(EINVAL,
			     "mlx5dv_init_obj: QP 0x%x has no rings: it spreads what it receives, "
			     "or is a handle on another process' target; use its work queues, or "
			     "the QP that was created",
			     qp->ib.qp_base.qp_num);
	err = err ? err : doorbell_page(&page);
	err = err ? err : apart_qp(qp);
	if (err)
		return err;
	*out = (struct mlx5dv_qp){ .dbrec = qp->dbrec,
				   .sq = { qp->sq.buf, qp->sq.cnt, WQE_BB },
				   .rq = { qp->rq.buf, qp->rq.cnt, qp->rq.cnt ? qp->rq.stride : 0 },
				   .bf = { page + DOORBELL_BLUE, 0 } };
	store_relaxed(&qp->dev->qp.inlines,
		      (uint8_t)(qp->inlines | (qp->dev->qp.inlines & QP_COMPRESSES)));
	unrung_add(&qp->unrung, look_at_qp);
	return 0;
}

static void tell_cq(struct dcq *cq, uint8_t *page, struct mlx5dv_cq *out)
{
	struct mlx5dv_cq told;

	dcq_ring_lock(cq);
	told = (struct mlx5dv_cq){ .buf = cq->buf,
				   .dbrec = cq->dbrec,
				   .cqe_cnt = cq->cnt,
				   .cqe_size = (uint32_t)cq->cqe_size,
				   .cq_uar = page,
				   .cqn = cq->dev->cqn };
	if (!cq->told) /* a thread that was told earlier may have armed it since */
		arms_none(cq);
	store_relaxed(&cq->told, true);
	dcq_ring_unlock(cq);
	*out = told;
	cq_lay_open(cq->dev);
	unrung_add(&cq->unrung, look_at_cq);
	arms_add(cq);
}

int lay_open_cq(struct dcq *cq, struct mlx5dv_cq *out)
{
	int err = ours(cq->epoch, "CQ", cq->dev->cqn);
	uint8_t *page = NULL;

	err = err ? err : doorbell_page(&page);
	if (err)
		return err;
	err = apart_cq(cq, open_begins_cq(cq));
	if (!err)
		tell_cq(cq, page, out);
	open_ends_cq(cq);
	return err;
}

static void tell_srq(struct dsrq *srq, struct mlx5dv_srq *out)
{
	spin_lock(&srq->lock);
	srq->told = true;
	spin_unlock(&srq->lock);
	*out = (struct mlx5dv_srq){ .buf = srq->buf,
				    .dbrec = srq->dbrec,
				    .stride = srq->stride,
				    .head = srq->head,
				    .tail = srq->tail,
				    .comp_mask = out->comp_mask & MLX5DV_SRQ_MASK_SRQN,
				    .srqn = srq->dev->srqn };
	unrung_add(&srq->unrung, look_at_srq);
}

int lay_open_srq(struct dsrq *srq, struct mlx5dv_srq *out)
{
	int err = ours(srq->epoch, "SRQ", srq->ib.handle);

	if (err)
		return err;
	err = apart_srq(srq, open_begins_srq(srq));
	if (!err)
		tell_srq(srq, out);
	open_ends_srq(srq);
	return err;
}

int lay_open_wq(struct dwq *wq, struct mlx5dv_rwq *out)
{
	int err = ours(wq->epoch, "WQ", wq->ib.wq_num);

	err = err ? err : apart_wq(wq);
	if (err)
		return err;
	*out = (struct mlx5dv_rwq){ .buf = wq->rq.buf,
				    .dbrec = wq->dbrec,
				    .wqe_cnt = wq->rq.cnt,
				    .stride = wq->rq.stride };
	unrung_add(&wq->unrung, look_at_wq);
	return 0;
}

int lay_open_dm(struct dm *dm, struct mlx5dv_dm *out)
{
	void *p;
	uint64_t len;
	int err = dm_mapping(dm, &p, &len);

	if (!err)
		*out = (struct mlx5dv_dm){ .buf = p, .length = len };
	return err;
}

int lay_open_ah(struct ah *ah, struct mlx5dv_ah *out)
{
	*out = (struct mlx5dv_ah){ .av = &ah->wire };
	return 0;
}
