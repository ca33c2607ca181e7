// SPDX-License-Identifier: MIT
/* The ibv_wr_* API on the functions of wqe_build.h. wr_id and wr_flags are read when the operation
 * is called; the first error is kept, and wr_complete returns it and posts nothing. An operation's
 * WQE is finished when the next operation begins or the batch ends, so an operation without data
 * needs no setter. Each setter follows an operation that takes it, once; a call outside of wr_start
 * and wr_complete touches nothing, and its reason is recorded. */
#include <errno.h>
#include "driver/wqe_build.h"
#include "engine/doorbell.h"
#include "obs/explain.h"
#include "util/fork.h"

static inline struct dqp *qpx(struct ibv_qp_ex *ib)
{
	return (struct dqp *)ib;
}

/* Begins an operation. False: the caller writes nothing more of it. */
static bool op(struct ibv_qp_ex *ib, uint8_t opcode, uint8_t wc_opcode, uint32_t imm)
{
	struct wqe_head h = { .wr_id = ib->wr_id,
			      .send_flags = ib->wr_flags,
			      .opcode = opcode,
			      .wc_opcode = wc_opcode,
			      .imm = imm };
	struct dqp *qp = qpx(ib);

	if (!wqe_region_open(qp, "ibv_wr_*"))
		return false;
	wqe_finish(qp);
	wqe_begin(qp, &h);
	qp->build.takes = WR_TAKES_DATA | WR_TAKES_AH;
	return true;
}

/* Is @call, a setter of kind @what, in its place? */
static bool takes(struct ibv_qp_ex *ib, uint8_t what, const char *call)
{
	struct dqp *qp = qpx(ib);

	if (!wqe_region_open(qp, call))
		return false;
	if (unlikely(!qp->build.ctrl)) {
		qp->build.err = refuse(EINVAL,
				       "%s: no operation has begun on QP 0x%x; a setter follows "
				       "its ibv_wr_ operation",
				       call, qp->ib.qp_base.qp_num);
		return false;
	}
	if (unlikely(!(qp->build.takes & what))) {
		qp->build.err = refuse_work(
			EINVAL, wqe_wr_id(qp),
			"%s: the operation on QP 0x%x does not take it, or has its "
			"%s already; one such setter for each operation, and inline "
			"data only for what sends data",
			call, qp->ib.qp_base.qp_num, what == WR_TAKES_AH ? "address" : "data");
		return false;
	}
	qp->build.takes &= what == WR_TAKES_AH ? ~WR_TAKES_AH : ~WR_TAKES_DATA;
	return true;
}

static void wr_start(struct ibv_qp_ex *ib)
{
	wqe_region_begin(qpx(ib));
}

static int wr_complete(struct ibv_qp_ex *ib)
{
	struct dqp *qp = qpx(ib);

	if (!wqe_region_mine(qp))
		return refuse(EINVAL,
			      "ibv_wr_complete: this thread is not building work for QP 0x%x; "
			      "ibv_wr_start comes first",
			      qp->ib.qp_base.qp_num);
	if (unlikely(!fork_is_ours(qp->epoch))) {
		wqe_batch_abort(qp);
		return refuse(EIO,
			      "ibv_wr_complete: QP 0x%x was made before fork(); make a new one",
			      qp->ib.qp_base.qp_num);
	}
	wqe_finish(qp);
	return wqe_batch_end(qp, false);
}

