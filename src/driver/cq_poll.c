// SPDX-License-Identifier: MIT
#include "driver/cq_poll.h"
#include <errno.h>
#include <string.h>
#include "driver/dqp.h"
#include "driver/dsrq_tags.h"
#include "driver/dwq.h"
#include "engine/doorbell.h"
#include "obs/explain.h"
#include "util/barrier.h"
#include "util/be.h"
#include "util/clock.h"
#include "util/fork.h"

/* its address names this thread */
static __thread char self __attribute__((tls_model("initial-exec")));

/* What a CQE says about the work request it completes. */
struct done {
	uint64_t wr_id;
	enum ibv_wc_opcode op;
	uint32_t qpn;
	uint32_t wc_flags;
	enum ibv_wc_status status; /* where the syndrome does not say it */
	bool raw; /* a frame: the CQE has a flow tag where others have the QPN */
};

static bool is_send(uint8_t opcode)
{
	return opcode == MLX5_CQE_REQ || opcode == MLX5_CQE_REQ_ERR;
}

static void complete_send(struct dqp *qp, const struct cqe *c, struct done *d)
{
	const struct sq_slot *s = &qp->sq.slot[c->wqe_counter & (qp->sq.cnt - 1)];

	d->wr_id = s->wr_id;
	d->op = s->op;
	store_release(&qp->sq.tail, s->head + 1); /* (A) with sq_full() */
}

/* What a receive's CQE says for itself. */
static void received(const struct cqe *c, struct done *d)
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

/* XRC: the CQE names the SRQ; the target QP may be nobody's of this process. */
static void complete_xrc(struct dsrq *srq, const struct cqe *c, struct done *d)
{
	received(c, d);
	d->qpn = c->qpn;
	d->raw = false;
	d->status = IBV_WC_SUCCESS;
	d->wr_id = dsrq_complete(srq, c->wqe_counter);
}

static void complete_recv(struct dqp *qp, const struct cqe *c, struct done *d)
{
	received(c, d);
	if (qp->ib.qp_base.srq) {
		d->wr_id = dsrq_complete(to_dsrq(qp->ib.qp_base.srq), c->wqe_counter);
		return;
	}
	d->wr_id = qp->rq.wr_id[c->wqe_counter & (qp->rq.cnt - 1)];
	store_release(&qp->rq.tail, qp->rq.tail + 1); /* (B) with dqp_post_recv() */
}

static bool complete_tags(struct dsrq *srq, const struct cqe *c, struct done *d)
{
	struct dsrq_done tm;

	if (!dsrq_tags_done(srq, c, &tm))
		return false;
	*d = (struct done){ .wr_id = tm.wr_id,
			    .op = tm.op,
			    .qpn = c->qpn,
			    .wc_flags = tm.flags |
					(c->opcode == MLX5_CQE_RESP_SEND_IMM ? IBV_WC_WITH_IMM : 0),
			    .status = tm.status };
	return true;
}

static bool complete_wq(struct dwq *wq, const struct cqe *c, struct done *d)
{
	d->wr_id = dwq_complete(wq, c->wqe_counter);
	d->op = IBV_WC_RECV;
	d->wc_flags = c->csum_ok ? IBV_WC_IP_CSUM_OK : 0;
	d->qpn = wq->ib.wq_num;
	d->raw = true;
	d->status = IBV_WC_SUCCESS;
	return true;
}

/* Credits the queue. false: the object is gone, the CQE is skipped. */
static bool resolve(const struct cqe *c, struct done *d)
{
	enum object_kind kind;
	struct dqp *qp = objects_get(c->uidx, &kind);

	if (unlikely(c->app_op) && qp && kind == OBJECT_SRQ)
		return complete_tags((void *)qp, c, d);
	if (unlikely(qp && kind == OBJECT_WQ))
		return complete_wq((struct dwq *)(void *)qp, c, d);
	if (!qp)
		return false;
	if (unlikely(kind != OBJECT_QP)) {
		complete_xrc((struct dsrq *)qp, c, d);
		return true;
	}
	d->wc_flags = 0;
	d->raw = qp->type == IBV_QPT_RAW_PACKET && !is_send(c->opcode);
	d->status = IBV_WC_SUCCESS;
	d->qpn = qp->ib.qp_base.qp_num;
	if (is_send(c->opcode))
		complete_send(qp, c, d);
	else
		complete_recv(qp, c, d);
	return true;
}

/* Takes the next CQE; false: none. Under cq->lock. */
static bool next(struct dcq *cq, struct cqe *c, struct done *d)
{
	for (;;) {
		const struct mlx5_cqe64 *e =
			(const struct mlx5_cqe64 *)cq->buf + (cq->ci & (cq->cnt - 1));

		if (!cqe_ours(e, cq->ci, cq->cnt))
			return false;
		cqe_read(e, c);
		store_relaxed(&cq->ci, cq->ci + 1); /* idle() */
		if (resolve(c, d))
			return true;
	}
}

