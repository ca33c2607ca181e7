// SPDX-License-Identifier: MIT
/* Ethernet frames by a program that knows the formats alone: the send ring of a RAW_PACKET queue
 * pair, its receive ring, and the ring of a work queue. */
#include <stdlib.h>
#include <string.h>
#include "mlx5dv/hand.h"
#include "verbs/ether.h"

enum { TARGET = 1, L2 = 14, FRAMES = 3 * ETHER_SLOTS, QUEUE, WORK_QUEUE, LARGE_ENTRIES };

static struct ether tx, rx;
static struct { /* the receive ring that is filled by hand */
	uint8_t *buf;
	__be32 *dbrec;
	uint32_t cnt, stride;
} ring;

static void laid_open(struct hand *h, struct ibv_qp *qp, struct ibv_cq *cq)
{
	struct mlx5dv_obj obj = { .qp = { qp, &h->qp }, .cq = { cq, &h->cq } };

	h->ep.qp = qp;
	want_eq(mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ | (qp ? MLX5DV_OBJ_QP : 0)), 0);
}

static void receives_by_a_queue_pair(void)
{
	ether_open(&dev, 0, &rx);
	laid_open(&b, rx.qp, ibv_cq_ex_to_cq(rx.cq));
	ring.buf = b.qp.rq.buf;
	ring.dbrec = &b.qp.dbrec[MLX5_RCV_DBR];
	ring.cnt = b.qp.rq.wqe_cnt;
	ring.stride = b.qp.rq.stride;
}

static void receives_by_a_work_queue(void)
{
	struct ibv_wq_init_attr wa = { .wq_type = IBV_WQT_RQ, .max_wr = ETHER_SLOTS, .max_sge = 3 };
	struct ibv_wq_attr ready = { .attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY };
	uint8_t key[40] = { 1 };
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask =
			IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH,
		.rx_hash_conf = { IBV_RX_HASH_FUNC_TOEPLITZ, sizeof(key), key,
				  IBV_RX_HASH_SRC_IPV4 },
	};
	struct mlx5dv_rwq wq = { 0 };
	struct mlx5dv_obj obj = { .rwq.out = &wq };
	struct ibv_rwq_ind_table_init_attr t = { .ind_tbl = &obj.rwq.in };
	size_t bytes = (size_t)ETHER_SLOTS * ETHER_ROOM;

	wa.pd = init.pd = dev.pd;
	wa.cq = ibv_create_cq(dev.ctx, 2 * ETHER_SLOTS, NULL, NULL, 0);
	want(wa.cq);
	obj.rwq.in = ibv_create_wq(dev.ctx, &wa);
	want(obj.rwq.in);
	want_eq(ibv_modify_wq(obj.rwq.in, &ready), 0);
	init.rwq_ind_tbl = ibv_create_rwq_ind_table(dev.ctx, &t);
	want(init.rwq_ind_tbl);
	rx.qp = ibv_create_qp_ex(dev.ctx, &init);
	rx.mem = peer_memory(bytes, false);
	rx.mr = ibv_reg_mr(dev.pd, rx.mem, bytes, IBV_ACCESS_LOCAL_WRITE);
	want(rx.qp && rx.mr);
	want_eq(mlx5dv_init_obj(&obj, MLX5DV_OBJ_RWQ), 0);
	laid_open(&b, NULL, wa.cq);
	ring.buf = wq.buf;
	ring.dbrec = &wq.dbrec[MLX5_RCV_DBR];
	ring.cnt = wq.wqe_cnt;
	ring.stride = wq.stride;
}

static uint8_t *slot(uint32_t i)
{
	return rx.mem + (size_t)(i % ETHER_SLOTS) * ETHER_ROOM;
}

static void receive(void)
{
	struct mlx5_wqe_data_seg *to =
		(void *)(ring.buf + (size_t)(b.received % ring.cnt) * ring.stride);

	mlx5dv_set_data_seg(to, ETHER_ROOM, rx.mr->lkey, (uintptr_t)slot(b.received));
	if (ring.stride > SEG) /* the list is shorter than its room */
		mlx5dv_set_data_seg(to + 1, 0, 0x100, 0);
	record(ring.dbrec, ++b.received);
}

/* @inlined bytes of @frame in the WQE, the rest by a key. */
static void send_frame(const uint8_t *frame, size_t len, uint16_t inlined, uint8_t checksums)
{
	uint8_t wqe[4 * BLOCK] = { 0 }, *at = wqe + sizeof(struct mlx5_wqe_ctrl_seg);
	uint8_t *from = tx.mem + (size_t)ETHER_SLOTS * ETHER_ROOM;
	const void *first = block(&a, a.sent);
	struct mlx5_wqe_eth_seg eth = { .cs_flags = checksums, .inline_hdr_sz = htobe16(inlined) };
	size_t more = inlined > 2 ? (inlined - 2U + SEG - 1) / SEG * SEG : 0, ds;

	memcpy(from, frame, len);
	memcpy(at, &eth, SEG);
	memcpy(at + offsetof(struct mlx5_wqe_eth_seg, inline_hdr_start), frame, inlined);
	at += SEG + more;
	mlx5dv_set_data_seg((void *)at, (uint32_t)(len - inlined), tx.mr->lkey,
			    (uintptr_t)from + inlined);
	ds = (size_t)(at + SEG - wqe) / SEG;
	mlx5dv_set_ctrl_seg((void *)wqe, a.sent, MLX5_OPCODE_SEND, 0, tx.qp->qp_num,
			    MLX5_WQE_CTRL_CQ_UPDATE, (uint8_t)ds, 0, 0);
	for (uint8_t *p = wqe; p < wqe + ds * SEG; p += BLOCK)
		memcpy(block(&a, a.sent++), p, BLOCK);
	announce(&a, first);
}

