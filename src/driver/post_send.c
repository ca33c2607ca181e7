// SPDX-License-Identifier: MIT
/* ibv_post_send() and ibv_post_recv(): from a list of work requests to WQEs. */
#include <errno.h>
#include "driver/data_segment.h"
#include "driver/wqe_build.h"
#include "engine/doorbell.h"
#include "obs/explain.h"
#include "util/fork.h"

/* What each verb becomes; its service says whether a queue pair takes it. */
// clang-format off
static const struct {
	uint8_t opcode, wc_opcode;
	bool remote, atomic, imm, inv, local, tso;
} verbs[] = {
	[IBV_WR_SEND]                 = { MLX5_OPCODE_SEND, IBV_WC_SEND },
	[IBV_WR_SEND_WITH_IMM]        = { MLX5_OPCODE_SEND_IMM, IBV_WC_SEND,
	                                  .imm = true },
	[IBV_WR_SEND_WITH_INV]        = { MLX5_OPCODE_SEND_INVAL, IBV_WC_SEND, .inv = true },
	[IBV_WR_RDMA_WRITE]           = { MLX5_OPCODE_RDMA_WRITE, IBV_WC_RDMA_WRITE,
	                                  .remote = true },
	[IBV_WR_RDMA_WRITE_WITH_IMM]  = { MLX5_OPCODE_RDMA_WRITE_IMM, IBV_WC_RDMA_WRITE,
	                                  .remote = true, .imm = true },
	[IBV_WR_RDMA_READ]            = { MLX5_OPCODE_RDMA_READ, IBV_WC_RDMA_READ,
	                                  .remote = true },
	[IBV_WR_ATOMIC_CMP_AND_SWP]   = { MLX5_OPCODE_ATOMIC_CS, IBV_WC_COMP_SWAP,
	                                  .remote = true, .atomic = true },
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = { MLX5_OPCODE_ATOMIC_FA, IBV_WC_FETCH_ADD,
	                                  .remote = true, .atomic = true },
	[IBV_WR_ATOMIC_WRITE]         = { WQE_OPCODE_ATOMIC_WRITE, IBV_WC_ATOMIC_WRITE,
	                                  .remote = true },
	[IBV_WR_LOCAL_INV]            = { MLX5_OPCODE_LOCAL_INVAL, IBV_WC_LOCAL_INV,
	                                  .inv = true, .local = true },
	[IBV_WR_BIND_MW]              = { WQE_OPCODE_BIND_MW, IBV_WC_BIND_MW,
	                                  .local = true },
	[IBV_WR_TSO]                  = { MLX5_OPCODE_TSO, IBV_WC_TSO, .tso = true },
};
// clang-format on

static const char *name(unsigned int op)
{
	static const char *const names[] = { "RDMA_WRITE",
					     "RDMA_WRITE_WITH_IMM",
					     "SEND",
					     "SEND_WITH_IMM",
					     "RDMA_READ",
					     "ATOMIC_CMP_AND_SWP",
					     "ATOMIC_FETCH_AND_ADD",
					     "LOCAL_INV",
					     "BIND_MW",
					     "SEND_WITH_INV",
					     "TSO",
					     "DRIVER1",
					     [14] = "FLUSH",
					     [15] = "ATOMIC_WRITE" };

	return op < sizeof(names) / sizeof(names[0]) && names[op] ? names[op] : "unknown";
}

static bool known(struct dqp *qp, const struct ibv_send_wr *wr)
{
	unsigned int op = wr->opcode;

	if (likely(service_takes(qp->service, op) && qp->service->wqe != WQE_DC))
		return true;
	if (qp->service->wqe == WQE_DC) {
		qp->build.err =
			refuse_work(EINVAL, wr->wr_id,
				    "ibv_post_send: QP 0x%x is a DC initiator, whose sends need "
				    "an address; use ibv_wr_ calls and mlx5dv_wr_set_dc_addr",
				    qp->ib.qp_base.qp_num);
		return false;
	}
	qp->build.err =
		refuse_work(EINVAL, wr->wr_id,
			    "ibv_post_send: opcode %u (%s) is not one of %s QPs, as QP 0x%x is; "
			    "use one that is, or another type of QP",
			    op, name(op), qp->service->name, qp->ib.qp_base.qp_num);
	return false;
}

