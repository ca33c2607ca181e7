// SPDX-License-Identifier: MIT
/* The operations and services that programs write into rings themselves: ends of rings and of
 * indices, immediates and fences, XRC and DC. Each with entries of 64 bytes and of 128. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include "mlx5dv/dc_duo.h"
#include "mlx5dv/hand.h"
#include "verbs/said.h"

enum { SMALL_ENTRIES = 64, LARGE_ENTRIES = 128 };
enum { SHORT = 100 /* inline */, PIECE = 3000 /* by a key */ };

static struct ibv_mr *all; /* of mem, for peers */

static void begin(int entries)
{
	setenv("MLX5_CQE_SIZE", entries == LARGE_ENTRIES ? "128" : "64", 1);
	open_memory();
	all = ibv_reg_mr(dev.pd, mem, BYTES,
			 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				 IBV_ACCESS_REMOTE_ATOMIC);
	want(all);
}

static void both(int entries, enum ibv_qp_type type)
{
	begin(entries);
	connected(type, NULL);
	want_eq(a.cq.cqe_size, entries);
}

/* Completion of the WQE at block @at */
static void done(uint8_t opcode, uint16_t at)
{
	struct mlx5_cqe64 e = take(&a);

	want_eq(mlx5dv_get_cqe_opcode(&e), MLX5_CQE_REQ);
	want_eq(be32toh(e.sop_drop_qpn), (uint32_t)opcode << 24 | a.ep.qp->qp_num);
	want_eq(be16toh(e.wqe_counter), at);
}

/* Inline data, then a list of two: three blocks, so that each part of a WQE comes to lie across the
 * ring's end. Behind @fixed bytes of other segments. */
static const void *write_long(const void *fixed, size_t n, struct hand_op op, uint32_t seed)
{
	uint8_t segs[5 * BLOCK] = { 0 }, *at = segs + n;
	uint32_t head = htobe32(SHORT | 0x80000000U);

	pattern_fill(mem, SHORT + 2 * PIECE, seed, 0);
	if (n)
		memcpy(segs, fixed, n);
	memcpy(at, &head, sizeof(head));
	memcpy(at + sizeof(head), mem, SHORT);
	at += (sizeof(head) + SHORT + SEG - 1) / SEG * SEG;
	mlx5dv_set_data_seg((void *)at, PIECE, mr->lkey, (uintptr_t)mem + SHORT);
	mlx5dv_set_data_seg((void *)(at + SEG), PIECE, mr->lkey, (uintptr_t)mem + SHORT + PIECE);
	return write_wqe(&a, &op, segs, (size_t)(at + 2 * SEG - segs));
}

static bool arrived(uint32_t skip, uint32_t seed)
{
	enum { N = SHORT + 2 * PIECE };

	return pattern_check(mem + HALF + skip, N, seed, 0) == N;
}

static void around_the_end(int entries)
{
	const struct hand_op op = { MLX5_OPCODE_SEND_IMM, MLX5_WQE_CTRL_CQ_UPDATE, 77 };

	both(entries, IBV_QPT_RC);
	want(a.qp.sq.wqe_cnt % 3);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint16_t at = a.sent;

		hand_recv(&b);
		announce(&a, write_long(NULL, 0, op, i));
		want_eq((uint16_t)(a.sent - at), 3);
		received_ok(&b, SHORT + 2 * PIECE, 77);
		done(op.code, at);
		want(arrived(0, i));
	}
}

static struct mlx5_wqe_av av_of(struct ibv_ah *ah)
{
	struct mlx5dv_ah of;
	struct mlx5dv_obj obj = { .ah = { ah, &of } };

	want_eq(mlx5dv_init_obj(&obj, MLX5DV_OBJ_AH), 0);
	return *of.av;
}

/* Address vectors come to lie across it, too: WQEs of one block stand between them. */
static void datagrams_around_the_end(int entries)
{
	struct mlx5_wqe_av av;
	struct ibv_ah *ah;

	both(entries, IBV_QPT_UD);
	ah = peer_ah(&dev, &b.ep.mine);
	av = av_of(ah);
	av.dqp_dct |= htobe32(b.ep.mine.qpn);
	av.key.qkey.qkey = htobe32(0x11111111);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		const struct hand_op nop = { MLX5_OPCODE_NOP, MLX5_WQE_CTRL_CQ_UPDATE, 0 };
		uint16_t at = a.sent;

		if (i % 3 == 0) {
			announce(&a, write_wqe(&a, &nop, NULL, 0));
			done(nop.code, at);
			at = a.sent;
		}
		hand_recv(&b);
		announce(&a, write_send(&a, &av, MLX5_WQE_CTRL_CQ_UPDATE, i));
		received_ok(&b, LEN + 40, i);
		sent_ok(&a, at);
	}
	want_eq(ibv_destroy_ah(ah), 0);
}