/* Most polls find nothing, and need no lock for it. Who has armed the CQ since sees every entry
 * that came before: cq_arm() takes the producer's lock. */
static bool idle(const struct dcq *cq)
{
	return load_relaxed(&cq->dev->pi) == load_relaxed(&cq->ci);
}

/* What waits in the CQ goes to the program before more comes in: receives that it posts again are
 * there then, which UC and UD need. */
static bool look(const struct dcq *cq)
{
	progress();
	return !idle(cq);
}

static bool polling(const struct dcq *cq)
{
	return load_relaxed(&cq->poller) == &self;
}

void dcq_lock(struct dcq *cq)
{
	if (!polling(cq))
		spin_lock(&cq->lock);
}

void dcq_unlock(struct dcq *cq)
{
	if (!polling(cq))
		spin_unlock(&cq->lock);
}

static void publish_ci(struct dcq *cq)
{
	store_release(&cq->dbrec[0], htobe32(cq->ci & 0xffffff)); /* (C) with cq_push() */
}

static void fill(const struct cqe *c, const struct done *d, struct ibv_wc *wc)
{
	wc->wr_id = d->wr_id;
	wc->opcode = d->op;
	wc->qp_num = d->qpn;
	wc->vendor_err = c->vendor_err;
	wc->status = c->syndrome ? cqe_status(c->syndrome) : d->status;
	wc->byte_len = c->byte_cnt;
	if (d->wc_flags & IBV_WC_WITH_INV)
		wc->invalidated_rkey = be32toh(c->imm);
	else
		wc->imm_data = c->imm;
	wc->src_qp = c->src_qp;
	wc->wc_flags = d->wc_flags;
	wc->pkey_index = 0;
	wc->slid = 0;
	wc->sl = c->sl;
	wc->dlid_path_bits = 0;
}

int dcq_poll(struct ibv_cq *ib, int n, struct ibv_wc *wc)
{
	struct dcq *cq = to_dcq(ib);
	struct done d;
	struct cqe c;
	bool nested = false;
	int got = 0;

	if (!fork_is_ours(cq->epoch))
		return -refuse(EIO, "ibv_poll_cq: CQ 0x%x was made before fork(); make a new one",
			       cq->dev->cqn);
	if (idle(cq) && !look(cq))
		return 0;
	if (unlikely(!spin_trylock(&cq->lock))) {
		nested = polling(cq);
		dcq_lock(cq);
	}
	while (got < n && next(cq, &c, &d))
		fill(&c, &d, &wc[got++]);
	if (got)
		publish_ci(cq);
	if (likely(!nested))
		spin_unlock(&cq->lock);
	return got;
}

int dcq_arm(struct ibv_cq *ib, int solicited_only)
{
	struct dcq *cq = to_dcq(ib);

	if (!fork_is_ours(cq->epoch))
		return refuse(EIO,
			      "ibv_req_notify_cq: CQ 0x%x was made before fork(); make a new one",
			      cq->dev->cqn);
	cq_arm(cq->dev, solicited_only != 0);
	return 0;
}

/* --- the ibv_cq_ex readers: they describe cq->cur, also after ibv_end_poll() --- */

static inline struct dcq *ex(struct ibv_cq_ex *ib)
{
	return (struct dcq *)ib;
}

static int ex_advance(struct dcq *cq)
{
	struct done d;

	if (!next(cq, &cq->cur, &d))
		return ENOENT;
	cq->ib.wr_id = d.wr_id;
	cq->ib.status = cq->cur.syndrome ? cqe_status(cq->cur.syndrome) : d.status;
	cq->cur_op = d.op;
	cq->cur_flags = d.wc_flags;
	cq->cur_qpn = d.qpn;
	cq->cur_raw = d.raw;
	return 0;
}

