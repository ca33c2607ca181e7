// SPDX-License-Identifier: MIT
/* Work requests by the ibv_wr_* API: the same ones that ibv_post_send takes, as one batch. */
#include <errno.h>
#include <string.h>
#include "property/side.h"

#define DATAGRAMS (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM)
#define UNRELIABLE                                                                                 \
	(DATAGRAMS | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV |                           \
	 IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
#define RELIABLE                                                                                   \
	(UNRELIABLE | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |               \
	 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)

uint64_t builder_ops(enum ibv_qp_type type)
{
	if (type == IBV_QPT_RC)
		return RELIABLE | IBV_QP_EX_WITH_ATOMIC_WRITE | IBV_QP_EX_WITH_SEND_WITH_INV;
	if (type == IBV_QPT_XRC_SEND)
		return RELIABLE;
	if (type == IBV_QPT_RAW_PACKET)
		return IBV_QP_EX_WITH_SEND;
	return type == IBV_QPT_UC ? UNRELIABLE : DATAGRAMS;
}

static void atomic_op(struct ibv_qp_ex *x, const struct ibv_send_wr *wr)
{
	uint32_t rkey = wr->wr.atomic.rkey;
	uint64_t at = wr->wr.atomic.remote_addr;

	if (wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		ibv_wr_atomic_fetch_add(x, rkey, at, wr->wr.atomic.compare_add);
	else
		ibv_wr_atomic_cmp_swp(x, rkey, at, wr->wr.atomic.compare_add, wr->wr.atomic.swap);
}

/* The call that begins the operation. */
static void begin(struct ibv_qp_ex *x, const struct ibv_send_wr *wr)
{
	uint32_t rkey = wr->wr.rdma.rkey;
	uint64_t at = wr->wr.rdma.remote_addr;

	x->wr_id = wr->wr_id;
	x->wr_flags = wr->send_flags;
	switch (wr->opcode) {
	case IBV_WR_SEND:
		ibv_wr_send(x);
		break;
	case IBV_WR_SEND_WITH_IMM:
		ibv_wr_send_imm(x, wr->imm_data);
		break;
	case IBV_WR_SEND_WITH_INV:
		ibv_wr_send_inv(x, wr->invalidate_rkey);
		break;
	case IBV_WR_LOCAL_INV:
		ibv_wr_local_inv(x, wr->invalidate_rkey);
		break;
	case IBV_WR_BIND_MW:
		ibv_wr_bind_mw(x, wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
		break;
	case IBV_WR_RDMA_WRITE:
		ibv_wr_rdma_write(x, rkey, at);
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		ibv_wr_rdma_write_imm(x, rkey, at, wr->imm_data);
		break;
	case IBV_WR_RDMA_READ:
		ibv_wr_rdma_read(x, rkey, at);
		break;
	case IBV_WR_ATOMIC_WRITE:
		ibv_wr_atomic_write(x, rkey, at, (const void *)(uintptr_t)wr->sg_list->addr);
		break;
	default:
		atomic_op(x, wr);
	}
}

static void data(struct ibv_qp_ex *x, const struct ibv_send_wr *wr)
{
	size_t n = (size_t)wr->num_sge;
	struct ibv_data_buf buf[SGES];

	if (wr->opcode == IBV_WR_ATOMIC_WRITE || !n)
		return;
	for (size_t i = 0; i < n; i++) {
		buf[i].addr = (void *)(uintptr_t)wr->sg_list[i].addr;
		buf[i].length = wr->sg_list[i].length;
	}
	if (wr->send_flags & IBV_SEND_INLINE && n == 1)
		ibv_wr_set_inline_data(x, buf[0].addr, buf[0].length);
	else if (wr->send_flags & IBV_SEND_INLINE)
		ibv_wr_set_inline_data_list(x, n, buf);
	else if (n == 1)
		ibv_wr_set_sge(x, wr->sg_list->lkey, wr->sg_list->addr, wr->sg_list->length);
	else
		ibv_wr_set_sge_list(x, n, wr->sg_list);
}

static void add(struct side *s, const struct ibv_send_wr *wr)
{
	begin(s->qpx, wr);
	if (s->v.l->type == IBV_QPT_UD)
		ibv_wr_set_ud_addr(s->qpx, wr->wr.ud.ah, wr->wr.ud.remote_qpn,
				   wr->wr.ud.remote_qkey);
	if (s->v.l->type == IBV_QPT_XRC_SEND)
		ibv_wr_set_xrc_srqn(s->qpx, wr->qp_type.xrc.remote_srqn);
	data(s->qpx, wr);
}

int builder_post(struct side *s, struct ibv_send_wr *list)
{
	ibv_wr_start(s->qpx);
	for (; list; list = list->next)
		add(s, list);
	return ibv_wr_complete(s->qpx);
}

void builder_refused(struct side *s, struct ibv_send_wr *wr)
{
	int err;

	ibv_wr_start(s->qpx);
	if (wr)
		add(s, wr);
	ibv_wr_abort(s->qpx);
	ibv_wr_start(s->qpx);
	if (wr)
		add(s, wr);
	ibv_wr_set_sge(s->qpx, s->mr->lkey, (uintptr_t)s->mem, 8); /* of nothing, or once more */
	err = ibv_wr_complete(s->qpx);
	must_eq(s, err, EINVAL);
	if (reliable(s->v.l))
		return;
	ibv_wr_start(s->qpx);
	ibv_wr_atomic_fetch_add(s->qpx, 0, 0, 0); /* not of this type of QP */
	must_eq(s, ibv_wr_complete(s->qpx), EINVAL);
}