struct to {
	struct mlx5_wqe_raddr_seg at;
};

static struct to to_second_half(void)
{
	return (struct to){ { htobe64((uintptr_t)mem + HALF), htobe32(all->rkey), 0 } };
}

static void immediates(int entries)
{
	const struct hand_op op = { MLX5_OPCODE_RDMA_WRITE_IMM,
				    MLX5_WQE_CTRL_CQ_UPDATE | MLX5_WQE_CTRL_SOLICITED, 0xabcdef01 };

	both(entries, IBV_QPT_RC);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		struct to to = to_second_half();
		struct mlx5_cqe64 e;
		uint16_t at = a.sent;

		hand_recv(&b);
		announce(&a, write_long(&to, sizeof(to), op, i));
		e = take(&b);
		want_eq(mlx5dv_get_cqe_opcode(&e), MLX5_CQE_RESP_WR_IMM);
		want_eq(be32toh(e.byte_cnt), SHORT + 2 * PIECE);
		want_eq(be32toh(e.imm_inval_pkey), op.imm);
		want_eq(be16toh(e.wqe_counter), (uint16_t)i);
		want(e.op_own & 2); /* solicited */
		done(op.code, at);
		want(arrived(0, i));
	}
}

/* What a READ brings is what the fenced message behind it carries, all announced at once. */
static void fences(int fence)
{
	struct to to;
	struct {
		struct to to;
		struct mlx5_wqe_data_seg data;
	} read;
	struct mlx5_wqe_data_seg data;
	uint32_t len = 4096;

	both(SMALL_ENTRIES, IBV_QPT_RC);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		struct hand_op op = { MLX5_OPCODE_RDMA_READ, 0, 0 };
		uint16_t at;

		to = to_second_half();
		to.at.raddr = htobe64((uintptr_t)mem + HALF + len);
		read.to = to;
		pattern_fill(mem + HALF + len, len, i, 0);
		hand_recv(&b);
		mlx5dv_set_data_seg(&read.data, len, mr->lkey, (uintptr_t)mem);
		write_wqe(&a, &op, &read, sizeof(read));
		at = a.sent;
		mlx5dv_set_data_seg(&data, len, mr->lkey, (uintptr_t)mem);
		op = (struct hand_op){ MLX5_OPCODE_SEND_IMM,
				       (uint8_t)(fence | MLX5_WQE_CTRL_CQ_UPDATE), 3 };
		announce(&a, write_wqe(&a, &op, &data, sizeof(data)));
		received_ok(&b, len, 3);
		done(op.code, at);
		want_eq(pattern_check(mem + HALF, len, i, 0), len);
	}
}

/* --- indices --- */

/* Receives, too, are counted with 16 bits that go on behind their end. */
static void around_the_receive_index(int entries)
{
	enum { MANY = 0x10000 + 3 * WRS };

	both(entries, IBV_QPT_RC);
	for (uint32_t i = 0; i < MANY; i += WRS) {
		const void *first = NULL;

		for (int k = 0; k < WRS; k++)
			write_recv(&b);
		record(&b.qp.dbrec[MLX5_RCV_DBR], b.received);
		for (uint32_t k = 0; k < WRS; k++) {
			bool last = k == WRS - 1;
			const struct hand_op op = { MLX5_OPCODE_SEND_IMM,
						    last ? MLX5_WQE_CTRL_CQ_UPDATE : 0, i + k };

			first = write_wqe(&a, &op, NULL, 0);
		}
		announce(&a, first);
		for (uint32_t k = 0; k < WRS; k++)
			want_eq(be16toh(received_ok(&b, 0, i + k).wqe_counter), (uint16_t)(i + k));
		done(MLX5_OPCODE_SEND_IMM, (uint16_t)(a.sent - 1));
	}
}

