// SPDX-License-Identifier: MIT
#include "driver/lay_open.h"
#include <errno.h>
#include "driver/dcq_ring.h"
#include "driver/doorbell_page.h"
#include "driver/dsrq_ring.h"
#include "driver/dwq.h"
#include "engine/doorbell.h"
#include "hca/ah.h"
#include "hca/dm.h"
#include "obs/explain.h"
#include "util/fork.h"

#define ARM_RECORD 1 /* of the two of a CQ */
#define SOLICIT	   (1U << 24) /* in the arm record */
#define CI_MASK	   0xffffffU
#define NO_ARM	   0xffffffffU /* in the arm record: no program's, whose highest bits are 0 */

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

/* Takes the arm out of its record, so that the same may be stored again. */
static bool look_at_cq(struct unrung *u)
{
	struct dcq *cq = container_of(u, struct dcq, unrung);
	uint32_t arm = load_relaxed(&cq->dbrec[ARM_RECORD]);

	if (arm == NO_ARM)
		return false;
	arm = be32toh(xchg_acq_rel(&cq->dbrec[ARM_RECORD], NO_ARM));
	cq_arm_since(cq->dev, arm & SOLICIT, arm & CI_MASK);
	return true;
}

int lay_open_qp(struct dqp *qp, struct mlx5dv_qp *out)
{
	int err = ours(qp->epoch, "QP", qp->ib.qp_base.qp_num);
	uint8_t *page = NULL;

	if (!err && !qp->sq.buf && !qp->rq.buf && !qp->ib.qp_base.srq)
		err = refuse(EINVAL,
			     "mlx5dv_init_obj: QP 0x%x has no rings: it spreads what it receives, "
			     "or is a handle on another process' target",
			     qp->ib.qp_base.qp_num);
	err = err ? err : doorbell_page(&page);
	if (err)
		return err;
	*out = (struct mlx5dv_qp){ .dbrec = qp->dbrec,
				   .sq = { qp->sq.buf, qp->sq.cnt, WQE_BB },
				   .rq = { qp->rq.buf, qp->rq.cnt, qp->rq.cnt ? qp->rq.stride : 0 },
				   .bf = { page + DOORBELL_BLUE, 0 } };
	store_relaxed(&qp->dev->qp.inlines, qp->inlines);
	unrung_add(&qp->unrung, look_at_qp);
	return 0;
}

int lay_open_cq(struct dcq *cq, struct mlx5dv_cq *out)
{
	int err = ours(cq->epoch, "CQ", cq->dev->cqn);
	uint8_t *page = NULL;

	err = err ? err : doorbell_page(&page);
	if (err)
		return err;
	*out = (struct mlx5dv_cq){ .buf = cq->buf,
				   .dbrec = cq->dbrec,
				   .cqe_cnt = cq->cnt,
				   .cqe_size = (uint32_t)cq->cqe_size,
				   .cq_uar = page,
				   .cqn = cq->dev->cqn };
	if (!unrung_is(&cq->unrung))
		store_relaxed(&cq->dbrec[ARM_RECORD], NO_ARM);
	cq_lay_open(cq->dev);
	unrung_add(&cq->unrung, look_at_cq);
	return 0;
}

int lay_open_srq(struct dsrq *srq, struct mlx5dv_srq *out)
{
	int err = ours(srq->epoch, "SRQ", srq->ib.handle);

	if (err)
		return err;
	*out = (struct mlx5dv_srq){ .buf = srq->buf,
				    .dbrec = srq->dbrec,
				    .stride = srq->stride,
				    .head = srq->head,
				    .tail = srq->tail,
				    .comp_mask = out->comp_mask & MLX5DV_SRQ_MASK_SRQN,
				    .srqn = srq->dev->srqn };
	unrung_add(&srq->unrung, look_at_srq);
	return 0;
}

/* Frames that find no receive are dropped, so nobody waits for the record. */
int lay_open_wq(struct dwq *wq, struct mlx5dv_rwq *out)
{
	int err = ours(wq->epoch, "WQ", wq->ib.wq_num);

	if (err)
		return err;
	*out = (struct mlx5dv_rwq){ .buf = wq->rq.buf,
				    .dbrec = wq->dbrec,
				    .wqe_cnt = wq->rq.cnt,
				    .stride = wq->rq.stride };
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
