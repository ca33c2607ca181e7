// SPDX-License-Identifier: MIT
#include "mlx5dv/hand.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "verbs/said.h"

#ifndef HAND_DOORBELL
#define HAND_DOORBELL "trap"
#endif

struct peer_dev dev;
uint8_t *mem;
struct ibv_mr *mr;
struct hand a, b;

void record(__be32 *r, uint32_t value)
{
	__atomic_store_n(r, htobe32(value), __ATOMIC_RELEASE);
}

void open_memory(void)
{
	setenv("SOFTHCA_DOORBELL", HAND_DOORBELL, 0);
	said_begin();
	peer_open(&dev);
	mem = peer_memory(BYTES, false);
	mr = ibv_reg_mr(dev.pd, mem, BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	want(mr);
}

void endpoint(struct hand *h, enum ibv_qp_type type, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr attr = { .qp_type = type,
					 .srq = srq,
					 .cap = { WRS, WRS, 2, 2, 64 } };
	struct mlx5dv_obj obj = { .qp = { .out = &h->qp }, .cq = { .out = &h->cq } };

	h->channel = ibv_create_comp_channel(dev.ctx);
	want(h->channel);
	h->ep.scq = h->ep.rcq = ibv_create_cq(dev.ctx, 31, NULL, h->channel, 0);
	want(h->ep.scq);
	attr.send_cq = attr.recv_cq = h->ep.scq;
	h->ep.qp = ibv_create_qp(dev.pd, &attr);
	want(h->ep.qp);
	h->ep.mine = (struct peer_addr){ .qpn = h->ep.qp->qp_num, .psn = 7, .gid = dev.gid };
	obj.qp.in = h->ep.qp;
	obj.cq.in = h->ep.scq;
	h->qp.comp_mask = MLX5DV_QP_MASK_UAR_MMAP_OFFSET;
	want_eq(mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ), 0);
}

void connected(enum ibv_qp_type type, struct ibv_srq *srq)
{
	struct peer_opts o = { .type = type };

	endpoint(&a, type, NULL);
	endpoint(&b, type, srq);
	a.ep.theirs = b.ep.mine;
	b.ep.theirs = a.ep.mine;
	peer_connect(&a.ep, &o);
	peer_connect(&b.ep, &o);
}

void *block(struct hand *h, uint16_t i)
{
	return (uint8_t *)h->qp.sq.buf + (size_t)(i % h->qp.sq.wqe_cnt) * BLOCK;
}

void announce(struct hand *h, const void *ctrl)
{
	uint64_t first;

	record(&h->qp.dbrec[MLX5_SND_DBR], h->sent);
	memcpy(&first, ctrl, sizeof(first));
	*(volatile uint64_t *)h->qp.bf.reg = first;
}

const void *write_wqe(struct hand *h, const struct hand_op *op, const void *segs, size_t n)
{
	uint8_t wqe[16 * BLOCK] = { 0 };
	size_t size = sizeof(struct mlx5_wqe_ctrl_seg) + n;
	const void *first = block(h, h->sent);

	mlx5dv_set_ctrl_seg((void *)wqe, h->sent, op->code, 0, h->ep.qp->qp_num, op->flags,
			    (uint8_t)(size / SEG), 0, htobe32(op->imm));
	if (n)
		memcpy(wqe + sizeof(struct mlx5_wqe_ctrl_seg), segs, n);
	for (const uint8_t *p = wqe; p < wqe + size; p += BLOCK)
		memcpy(block(h, h->sent++), p, BLOCK);
	return first;
}

const void *write_send(struct hand *h, const struct mlx5_wqe_av *av, uint8_t flags, uint32_t imm)
{
	uint8_t segs[3 * BLOCK] = { 0 }, *at = segs;
	uint32_t head = htobe32(INLINED | 0x80000000U);
	struct hand_op op = { MLX5_OPCODE_SEND_IMM, flags, imm };

	if (av) {
		memcpy(at, av, sizeof(*av));
		at += sizeof(*av);
	}
	memcpy(at, &head, sizeof(head));
	memcpy(at + sizeof(head), mem, INLINED);
	at += (sizeof(head) + INLINED + SEG - 1) / SEG * SEG;
	mlx5dv_set_data_seg((void *)at, LEN - INLINED, mr->lkey, (uintptr_t)mem + INLINED);
	return write_wqe(h, &op, segs, (size_t)(at + SEG - segs));
}

