// SPDX-License-Identifier: MIT
#include "driver/completion.h"
#include "driver/dqp.h"
#include "driver/dsrq_tags.h"
#include "driver/dwq.h"
#include "util/barrier.h"

static bool is_send(uint8_t opcode)
{
	return opcode == MLX5_CQE_REQ || opcode == MLX5_CQE_REQ_ERR;
}

static void complete_send(struct dqp *qp, const struct cqe *c, struct completion *d)
{
	const struct sq_slot *s = &qp->sq.slot[c->wqe_counter & (qp->sq.cnt - 1)];

	d->wr_id = s->wr_id;
	d->op = s->op;
	store_release(&qp->sq.tail, s->head + 1); /* (A) with sq_full() */
}

/* The verb and the flags of a receive, which its CQE alone tells. */
static void received(const struct cqe *c, struct completion *d)
{
	static const struct {
		uint16_t op;
		uint16_t flags;
	} map[16] = {
		[MLX5_CQE_RESP_WR_IMM] = { IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_WITH_IMM },
		[MLX5_CQE_RESP_SEND] = { IBV_WC_RECV, 0 },
		[MLX5_CQE_RESP_SEND_IMM] = { IBV_WC_RECV, IBV_WC_WITH_IMM },
		[MLX5_CQE_RESP_SEND_INV] = { IBV_WC_RECV, IBV_WC_WITH_INV },
		[MLX5_CQE_RESP_ERR] = { IBV_WC_RECV, 0 },
	};

	d->op = map[c->opcode & 15].op;
	d->wc_flags = map[c->opcode & 15].flags | (c->grh ? IBV_WC_GRH : 0) |
		      (c->csum_ok ? IBV_WC_IP_CSUM_OK : 0);
}

/* Does the CQE, of a queue pair to which frames are steered, name a flow tag? What a UD queue pair
 * receives from QP 0 is a frame: datagrams come from queue pairs with a number. */
static bool has_flow_tag(const struct dqp *qp, const struct cqe *c)
{
	return !is_send(c->opcode) && (qp->service->frames || (c->grh && !c->src_qp));
}

/* XRC: the CQE names the SRQ; the target QP may belong to another process. */
static void complete_xrc(struct dsrq *srq, const struct cqe *c, struct completion *d)
{
	received(c, d);
	d->qpn = c->qpn;
	d->raw = false;
	d->status = IBV_WC_SUCCESS;
	d->wr_id = dsrq_ring_complete(srq, c->wqe_counter);
}

static void complete_recv(struct dqp *qp, const struct cqe *c, struct completion *d)
{
	received(c, d);
	if (qp->ib.qp_base.srq) {
		d->wr_id = dsrq_ring_complete(to_dsrq(qp->ib.qp_base.srq), c->wqe_counter);
		return;
	}
	d->wr_id = qp->rq.wr_id[c->wqe_counter & (qp->rq.cnt - 1)];
	store_release(&qp->rq.tail, qp->rq.tail + 1); /* (B) with dqp_post_recv() */
}

static bool complete_tags(struct dsrq *srq, const struct cqe *c, struct completion *d)
{
	struct dsrq_done tm;

	if (!dsrq_tags_done(srq, c, &tm))
		return false;
	*d = (struct completion){
		.wr_id = tm.wr_id,
		.op = tm.op,
		.qpn = c->qpn,
		.wc_flags = tm.flags | (c->opcode == MLX5_CQE_RESP_SEND_IMM ? IBV_WC_WITH_IMM : 0),
		.status = tm.status
	};
	return true;
}

static bool complete_wq(struct dwq *wq, const struct mlx5_cqe64 *e, const struct cqe *c,
			struct completion *d)
{
	d->wr_id = dwq_complete(wq, e, c);
	d->op = IBV_WC_RECV;
	d->wc_flags = c->csum_ok ? IBV_WC_IP_CSUM_OK : 0;
	d->qpn = wq->ib.wq_num;
	d->raw = true;
	d->status = IBV_WC_SUCCESS;
	return true;
}

/* Gives the slot back to its queue. False: the object is gone, the CQE is skipped. */
static bool resolve(const struct mlx5_cqe64 *e, const struct cqe *c, struct completion *d)
{
	enum object_kind kind;
	struct dqp *qp = objects_get(c->uidx, &kind);

	if (unlikely(c->app_op) && qp && kind == OBJECT_SRQ)
		return complete_tags((void *)qp, c, d);
	if (unlikely(qp && kind == OBJECT_WQ))
		return complete_wq((struct dwq *)(void *)qp, e, c, d);
	if (!qp)
		return false;
	if (unlikely(kind != OBJECT_QP)) {
		complete_xrc((struct dsrq *)qp, c, d);
		return true;
	}
	d->wc_flags = 0;
	d->raw = unlikely(qp->service->steered) && has_flow_tag(qp, c);
	d->status = IBV_WC_SUCCESS;
	d->qpn = qp->ib.qp_base.qp_num;
	if (is_send(c->opcode))
		complete_send(qp, c, d);
	else
		complete_recv(qp, c, d);
	return true;
}

bool completion_next(struct dcq *cq, struct cqe *c, struct completion *d)
{
	for (;;) {
		const struct mlx5_cqe64 *e = dcq_ring_next(cq);

		if (!cqe_ours(e, cq->ci, cq->cnt))
			return false;
		if (unlikely(cq->compressed))
			dcq_ring_expand(cq);
		cqe_read(e, c);
		store_relaxed(&cq->ci, cq->ci + 1); /* dcq_ring_idle() */
		if (resolve(e, c, d))
			return true;
	}
}