static void large_queue(struct hand *h, uint32_t n)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .cap = { n, 1, 1, 1, 0 } };
	struct mlx5dv_obj obj = { .qp = { .out = &h->qp }, .cq = { .out = &h->cq } };
	struct peer_opts o = { .type = IBV_QPT_RC };

	attr.send_cq = attr.recv_cq = ibv_create_cq(dev.ctx, (int)(2 * n), NULL, NULL, 0);
	want(attr.send_cq);
	h->ep.qp = ibv_create_qp(dev.pd, &attr);
	want(h->ep.qp);
	obj.qp.in = h->ep.qp;
	obj.cq.in = attr.send_cq;
	want_eq(mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ), 0);
	h->ep.mine = (struct peer_addr){ .qpn = h->ep.qp->qp_num, .psn = 7, .gid = dev.gid };
	h->ep.theirs = h->ep.mine;
	peer_connect(&h->ep, &o);
}

/* Entries are counted with 24 bits. At full length more than these come; else as many as are
 * cheap. */
static void around_the_consumer_index(int entries)
{
	const struct hand_op nop = { MLX5_OPCODE_NOP, MLX5_WQE_CTRL_CQ_UPDATE, 0 };
	uint32_t n = 2048, times = (cases_full() && !cases_sanitized() ? (1U << 24) / n : 20) + 3;

	begin(entries);
	large_queue(&a, n);
	for (uint32_t i = 0; i < times; i++) {
		const void *first = NULL;

		for (uint32_t k = 0; k < n; k++)
			first = write_wqe(&a, &nop, NULL, 0);
		announce(&a, first);
		for (uint32_t k = 0; k < n; k++)
			done(nop.code, (uint16_t)(i * n + k));
	}
	want_eq(a.polled, times * n);
}

/* --- services --- */

static struct ibv_srq *xrc_srq(struct ibv_xrcd *xrcd, struct mlx5dv_srq *out)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = 7, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = dev.pd,
		.xrcd = xrcd,
		.cq = ibv_create_cq(dev.ctx, 31, NULL, NULL, 0),
	};
	struct mlx5dv_obj obj = { .srq = { .out = out }, .cq = { attr.cq, &b.cq } };

	want(attr.cq);
	obj.srq.in = ibv_create_srq_ex(dev.ctx, &attr);
	want(obj.srq.in);
	out->comp_mask = MLX5DV_SRQ_MASK_SRQN;
	want_eq(mlx5dv_init_obj(&obj, MLX5DV_OBJ_SRQ | MLX5DV_OBJ_CQ), 0);
	return obj.srq.in;
}

static struct ibv_qp *xrc_qp(enum ibv_qp_type type, struct ibv_xrcd *xrcd)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = type,
		.cap = { .max_send_wr = WRS, .max_send_sge = 2, .max_inline_data = 64 }
	};

	if (xrcd) {
		attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
		attr.xrcd = xrcd;
	} else {
		attr.comp_mask = IBV_QP_INIT_ATTR_PD;
		attr.pd = dev.pd;
		attr.send_cq = ibv_create_cq(dev.ctx, 31, NULL, NULL, 0);
	}
	return ibv_create_qp_ex(dev.ctx, &attr);
}

static void join(struct ibv_qp *qp, const struct ibv_qp *to)
{
	struct peer_ep ep = { .qp = qp };
	struct peer_opts o = { .type = IBV_QPT_RC };

	ep.mine = (struct peer_addr){ .psn = 7, .gid = dev.gid };
	ep.theirs = ep.mine;
	ep.theirs.qpn = to->qp_num;
	peer_connect(&ep, &o);
}

static void post_shared(struct mlx5dv_srq *s, uint16_t *posted)
{
	struct mlx5_wqe_srq_next_seg *slot =
		(void *)((uint8_t *)s->buf + (size_t)s->head * s->stride);

	mlx5dv_set_data_seg((void *)(slot + 1), HALF, mr->lkey, (uintptr_t)mem + HALF);
	s->head = be16toh(slot->next_wqe_index);
	record(s->dbrec, ++*posted);
}

static void free_shared(struct mlx5dv_srq *s, uint16_t i)
{
	struct mlx5_wqe_srq_next_seg *last =
		(void *)((uint8_t *)s->buf + (size_t)s->tail * s->stride);

	last->next_wqe_index = htobe16(i);
	s->tail = i;
}