static int ex_start_poll(struct ibv_cq_ex *ib, struct ibv_poll_cq_attr *attr)
{
	struct dcq *cq = ex(ib);
	int err;

	if (attr->comp_mask)
		return refuse(EINVAL, "ibv_start_poll: comp_mask 0x%x, nothing is defined; pass 0",
			      attr->comp_mask);
	if (unlikely(polling(cq)))
		return refuse(EINVAL,
			      "ibv_start_poll: this thread is polling CQ 0x%x already; "
			      "ibv_next_poll goes on, ibv_end_poll ends it",
			      cq->dev->cqn);
	if (!fork_is_ours(cq->epoch))
		return refuse(EIO, "ibv_start_poll: CQ 0x%x was made before fork(); make a new one",
			      cq->dev->cqn);
	if (idle(cq) && !look(cq))
		return ENOENT;
	if (!cq->single)
		spin_lock(&cq->lock);
	err = ex_advance(cq);
	if (!err)
		store_relaxed(&cq->poller, (const void *)&self);
	else if (!cq->single)
		spin_unlock(&cq->lock);
	if (!err && cq->wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
		cq->wall = clock_wall_offset();
	return err;
}

static int ex_next_poll(struct ibv_cq_ex *ib)
{
	struct dcq *cq = ex(ib);

	if (unlikely(!polling(cq)))
		return refuse(EINVAL,
			      "ibv_next_poll: this thread is not polling CQ 0x%x; "
			      "ibv_start_poll comes first",
			      cq->dev->cqn);
	return ex_advance(cq);
}

/* Harmless after a start_poll that found nothing. */
static void ex_end_poll(struct ibv_cq_ex *ib)
{
	struct dcq *cq = ex(ib);

	if (!polling(cq))
		return;
	store_relaxed(&cq->poller, NULL);
	publish_ci(cq);
	if (!cq->single)
		spin_unlock(&cq->lock);
}

static enum ibv_wc_opcode ex_opcode(struct ibv_cq_ex *ib)
{
	return ex(ib)->cur_op;
}

static uint32_t ex_vendor_err(struct ibv_cq_ex *ib)
{
	return ex(ib)->cur.vendor_err;
}

static uint32_t ex_byte_len(struct ibv_cq_ex *ib)
{
	return ex(ib)->cur.byte_cnt;
}

static __be32 ex_imm_data(struct ibv_cq_ex *ib)
{
	const struct dcq *cq = ex(ib);

	return cq->cur_flags & IBV_WC_WITH_INV ? be32toh(cq->cur.imm) : cq->cur.imm;
}

static uint32_t ex_qp_num(struct ibv_cq_ex *ib)
{
	return ex(ib)->cur_qpn;
}

static uint32_t ex_src_qp(struct ibv_cq_ex *ib)
{
	return ex(ib)->cur.src_qp;
}

static unsigned int ex_wc_flags(struct ibv_cq_ex *ib)
{
	return ex(ib)->cur_flags;
}

static uint32_t ex_slid(struct ibv_cq_ex *ib __attribute__((unused)))
{
	return 0;
}

static uint8_t ex_sl(struct ibv_cq_ex *ib)
{
	return ex(ib)->cur.sl;
}

static uint16_t ex_cvlan(struct ibv_cq_ex *ib)
{
	return ex(ib)->cur.vlan;
}

static uint32_t ex_flow_tag(struct ibv_cq_ex *ib)
{
	const struct dcq *cq = ex(ib);

	return cq->cur_raw ? cq->cur.qpn : 0; /* elsewhere a QPN stands there */
}

static uint8_t ex_dlid_path_bits(struct ibv_cq_ex *ib __attribute__((unused)))
{
	return 0;
}

static void ex_tm_info(struct ibv_cq_ex *ib, struct ibv_wc_tm_info *info)
{
	const struct cqe *c = &ex(ib)->cur;

	*info = (struct ibv_wc_tm_info){ .tag = 0 };
	if (c->app_op) {
		info->tag = c->tm_tag;
		info->priv = c->tm_ctx;
	}
}

static uint64_t ex_completion_ts(struct ibv_cq_ex *ib)
{
	return ex(ib)->cur.timestamp;
}

static uint64_t ex_wallclock_ns(struct ibv_cq_ex *ib)
{
	return ex(ib)->cur.timestamp + ex(ib)->wall;
}

/* A program that reads what it has not asked for calls NULL with hardware's library. Here it gets a
 * zero and is told. */
static uint64_t unasked(struct ibv_cq_ex *ib, const char *flag)
{
	reason("CQ 0x%x: a field is read that %s did not ask for at ibv_create_cq_ex; add it to "
	       "wc_flags",
	       ex(ib)->dev->cqn, flag);
	return 0;
}

static uint64_t unasked_ts(struct ibv_cq_ex *ib)
{
	return unasked(ib, "IBV_WC_EX_WITH_COMPLETION_TIMESTAMP");
}

static uint64_t unasked_wallclock(struct ibv_cq_ex *ib)
{
	return unasked(ib, "IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK");
}

void cq_poll_attach(struct dcq *cq)
{
	struct ibv_cq_ex *ib = &cq->ib;
	uint64_t asked = cq->wc_flags;

	ib->start_poll = ex_start_poll;
	ib->next_poll = ex_next_poll;
	ib->end_poll = ex_end_poll;
	ib->read_opcode = ex_opcode;
	ib->read_vendor_err = ex_vendor_err;
	ib->read_wc_flags = ex_wc_flags;
	ib->read_byte_len = ex_byte_len;
	ib->read_imm_data = ex_imm_data;
	ib->read_qp_num = ex_qp_num;
	ib->read_src_qp = ex_src_qp;
	ib->read_slid = ex_slid;
	ib->read_sl = ex_sl;
	ib->read_tm_info = ex_tm_info;
	ib->read_dlid_path_bits = ex_dlid_path_bits;
	ib->read_completion_ts =
		asked & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP ? ex_completion_ts : unasked_ts;
	ib->read_completion_wallclock_ns = asked & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK
						   ? ex_wallclock_ns
						   : unasked_wallclock;
	ib->read_cvlan = ex_cvlan;
	ib->read_flow_tag = ex_flow_tag;
}