static void remote(struct dqp *qp, const struct ibv_send_wr *wr)
{
	if (!verbs[wr->opcode].atomic) {
		wqe_remote(qp, wr->wr.rdma.remote_addr, wr->wr.rdma.rkey);
		return;
	}
	wqe_remote(qp, wr->wr.atomic.remote_addr, wr->wr.atomic.rkey);
	if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP)
		wqe_atomic(qp, wr->wr.atomic.swap, wr->wr.atomic.compare_add);
	else
		wqe_atomic(qp, wr->wr.atomic.compare_add, 0);
}

/* Binding and invalidating move no data. */
static void build_local(struct dqp *qp, const struct ibv_send_wr *wr, struct wqe_head *h)
{
	if (wr->opcode == IBV_WR_LOCAL_INV) {
		wqe_begin(qp, h);
	} else if (wqe_may_bind(qp, wr->wr_id, wr->bind_mw.mw)) {
		h->imm = htobe32(wr->bind_mw.mw->rkey);
		wqe_begin(qp, h);
		wqe_bind(qp, wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
	}
	wqe_finish(qp);
}

static void build(struct dqp *qp, const struct ibv_send_wr *wr)
{
	struct wqe_head h = { .wr_id = wr->wr_id, .send_flags = wr->send_flags };

	if (!known(qp, wr))
		return;
	if (wr->num_sge < 0) {
		qp->build.err =
			refuse_work(EINVAL, wr->wr_id,
				    "ibv_post_send: num_sge %d on QP 0x%x is negative; give the "
				    "length of sg_list",
				    wr->num_sge, qp->ib.qp_base.qp_num);
		return;
	}
	h.opcode = verbs[wr->opcode].opcode;
	h.wc_opcode = verbs[wr->opcode].wc_opcode;
	if (verbs[wr->opcode].imm)
		h.imm = wr->imm_data;
	else if (verbs[wr->opcode].inv)
		h.imm = htobe32(wr->invalidate_rkey);
	if (unlikely(verbs[wr->opcode].local)) {
		build_local(qp, wr, &h);
		return;
	}
	if (unlikely(verbs[wr->opcode].tso)) {
		h.hdr = wr->tso.hdr;
		h.hdr_sz = wr->tso.hdr_sz;
		h.mss = wr->tso.mss;
	}
	wqe_begin(qp, &h);
	if (qp->service->wqe == WQE_DATAGRAM)
		wqe_datagram(qp, wr->wr.ud.ah, wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey);
	else if (qp->service->wqe == WQE_XRC)
		wqe_xrc(qp, wr->qp_type.xrc.remote_srqn);
	if (verbs[wr->opcode].remote)
		remote(qp, wr);
	if (unlikely(wr->opcode == IBV_WR_ATOMIC_WRITE))
		doorbell_atomic_writes(qp->dev);
	if ((wr->send_flags & IBV_SEND_INLINE) && wr->opcode != IBV_WR_RDMA_READ &&
	    !verbs[wr->opcode].atomic)
		wqe_inline_sges(qp, wr->sg_list, wr->num_sge);
	else
		wqe_sge_list(qp, wr->sg_list, wr->num_sge);
	wqe_finish(qp);
}

int dqp_post_send(struct ibv_qp *ib, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct dqp *qp = to_dqp(ib);
	int err = wqe_batch_begin(qp, "ibv_post_send");

	if (unlikely(err)) {
		*bad = wr;
		return err;
	}
	for (; wr; wr = wr->next) {
		build(qp, wr);
		if (unlikely(qp->build.err)) {
			*bad = wr;
			break;
		}
	}
	return wqe_batch_end(qp, true);
}

int dqp_bind_mw(struct ibv_qp *ib, struct ibv_mw *mw, struct ibv_mw_bind *b)
{
	struct wqe_head h = { .wr_id = b->wr_id,
			      .send_flags = b->send_flags,
			      .opcode = WQE_OPCODE_BIND_MW,
			      .wc_opcode = IBV_WC_BIND_MW,
			      .imm = htobe32(mw->rkey) };
	uint32_t rkey = ibv_inc_rkey(mw->rkey);
	struct dqp *qp = to_dqp(ib);
	int err;

	if (!service_takes(qp->service, IBV_WR_BIND_MW))
		return refuse(EINVAL,
			      "ibv_bind_mw: QP 0x%x is of type %s; windows need RC, UC "
			      "or XRC_SEND",
			      ib->qp_num, qp->service->name);
	err = wqe_batch_begin(qp, "ibv_bind_mw");
	if (err)
		return err;
	wqe_begin(qp, &h);
	wqe_bind(qp, mw, rkey, &b->bind_info);
	wqe_finish(qp);
	err = wqe_batch_end(qp, false);
	if (!err)
		mw->rkey = rkey;
	return err;
}

static int post_recv_one(struct dqp *qp, const struct ibv_recv_wr *wr)
{
	struct dqp_rq *rq = &qp->rq;
	uint32_t i = rq->head & (rq->cnt - 1);

	if (unlikely(wr->num_sge < 0 || (uint32_t)wr->num_sge > rq->max_sge))
		return refuse_work(EINVAL, wr->wr_id,
				   "ibv_post_recv: num_sge %d, QP 0x%x was created with "
				   "max_recv_sge %u; use fewer, or create it with more",
				   wr->num_sge, qp->ib.qp_base.qp_num, rq->max_sge);
	/* (B) with complete_recv() */
	if (unlikely(rq->head - load_acquire(&rq->tail) >= rq->max_wr))
		return refuse_work(ENOMEM, wr->wr_id,
				   "ibv_post_recv: all %u receive work requests of QP 0x%x are "
				   "posted; poll completions first",
				   rq->max_wr, qp->ib.qp_base.qp_num);
	rq->wr_id[i] = wr->wr_id;
	data_segment_list(rq->buf + (size_t)i * rq->stride, wr->sg_list, wr->num_sge,
			  rq->stride / 16);
	rq->head++;
	return 0;
}

/* Where its messages go instead. */
static const char *other_receives(const struct dqp *qp)
{
	if (qp->ib.qp_base.srq)
		return "; post to its SRQ (ibv_post_srq_recv)";
	if (!qp->service->receives)
		return "; it only sends";
	if (qp->service->wqe == WQE_XRC)
		return "; post to the SRQs that its messages name (ibv_post_srq_recv)";
	return "";
}

static int recv_allowed(const struct dqp *qp)
{
	if (unlikely(!fork_is_ours(qp->epoch)))
		return refuse(EIO, "ibv_post_recv: QP 0x%x was made before fork(); make a new one",
			      qp->ib.qp_base.qp_num);
	if (unlikely(qp->ib.qp_base.srq || !qp->rq.cnt))
		return refuse(EINVAL, "ibv_post_recv: QP 0x%x has no receive queue of its own%s",
			      qp->ib.qp_base.qp_num, other_receives(qp));
	/* The public state is a hint, as for sends. */
	if (unlikely(load_relaxed(&qp->ib.qp_base.state) == IBV_QPS_RESET &&
		     load_relaxed(&qp->dev->qp.state) == IBV_QPS_RESET))
		return refuse(EINVAL,
			      "ibv_post_recv: QP 0x%x is in RESET; receiving needs INIT "
			      "(ibv_modify_qp)",
			      qp->ib.qp_base.qp_num);
	return 0;
}

int dqp_post_recv(struct ibv_qp *ib, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct dqp *qp = to_dqp(ib);
	int err = recv_allowed(qp);

	if (unlikely(err)) {
		*bad = wr;
		return err;
	}
	spin_lock(&qp->rq.lock);
	for (; wr; wr = wr->next) {
		err = post_recv_one(qp, wr);
		if (unlikely(err)) {
			*bad = wr;
			break;
		}
	}
	/* (C) with rq_take(): WQEs before the count */
	store_fenced(&qp->dbrec[MLX5_RCV_DBR], htobe32(qp->rq.head & 0xffff));
	spin_unlock(&qp->rq.lock);
	doorbell_rq(qp->dev);
	return err;
}
