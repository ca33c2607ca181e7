// SPDX-License-Identifier: MIT
/* The ibv_wr_* API on the functions of wqe_build.h. wr_id and wr_flags are read when the
 * operation is called; errors stick and are reported by wr_complete, which then posts nothing. An
 * operation's WQE is finished when its data has been set, or when the next operation begins or
 * the batch ends: a zero-length operation need not call a setter. */
#include <errno.h>
#include "driver/wqe_build.h"
#include "obs/explain.h"

static inline struct dqp *qpx(struct ibv_qp_ex *ib)
{
	return (struct dqp *)ib;
}

static void op(struct ibv_qp_ex *ib, uint8_t opcode, uint8_t wc_opcode, uint32_t imm)
{
	struct wqe_head h = { ib->wr_id, ib->wr_flags, opcode, wc_opcode, imm };

	wqe_finish(qpx(ib));
	wqe_begin(qpx(ib), &h);
}

static void wr_start(struct ibv_qp_ex *ib)
{
	struct dqp *qp = qpx(ib);
	int err = wqe_batch_begin(qp, "ibv_wr_start");

	if (err) { /* the call returns nothing: wr_complete tells */
		spin_lock(&qp->sq.lock);
		qp->build = (struct wr_build){ .err = err, .pi = qp->sq.pi, .head = qp->sq.head };
	}
}

static int wr_complete(struct ibv_qp_ex *ib)
{
	wqe_finish(qpx(ib));
	return wqe_batch_end(qpx(ib), false);
}

static void wr_abort(struct ibv_qp_ex *ib)
{
	wqe_batch_abort(qpx(ib));
}

static void wr_send(struct ibv_qp_ex *ib)
{
	op(ib, MLX5_OPCODE_SEND, IBV_WC_SEND, 0);
}

static void wr_send_imm(struct ibv_qp_ex *ib, __be32 imm)
{
	op(ib, MLX5_OPCODE_SEND_IMM, IBV_WC_SEND, imm);
}

static void wr_send_inv(struct ibv_qp_ex *ib, uint32_t rkey)
{
	op(ib, MLX5_OPCODE_SEND_INVAL, IBV_WC_SEND, htobe32(rkey));
}

static void wr_rdma_write(struct ibv_qp_ex *ib, uint32_t rkey, uint64_t addr)
{
	op(ib, MLX5_OPCODE_RDMA_WRITE, IBV_WC_RDMA_WRITE, 0);
	wqe_remote(qpx(ib), addr, rkey);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ib, uint32_t rkey, uint64_t addr, __be32 imm)
{
	op(ib, MLX5_OPCODE_RDMA_WRITE_IMM, IBV_WC_RDMA_WRITE, imm);
	wqe_remote(qpx(ib), addr, rkey);
}

static void wr_rdma_read(struct ibv_qp_ex *ib, uint32_t rkey, uint64_t addr)
{
	op(ib, MLX5_OPCODE_RDMA_READ, IBV_WC_RDMA_READ, 0);
	wqe_remote(qpx(ib), addr, rkey);
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ib, uint32_t rkey, uint64_t addr, uint64_t compare,
			      uint64_t swap)
{
	op(ib, MLX5_OPCODE_ATOMIC_CS, IBV_WC_COMP_SWAP, 0);
	wqe_remote(qpx(ib), addr, rkey);
	wqe_atomic(qpx(ib), swap, compare);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ib, uint32_t rkey, uint64_t addr, uint64_t add)
{
	op(ib, MLX5_OPCODE_ATOMIC_FA, IBV_WC_FETCH_ADD, 0);
	wqe_remote(qpx(ib), addr, rkey);
	wqe_atomic(qpx(ib), add, 0);
}

static void wr_local_inv(struct ibv_qp_ex *ib, uint32_t rkey)
{
	op(ib, MLX5_OPCODE_LOCAL_INVAL, IBV_WC_LOCAL_INV, htobe32(rkey));
	wqe_finish(qpx(ib));
}

static void wr_bind_mw(struct ibv_qp_ex *ib, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *info)
{
	op(ib, WQE_OPCODE_BIND_MW, IBV_WC_BIND_MW, htobe32(mw->rkey));
	wqe_bind(qpx(ib), mw, rkey, info);
	wqe_finish(qpx(ib));
}

static void wr_set_ud_addr(struct ibv_qp_ex *ib, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	wqe_datagram(qpx(ib), ah, qpn, qkey);
}

static void wr_set_sge(struct ibv_qp_ex *ib, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge sg = { addr, length, lkey };

	wqe_sge_list(qpx(ib), &sg, 1);
}

static void wr_set_sge_list(struct ibv_qp_ex *ib, size_t n, const struct ibv_sge *sg)
{
	wqe_sge_list(qpx(ib), sg, n);
}

static void wr_set_inline_data(struct ibv_qp_ex *ib, void *addr, size_t length)
{
	struct ibv_data_buf buf = { addr, length };

	wqe_inline(qpx(ib), &buf, 1);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ib, size_t n, const struct ibv_data_buf *bufs)
{
	wqe_inline(qpx(ib), bufs, n);
}

#define OPS_UD (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM)
#define OPS_UC                                                                                     \
	(OPS_UD | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |                 \
	 IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV)
#define OPS_RC                                                                                     \
	(OPS_UC | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |                   \
	 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV)

static uint64_t legal(enum ibv_qp_type t)
{
	return t == IBV_QPT_RC ? OPS_RC : t == IBV_QPT_UC ? OPS_UC : OPS_UD;
}

static void attach_connected(struct ibv_qp_ex *ib, enum ibv_qp_type type)
{
	ib->wr_rdma_write = wr_rdma_write;
	ib->wr_rdma_write_imm = wr_rdma_write_imm;
	ib->wr_local_inv = wr_local_inv;
	ib->wr_bind_mw = wr_bind_mw;
	if (type != IBV_QPT_RC)
		return;
	ib->wr_send_inv = wr_send_inv;
	ib->wr_rdma_read = wr_rdma_read;
	ib->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	ib->wr_atomic_fetch_add = wr_atomic_fetch_add;
}

int wr_builder_attach(struct dqp *qp, uint64_t ops)
{
	struct ibv_qp_ex *ib = &qp->ib;

	if (ops & ~legal(qp->type))
		return refuse(EOPNOTSUPP,
			      "ibv_create_qp_ex: send_ops_flags %#llx, of which %#llx do not "
			      "work on a %s QP; leave them out",
			      (unsigned long long)ops, (unsigned long long)(ops & ~legal(qp->type)),
			      qp_type_name(qp->type));
	ib->wr_start = wr_start;
	ib->wr_complete = wr_complete;
	ib->wr_abort = wr_abort;
	ib->wr_send = wr_send;
	ib->wr_send_imm = wr_send_imm;
	ib->wr_set_sge = wr_set_sge;
	ib->wr_set_sge_list = wr_set_sge_list;
	ib->wr_set_inline_data = wr_set_inline_data;
	ib->wr_set_inline_data_list = wr_set_inline_data_list;
	if (qp->type == IBV_QPT_UD)
		ib->wr_set_ud_addr = wr_set_ud_addr;
	else
		attach_connected(ib, qp->type);
	return 0;
}