void hand_send(struct hand *h, uint8_t flags, uint32_t imm)
{
	announce(h, write_send(h, NULL, flags, imm));
}

void write_recv(struct hand *h)
{
	struct mlx5_wqe_data_seg *to =
		(void *)((uint8_t *)h->qp.rq.buf +
			 (size_t)(h->received % h->qp.rq.wqe_cnt) * h->qp.rq.stride);

	mlx5dv_set_data_seg(&to[0], 60, mr->lkey, (uintptr_t)mem + HALF);
	mlx5dv_set_data_seg(&to[1], HALF - 60, mr->lkey, (uintptr_t)mem + HALF + 60);
	h->received++;
}

void hand_recv(struct hand *h)
{
	write_recv(h);
	record(&h->qp.dbrec[MLX5_RCV_DBR], h->received);
}

struct mlx5_cqe64 *entry(struct hand *h)
{
	uint8_t *end =
		(uint8_t *)h->cq.buf + (size_t)(h->polled % h->cq.cqe_cnt + 1) * h->cq.cqe_size;

	return (struct mlx5_cqe64 *)(end - sizeof(struct mlx5_cqe64));
}

bool ready(struct hand *h)
{
	uint8_t own = __atomic_load_n(&entry(h)->op_own, __ATOMIC_ACQUIRE);

	return own >> 4 != MLX5_CQE_INVALID && (own & 1) == !!(h->polled & h->cq.cqe_cnt);
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

bool comes(struct hand *h, unsigned int ms)
{
	uint64_t end = now_ms() + ms;

	while (!ready(h))
		if (now_ms() > end)
			return false;
	return true;
}

struct mlx5_cqe64 take(struct hand *h)
{
	struct mlx5_cqe64 e;

	if (!comes(h, 10000))
		fail("no entry %u came", h->polled);
	e = *entry(h);
	h->polled++;
	record(&h->cq.dbrec[0], h->polled & 0xffffff);
	return e;
}

void sent_ok(struct hand *h, uint16_t at)
{
	struct mlx5_cqe64 e = take(h);

	want_eq(mlx5dv_get_cqe_opcode(&e), MLX5_CQE_REQ);
	want_eq(be32toh(e.sop_drop_qpn), (uint32_t)MLX5_OPCODE_SEND_IMM << 24 | h->ep.qp->qp_num);
	want_eq(be16toh(e.wqe_counter), at);
}

struct mlx5_cqe64 received_ok(struct hand *h, uint32_t len, uint32_t imm)
{
	struct mlx5_cqe64 e = take(h);

	want_eq(mlx5dv_get_cqe_opcode(&e), MLX5_CQE_RESP_SEND_IMM);
	want_eq(be32toh(e.sop_drop_qpn) & 0xffffff, h->ep.qp->qp_num);
	want_eq(be32toh(e.byte_cnt), len);
	want_eq(be32toh(e.imm_inval_pkey), imm);
	return e;
}

void errs(struct hand *h)
{
	struct mlx5_cqe64 e = take(h);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	want_eq(mlx5dv_get_cqe_opcode(&e), MLX5_CQE_REQ_ERR);
	want_eq(ibv_query_qp(h->ep.qp, &attr, IBV_QP_STATE, &init), 0);
	want_eq(attr.qp_state, IBV_QPS_ERR);
}

void hand_messages(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint16_t at = a.sent;

		hand_recv(&b);
		hand_send(&a, MLX5_WQE_CTRL_CQ_UPDATE, i);
		received_ok(&b, LEN, i);
		sent_ok(&a, at);
	}
}