/* Every second frame lacks its IP checksum, which the device fills in. */
static void frame(uint32_t i)
{
	static const uint16_t inlined[] = { 0, 18, L2, 40 };
	struct ether_frame f = { .dst = TARGET, .ip = 4, .sport = 5, .len = (uint16_t)(60 + i) };
	uint8_t right[ETHER_ROOM], given[ETHER_ROOM];
	size_t len = ether_build(&f, right);
	struct mlx5_cqe64 e;
	uint16_t at = a.sent;

	peer_note("frame %u", i);
	memcpy(given, right, len);
	if (i % 2)
		memset(given + L2 + 10, 0, 2);
	receive();
	send_frame(given, len, inlined[i % 4], i % 2 ? MLX5_ETH_WQE_L3_CSUM : 0);
	e = take(&a);
	want_eq(mlx5dv_get_cqe_opcode(&e), MLX5_CQE_REQ);
	want_eq(be16toh(e.wqe_counter), at);
	e = take(&b);
	want_eq(mlx5dv_get_cqe_opcode(&e), MLX5_CQE_RESP_SEND);
	want_eq(be16toh(e.wqe_counter), (uint16_t)i);
	want_eq(be32toh(e.byte_cnt), len);
	want_eq(e.hds_ip_ext & (MLX5_CQE_L3_OK | MLX5_CQE_L4_OK), MLX5_CQE_L3_OK | MLX5_CQE_L4_OK);
	want(!memcmp(slot(i), right, len));
}

static void frames(int by)
{
	struct ether_rule r = ether_rule(IBV_FLOW_ATTR_NORMAL, 0);

	if (by == LARGE_ENTRIES)
		setenv("MLX5_CQE_SIZE", "128", 1);
	open_memory();
	ether_open(&dev, 0, &tx);
	laid_open(&a, tx.qp, ibv_cq_ex_to_cq(tx.cq));
	if (by == WORK_QUEUE)
		receives_by_a_work_queue();
	else
		receives_by_a_queue_pair();
	want_eq(b.cq.cqe_size, by == LARGE_ENTRIES ? 128 : 64);
	ether_spec_dst(&r, TARGET);
	ether_steer(&rx, &r);
	for (uint32_t i = 0; i < FRAMES; i++)
		frame(i);
}

static void wq_to(struct ibv_wq *wq, enum ibv_wq_state state)
{
	struct ibv_wq_attr attr = { .attr_mask = IBV_WQ_ATTR_STATE, .wq_state = state };

	want_eq(ibv_modify_wq(wq, &attr), 0);
}

/* The WQEs up to @posted come back, each once. */
static void flushed(uint16_t posted)
{
	for (; b.received != posted; b.received++) {
		struct mlx5_cqe64 e = take(&b);
		const struct mlx5_err_cqe *err = (const void *)&e;

		want_eq(mlx5dv_get_cqe_opcode(&e), MLX5_CQE_RESP_ERR);
		want_eq(err->syndrome, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
		want_eq(be16toh(err->wqe_counter), b.received);
	}
	want(!ready(&b));
}

/* What is posted to a work queue in ERR is flushed, though the program makes no call. */
static void posted_in_err(int arg)
{
	struct ibv_wq_init_attr wa = { .wq_type = IBV_WQT_RQ, .max_wr = 4, .max_sge = 1 };
	struct mlx5dv_rwq wq = { 0 };
	struct mlx5dv_obj obj = { .rwq.out = &wq };

	(void)arg;
	open_memory();
	wa.pd = dev.pd;
	wa.cq = ibv_create_cq(dev.ctx, 8, NULL, NULL, 0);
	want(wa.cq);
	obj.rwq.in = ibv_create_wq(dev.ctx, &wa);
	want(obj.rwq.in);
	want_eq(mlx5dv_init_obj(&obj, MLX5DV_OBJ_RWQ), 0);
	laid_open(&b, NULL, wa.cq);
	for (unsigned int round = 0; round < 3; round++) {
		wq_to(obj.rwq.in, IBV_WQS_RDY);
		record(&wq.dbrec[MLX5_RCV_DBR], 2);
		wq_to(obj.rwq.in, IBV_WQS_ERR);
		flushed(2);
		for (uint16_t n = 3; n < 12; n++) {
			record(&wq.dbrec[MLX5_RCV_DBR], n);
			flushed(n);
		}
		wq_to(obj.rwq.in, IBV_WQS_RESET);
		want_eq(wq.dbrec[MLX5_RCV_DBR], 0);
		b.received = 0;
	}
	want_eq(ibv_destroy_wq(obj.rwq.in), 0);
	want_eq(ibv_destroy_cq(wa.cq), 0);
}

static const struct test_case cases[] = {
	CASE_ARG(frames, QUEUE),
	CASE_ARG(frames, WORK_QUEUE),
	CASE_ARG(frames, LARGE_ENTRIES),
	CASE(posted_in_err),
};

int main(void)
{
	return CASES_RUN(cases);
}