/* Both ends by hand: the sender's ring, and the shared receives that its messages name. */
static void xrc(int entries)
{
	struct ibv_xrcd_init_attr none = { IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, -1,
					   O_CREAT };
	const struct hand_op op = { MLX5_OPCODE_SEND_IMM, MLX5_WQE_CTRL_CQ_UPDATE, 5 };
	struct mlx5dv_obj obj = { .qp = { .out = &a.qp }, .cq = { .out = &a.cq } };
	struct mlx5dv_srq shared = { 0 };
	struct ibv_xrcd *xrcd;
	struct ibv_qp *target;
	uint16_t posted = 0;

	begin(entries);
	xrcd = ibv_open_xrcd(dev.ctx, &none);
	want(xrcd);
	want(xrc_srq(xrcd, &shared) && shared.srqn);
	target = xrc_qp(IBV_QPT_XRC_RECV, xrcd);
	a.ep.qp = xrc_qp(IBV_QPT_XRC_SEND, NULL);
	want(target && a.ep.qp);
	obj.qp.in = a.ep.qp;
	obj.cq.in = a.ep.qp->send_cq;
	want_eq(mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ), 0);
	join(target, a.ep.qp);
	join(a.ep.qp, target);
	b.ep.qp = target; /* entries name it */
	for (uint32_t i = 0; i < ROUNDS; i++) {
		__be32 name[SEG / 4] = { htobe32(shared.srqn) };
		struct mlx5_cqe64 e;
		uint16_t at = a.sent;

		post_shared(&shared, &posted);
		announce(&a, write_long(name, sizeof(name), op, i));
		e = received_ok(&b, SHORT + 2 * PIECE, op.imm);
		free_shared(&shared, be16toh(e.wqe_counter));
		done(op.code, at);
		want(arrived(0, i));
	}
}

/* An initiator's ring to each of the targets in turn. */
static void dc(int entries)
{
	struct mlx5dv_obj obj = { .qp = { .out = &a.qp }, .cq = { .out = &a.cq } };
	static struct dc_duo d;
	struct mlx5_wqe_av av;

	setenv("MLX5_CQE_SIZE", entries == LARGE_ENTRIES ? "128" : "64", 1);
	said_begin();
	dc_open(&d, THIS_PROCESS);
	mem = d.mem;
	mr = d.mr;
	a.ep.qp = obj.qp.in = d.i.qp;
	obj.cq.in = d.i.cq;
	want_eq(mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ), 0);
	want_eq(a.cq.cqe_size, entries);
	av = av_of(d.ah);
	av.key.dc_key = htobe64(DC_KEY);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		const struct hand_op op = { MLX5_OPCODE_RDMA_WRITE, MLX5_WQE_CTRL_CQ_UPDATE, 0 };
		struct dc_order o = { DC_RECV, i % d.targets, DC_BYTES, i };
		struct {
			struct mlx5_wqe_av av;
			struct mlx5_wqe_raddr_seg to;
		} far = { av, { htobe64(d.to[o.target].va), htobe32(d.to[o.target].rkey), 0 } };
		struct dc_answer got;
		uint16_t at = a.sent;

		far.av.dqp_dct |= htobe32(d.to[o.target].dctn);
		want(dc_tell(&d, o).found);
		announce(&a, write_send(&a, &far.av, MLX5_WQE_CTRL_CQ_UPDATE, i));
		sent_ok(&a, at);
		got = dc_tell(&d, (struct dc_order){ DC_POLL, .target = o.target });
		want(got.found && got.wc.status == IBV_WC_SUCCESS && got.wc.byte_len == LEN);
		want_eq(be32toh(got.wc.imm_data), i);
		at = a.sent;
		announce(&a, write_long(&far, sizeof(far), op, i));
		done(op.code, at);
		o = (struct dc_order){ DC_CHECK, o.target, SHORT + 2 * PIECE, i };
		want(dc_tell(&d, o).found);
	}
}

#define EACH(f) CASE_ARG(f, SMALL_ENTRIES), CASE_ARG(f, LARGE_ENTRIES)

static const struct test_case cases[] = {
	EACH(around_the_end),
	EACH(datagrams_around_the_end),
	EACH(immediates),
	CASE_ARG(fences, MLX5_WQE_CTRL_FENCE),
	CASE_ARG(fences, MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE),
	EACH(around_the_receive_index),
	EACH(around_the_consumer_index),
	EACH(xrc),
	EACH(dc),
};

int main(void)
{
	return CASES_RUN(cases);
}
