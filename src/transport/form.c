// SPDX-License-Identifier: MIT
#include "transport/form.h"
#include <infiniband/mlx5dv.h>
#include "transport/raw.h"
#include "wire/opcode.h"

#define OP4(a, b, c, d) OP_##a, OP_##b, OP_##c, OP_##d
#define SENDS(last)	OP4(SEND_FIRST, SEND_MIDDLE, SEND_LAST##last, SEND_ONLY##last)
#define WRITES(last)	OP4(WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST##last, WRITE_ONLY##last)

const struct form forms[256] = {
	/* clang-format off */
	[MLX5_OPCODE_SEND]           = { true, false, SENDS() },
	[MLX5_OPCODE_SEND_IMM]       = { true, false, SENDS(_IMM) },
	[MLX5_OPCODE_SEND_INVAL]     = { true, false, SENDS(_INV) },
	[MLX5_OPCODE_RDMA_WRITE]     = { true, false, WRITES() },
	[MLX5_OPCODE_RDMA_WRITE_IMM] = { true, false, WRITES(_IMM) },
	[MLX5_OPCODE_RDMA_READ]      = { true, true, .only = OP_READ_REQUEST },
	[MLX5_OPCODE_ATOMIC_CS]      = { true, true, .only = OP_COMPARE_SWAP },
	[MLX5_OPCODE_ATOMIC_FA]      = { true, true, .only = OP_FETCH_ADD },
	[MLX5_OPCODE_NOP]            = { true, .local = true },
	[MLX5_OPCODE_LOCAL_INVAL]    = { true, .local = true },
	[WQE_OPCODE_BIND_MW]         = { true, .local = true },
	[WQE_OPCODE_ATOMIC_WRITE]    = { true, true, .only = OP_ATOMIC_WRITE },
	/* clang-format on */
};

/* READ and atomics where max_rd_atomic says none, opcodes that the service lacks, sizes. */
enum verdict form_allowed(const struct tqp *q, const struct wqe *w)
{
	bool reads = forms[w->opcode].reads;

	if (w->opcode == MLX5_OPCODE_NOP)
		return V_OK;
	if (q->qp.type == IBV_QPT_RAW_PACKET)
		return raw_allowed(w);
	if (!forms[w->opcode].known)
		return V_LOCAL_QP_OP;
	if (q->qp.type == IBV_QPT_UC && (reads || w->opcode == MLX5_OPCODE_SEND_INVAL))
		return V_LOCAL_QP_OP;
	if (w->opcode == WQE_OPCODE_ATOMIC_WRITE && !load_relaxed(&q->qp.atomic_writes))
		return V_LOCAL_QP_OP; /* XRC has none, and nobody writes our own opcode by chance */
	if (q->qp.type == IBV_QPT_UD && w->opcode != MLX5_OPCODE_SEND &&
	    w->opcode != MLX5_OPCODE_SEND_IMM)
		return V_LOCAL_QP_OP;
	if (reads && (!q->qp.attr.max_rd_atomic || (w->ninline && !form_brings_data(w))))
		return V_LOCAL_QP_OP;
	if (reads && w->opcode != MLX5_OPCODE_RDMA_READ && w->len != 8)
		return V_LOCAL_LENGTH;
	if (q->qp.type == IBV_QPT_UD && w->len > q->req.mtu)
		return V_LOCAL_LENGTH;
	return V_OK;
}
