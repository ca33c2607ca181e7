// SPDX-License-Identifier: MIT
#include "driver/dcq_ring.h"
#include "driver/dqp.h"
#include "driver/dsrq_ring.h"

__thread char dcq_ring_self __attribute__((tls_model("initial-exec")));

void dcq_ring_set(struct dcq *cq, uint8_t *buf, uint32_t cnt)
{
	cq->buf = buf;
	cq->first = buf + cq->cqe_size - sizeof(struct mlx5_cqe64);
	cq->cnt = cnt;
}

/* Out of line: few queues compress. */
__attribute__((noinline)) void dcq_ring_expand(const struct dcq *cq)
{
	struct cqe_ring ring = dcq_ring_now(cq);

	if (cqe_is_title(dcq_ring_next(cq)))
		cqe_session_expand(&ring, cq->ci, cq->compressed);
}

static void give_back(const struct cqe *c)
{
	enum object_kind kind;
	struct dqp *qp = objects_get(c->uidx, &kind);

	if (qp && kind == OBJECT_QP && qp->ib.qp_base.srq && c->opcode != MLX5_CQE_REQ &&
	    c->opcode != MLX5_CQE_REQ_ERR)
		dsrq_ring_complete(to_dsrq(qp->ib.qp_base.srq), c->wqe_counter);
}

/* The number of the first entry that the device has not written yet. The device may write it at any
 * time; the entries before it are the consumer's, and none is compressed any more. */
static uint32_t end(const struct dcq *cq, const struct cqe_ring *ring)
{
	uint32_t i = cq->ci;

	while (i - cq->ci < cq->cnt && cqe_ours(cqe_ring_at(ring, i), i, cq->cnt)) {
		if (cqe_is_title(cqe_ring_at(ring, i)))
			cqe_session_expand(ring, i, cq->compressed);
		i++;
	}
	return i;
}

/* From the newest entry to the oldest: entries that stay move up over those that go. Returns how
 * many these are. */
static uint32_t sweep(struct dcq *cq, uint32_t uidx)
{
	const struct cqe_ring ring = dcq_ring_now(cq);
	uint32_t gone = 0;

	for (uint32_t i = end(cq, &ring); i-- != cq->ci;) {
		struct cqe c;

		cqe_read(cqe_ring_at(&ring, i), &c);
		if (c.uidx == uidx) {
			give_back(&c);
			gone++;
		} else if (gone) {
			cqe_ring_move(&ring, i, i + gone);
		}
	}
	return gone;
}

void dcq_ring_purge(struct dcq *cq, uint32_t uidx)
{
	cq_let_go(cq->dev); /* the QPs of other turns complete receives of a work queue, too */
	dcq_ring_lock(cq);
	if (likely(!cq->told)) {
		store_relaxed(&cq->ci, cq->ci + sweep(cq, uidx));
		dcq_ring_publish(cq);
	}
	dcq_ring_unlock(cq);
}

void dcq_ring_settle(struct dcq *cq)
{
	if (likely(!load_relaxed(&cq->told)))
		return; /* no entry was left */
	dcq_ring_lock(cq);
	dcq_ring_unlock(cq);
}