static void wr_abort(struct ibv_qp_ex *ib)
{
	if (wqe_region_mine(qpx(ib)))
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

static void wr_send_tso(struct ibv_qp_ex *ib, void *hdr, uint16_t hdr_sz, uint16_t mss)
{
	struct wqe_head h = { .wr_id = ib->wr_id,
			      .send_flags = ib->wr_flags,
			      .opcode = MLX5_OPCODE_TSO,
			      .wc_opcode = IBV_WC_TSO,
			      .hdr = hdr,
			      .hdr_sz = hdr_sz,
			      .mss = mss };
	struct dqp *qp = qpx(ib);

	if (!wqe_region_open(qp, "ibv_wr_send_tso"))
		return;
	wqe_finish(qp);
	wqe_begin(qp, &h);
	qp->build.takes = WR_TAKES_DATA;
}

static void wr_rdma_write(struct ibv_qp_ex *ib, uint32_t rkey, uint64_t addr)
{
	if (op(ib, MLX5_OPCODE_RDMA_WRITE, IBV_WC_RDMA_WRITE, 0))
		wqe_remote(qpx(ib), addr, rkey);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ib, uint32_t rkey, uint64_t addr, __be32 imm)
{
	if (op(ib, MLX5_OPCODE_RDMA_WRITE_IMM, IBV_WC_RDMA_WRITE, imm))
		wqe_remote(qpx(ib), addr, rkey);
}

static void wr_rdma_read(struct ibv_qp_ex *ib, uint32_t rkey, uint64_t addr)
{
	if (!op(ib, MLX5_OPCODE_RDMA_READ, IBV_WC_RDMA_READ, 0))
		return;
	qpx(ib)->build.takes &= ~WR_TAKES_INLINE;
	wqe_remote(qpx(ib), addr, rkey);
}

static void wr_atomic_write(struct ibv_qp_ex *ib, uint32_t rkey, uint64_t addr, const void *data)
{
	struct ibv_data_buf buf = { (void *)(uintptr_t)data, sizeof(uint64_t) };

	if (!op(ib, WQE_OPCODE_ATOMIC_WRITE, IBV_WC_ATOMIC_WRITE, 0))
		return;
	doorbell_atomic_writes(qpx(ib)->dev);
	qpx(ib)->build.takes = 0;
	wqe_remote(qpx(ib), addr, rkey);
	wqe_inline_always(qpx(ib), &buf);
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ib, uint32_t rkey, uint64_t addr, uint64_t compare,
			      uint64_t swap)
{
	if (!op(ib, MLX5_OPCODE_ATOMIC_CS, IBV_WC_COMP_SWAP, 0))
		return;
	qpx(ib)->build.takes &= ~WR_TAKES_INLINE;
	wqe_remote(qpx(ib), addr, rkey);
	wqe_atomic(qpx(ib), swap, compare);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ib, uint32_t rkey, uint64_t addr, uint64_t add)
{
	if (!op(ib, MLX5_OPCODE_ATOMIC_FA, IBV_WC_FETCH_ADD, 0))
		return;
	qpx(ib)->build.takes &= ~WR_TAKES_INLINE;
	wqe_remote(qpx(ib), addr, rkey);
	wqe_atomic(qpx(ib), add, 0);
}

static void wr_local_inv(struct ibv_qp_ex *ib, uint32_t rkey)
{
	if (op(ib, MLX5_OPCODE_LOCAL_INVAL, IBV_WC_LOCAL_INV, htobe32(rkey)))
		wqe_finish(qpx(ib));
}

static void wr_bind_mw(struct ibv_qp_ex *ib, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *info)
{
	if (!wqe_region_open(qpx(ib), "ibv_wr_bind_mw") || !wqe_may_bind(qpx(ib), ib->wr_id, mw) ||
	    !op(ib, WQE_OPCODE_BIND_MW, IBV_WC_BIND_MW, htobe32(mw->rkey)))
		return;
	wqe_bind(qpx(ib), mw, rkey, info);
	wqe_finish(qpx(ib));
}

static void wr_set_ud_addr(struct ibv_qp_ex *ib, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	if (takes(ib, WR_TAKES_AH, "ibv_wr_set_ud_addr"))
		wqe_datagram(qpx(ib), ah, qpn, qkey);
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ib, uint32_t srqn)
{
	if (takes(ib, WR_TAKES_AH, "ibv_wr_set_xrc_srqn"))
		wqe_xrc(qpx(ib), srqn);
}

static void wr_set_sge(struct ibv_qp_ex *ib, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge sg = { addr, length, lkey };

	if (takes(ib, WR_TAKES_SGES, "ibv_wr_set_sge"))
		wqe_sge_list(qpx(ib), &sg, 1);
}

static void wr_set_sge_list(struct ibv_qp_ex *ib, size_t n, const struct ibv_sge *sg)
{
	if (takes(ib, WR_TAKES_SGES, "ibv_wr_set_sge_list"))
		wqe_sge_list(qpx(ib), sg, n);
}

static void wr_set_inline_data(struct ibv_qp_ex *ib, void *addr, size_t length)
{
	struct ibv_data_buf buf = { addr, length };

	if (takes(ib, WR_TAKES_INLINE, "ibv_wr_set_inline_data"))
		wqe_inline(qpx(ib), &buf, 1);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ib, size_t n, const struct ibv_data_buf *bufs)
{
	if (takes(ib, WR_TAKES_INLINE, "ibv_wr_set_inline_data_list"))
		wqe_inline(qpx(ib), bufs, n);
}

#define ATTACH(op, entry)                                                                          \
	if (service_takes(s, IBV_WR_##op))                                                         \
	ib->entry = entry

static void attach(struct ibv_qp_ex *ib, const struct service *s)
{
	ATTACH(SEND, wr_send);
	ATTACH(SEND_WITH_IMM, wr_send_imm);
	ATTACH(SEND_WITH_INV, wr_send_inv);
	ATTACH(RDMA_WRITE, wr_rdma_write);
	ATTACH(RDMA_WRITE_WITH_IMM, wr_rdma_write_imm);
	ATTACH(RDMA_READ, wr_rdma_read);
	ATTACH(ATOMIC_CMP_AND_SWP, wr_atomic_cmp_swp);
	ATTACH(ATOMIC_FETCH_AND_ADD, wr_atomic_fetch_add);
	ATTACH(ATOMIC_WRITE, wr_atomic_write);
	ATTACH(LOCAL_INV, wr_local_inv);
	ATTACH(BIND_MW, wr_bind_mw);
	ATTACH(TSO, wr_send_tso);
}

/* X(entry): functions that some type of QP lacks. Hardware's library leaves NULL there, and the
 * program crashes; here the batch fails with a reason. Not wr_flush, which no type has: librpma
 * takes an entry for the ability. */
#define LACKING(X)                                                                                 \
	X(wr_atomic_cmp_swp)                                                                       \
	X(wr_atomic_fetch_add)                                                                     \
	X(wr_atomic_write)                                                                         \
	X(wr_bind_mw)                                                                              \
	X(wr_local_inv)                                                                            \
	X(wr_rdma_read)                                                                            \
	X(wr_rdma_write)                                                                           \
	X(wr_rdma_write_imm)                                                                       \
	X(wr_send_imm)                                                                             \
	X(wr_send_inv)                                                                             \
	X(wr_send_tso)                                                                             \
	X(wr_set_ud_addr)                                                                          \
	X(wr_set_xrc_srqn)

static void lacking(struct dqp *qp, const char *call)
{
	if (wqe_region_open(qp, call))
		qp->build.err =
			refuse_work(EINVAL, qp->ib.wr_id,
				    "%s: %s QPs, as QP 0x%x is, do not do it; use a type that does",
				    call, qp->service->name, qp->ib.qp_base.qp_num);
}

/* The functions read only their first argument: the caller passes and removes the others
 * (verbs/unbuilt.h). */
#define LACKING_OP(entry)                                                                          \
	static void lacking_##entry(struct ibv_qp_ex *ib)                                          \
	{                                                                                          \
		lacking(qpx(ib), "ibv_" #entry);                                                   \
	}
LACKING(LACKING_OP)

#define SET_LACKING(entry) ib->entry = (__typeof__(ib->entry))(void (*)(void))lacking_##entry;

int wr_builder_attach(struct dqp *qp, uint64_t ops)
{
	uint64_t legal = service_send_ops(qp->service);
	struct ibv_qp_ex *ib = &qp->ib;

	if (ops & ~legal)
		return refuse(EOPNOTSUPP,
			      "ibv_create_qp_ex: send_ops_flags 0x%llx, of which 0x%llx do not "
			      "work on %s QPs; leave them out",
			      (unsigned long long)ops, (unsigned long long)(ops & ~legal),
			      qp->service->name);
	LACKING(SET_LACKING)
	ib->wr_start = wr_start;
	ib->wr_complete = wr_complete;
	ib->wr_abort = wr_abort;
	attach(ib, qp->service);
	ib->wr_set_sge = wr_set_sge;
	ib->wr_set_sge_list = wr_set_sge_list;
	ib->wr_set_inline_data = wr_set_inline_data;
	ib->wr_set_inline_data_list = wr_set_inline_data_list;
	if (qp->service->wqe == WQE_DATAGRAM)
		ib->wr_set_ud_addr = wr_set_ud_addr;
	if (qp->service->wqe == WQE_XRC)
		ib->wr_set_xrc_srqn = wr_set_xrc_srqn;
	wr_dv_attach(qp);
	return 0;
}
