// SPDX-License-Identifier: MIT
#include "transport/form.h"
#include <infiniband/mlx5dv.h>
#include "hca/limits.h"
#include "transport/raw.h"
#include "wire/opcode.h"

#define OP(name)	(1U << IBV_WR_##name)
#define OP4(a, b, c, d) OP_##a, OP_##b, OP_##c, OP_##d
#define SENDS(last)	OP4(SEND_FIRST, SEND_MIDDLE, SEND_LAST##last, SEND_ONLY##last)
#define WRITES(last)	OP4(WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST##last, WRITE_ONLY##last)

const struct form forms[256] = {
	/* clang-format off */
	[MLX5_OPCODE_SEND]           = { OP(SEND), false, SENDS() },
	[MLX5_OPCODE_SEND_IMM]       = { OP(SEND_WITH_IMM), false, SENDS(_IMM) },
	[MLX5_OPCODE_SEND_INVAL]     = { OP(SEND_WITH_INV), false, SENDS(_INV) },
	[MLX5_OPCODE_RDMA_WRITE]     = { OP(RDMA_WRITE), false, WRITES() },
	[MLX5_OPCODE_RDMA_WRITE_IMM] = { OP(RDMA_WRITE_WITH_IMM), false, WRITES(_IMM) },
	[MLX5_OPCODE_RDMA_READ]      = { OP(RDMA_READ), true, .only = OP_READ_REQUEST },
	[MLX5_OPCODE_ATOMIC_CS]      = { OP(ATOMIC_CMP_AND_SWP), true, .only = OP_COMPARE_SWAP },
	[MLX5_OPCODE_ATOMIC_FA]      = { OP(ATOMIC_FETCH_AND_ADD), true, .only = OP_FETCH_ADD },
	[MLX5_OPCODE_ATOMIC_MASKED_CS] = { OP(ATOMIC_CMP_AND_SWP), true, .only = OP_MASKED_SWAP },
	[MLX5_OPCODE_ATOMIC_MASKED_FA] = { OP(ATOMIC_FETCH_AND_ADD), true, .only = OP_MASKED_ADD },
	[MLX5_OPCODE_NOP]            = { .local = true },
	[MLX5_OPCODE_LOCAL_INVAL]    = { OP(LOCAL_INV), .local = true },
	[MLX5_OPCODE_UMR]            = { OP(BIND_MW), .local = true },
	[MLX5_OPCODE_MMO]            = { .local = true },
	[WQE_OPCODE_BIND_MW]         = { OP(BIND_MW), .local = true },
	[WQE_OPCODE_ATOMIC_WRITE]    = { OP(ATOMIC_WRITE), true, .only = OP_ATOMIC_WRITE },
	/* clang-format on */
};

/* Of memory to memory (mlx5dv_wr_memcpy(3)): from the first entry to the second */
static bool is_copy(const struct wqe *w)
{
	enum { COPY = 1 }; /* opmod */

	return w->opmod == COPY && w->nsge == 2 && !w->inlined && w->sge[0].len == w->sge[1].len &&
	       w->sge[0].len <= LIMIT_MEMCPY;
}

enum verdict form_allowed(const struct tqp *q, const struct wqe *w)
{
	bool reads = forms[w->opcode].reads;

	if (w->opcode == MLX5_OPCODE_NOP)
		return V_OK;
	if (w->opcode == MLX5_OPCODE_MMO)
		return q->qp.service->copies && is_copy(w) ? V_OK : V_LOCAL_QP_OP;
	if (q->qp.service->frames)
		return raw_allowed(w);
	if (!(forms[w->opcode].verb & q->qp.service->verbs))
		return V_LOCAL_QP_OP;
	if (w->opcode == WQE_OPCODE_ATOMIC_WRITE && !load_relaxed(&q->qp.atomic_writes))
		return V_LOCAL_QP_OP; /* softhca's own opcode: the driver says when it writes one */
	if (w->opcode == WQE_OPCODE_BIND_MW && !load_relaxed(&q->qp.binds))
		return V_LOCAL_QP_OP;
	if (reads && (!q->qp.attr.max_rd_atomic || (w->inlined && !form_brings_data(w))))
		return V_LOCAL_QP_OP;
	if (reads && w->opcode != MLX5_OPCODE_RDMA_READ && w->len != 8)
		return V_LOCAL_LENGTH;
	if (q->qp.service->one_packet && w->len > q->req.mtu)
		return V_LOCAL_LENGTH;
	return V_OK;
}
