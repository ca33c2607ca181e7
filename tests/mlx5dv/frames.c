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

/* What the device is to do with a frame */
struct doing {
	uint16_t inlined; /* bytes in the WQE; the rest by a key */
	uint8_t checksums;
	uint16_t mss; /* not 0: of each of several segments */
};

static void send_frame(const uint8_t *frame, size_t len, struct doing what)
{
	uint8_t segs[4 * BLOCK] = { 0 }, *at = segs + SEG;
	uint8_t *from = tx.mem + (size_t)ETHER_SLOTS * ETHER_ROOM;
	struct mlx5_wqe_eth_seg eth = { .cs_flags = what.checksums,
					.mss = htobe16(what.mss),
					.inline_hdr_sz = htobe16(what.inlined) };
	const struct hand_op op = { what.mss ? MLX5_OPCODE_TSO : MLX5_OPCODE_SEND,
				    MLX5_WQE_CTRL_CQ_UPDATE, 0 };

	memcpy(from, frame, len);
	memcpy(segs, &eth, SEG);
	memcpy(segs + offsetof(struct mlx5_wqe_eth_seg, inline_hdr_start), frame, what.inlined);
	at += what.inlined > 2 ? (what.inlined - 2U + SEG - 1) / SEG * SEG : 0;
	mlx5dv_set_data_seg((void *)at, (uint32_t)(len - what.inlined), tx.mr->lkey,
			    (uintptr_t)from + what.inlined);
	announce(&a, write_wqe(&a, &op, segs, (size_t)(at + SEG - segs)));
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
	send_frame(given, len,
		   (struct doing){ inlined[i % 4], i % 2 ? MLX5_ETH_WQE_L3_CSUM : 0, 0 });
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

static void opened(int by)
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
}

static void frames(int by)
{
	opened(by);
	for (uint32_t i = 0; i < FRAMES; i++)
		frame(i);
}

enum { HEADERS = L2 + 20 + 20, MSS = 400, SEGMENTS = 3, LAST = 123 };

static uint32_t sequence(const uint8_t *frame)
{
	uint32_t n;

	memcpy(&n, frame + L2 + 20 + 4, sizeof(n));
	return be32toh(n);
}

/* One WQE whose headers lie in several blocks becomes a row of TCP segments, of which each has its
 * own sequence number and checksums. */
static void segments(int by)
{
	static uint8_t whole[ETHER_ROOM];
	struct ether_frame f = {
		.dst = TARGET, .ip = 4, .proto = 6, .sport = 5, .len = (SEGMENTS - 1) * MSS + LAST
	};
	size_t len = ether_build(&f, whole);

	opened(by);
	want_eq(len, HEADERS + f.len);
	for (uint32_t i = 0; i < FRAMES; i++) {
		uint16_t at = a.sent;
		struct mlx5_cqe64 e;

		for (uint32_t k = 0; k < SEGMENTS; k++)
			receive();
		send_frame(whole, len, (struct doing){ HEADERS, 0, MSS });
		e = take(&a);
		want_eq(be32toh(e.sop_drop_qpn), (uint32_t)MLX5_OPCODE_TSO << 24 | tx.qp->qp_num);
		want_eq(be16toh(e.wqe_counter), at);
		for (uint32_t k = 0; k < SEGMENTS; k++) {
			const uint8_t *got = slot(i * SEGMENTS + k);
			uint32_t n = k == SEGMENTS - 1 ? LAST : MSS;

			e = take(&b);
			want_eq(mlx5dv_get_cqe_opcode(&e), MLX5_CQE_RESP_SEND);
			want_eq(be32toh(e.byte_cnt), HEADERS + n);
			want_eq(e.hds_ip_ext & (MLX5_CQE_L3_OK | MLX5_CQE_L4_OK),
				MLX5_CQE_L3_OK | MLX5_CQE_L4_OK);
			want_eq(sequence(got), sequence(whole) + k * MSS);
			want(!memcmp(got + HEADERS, whole + HEADERS + k * MSS, n));
		}
	}
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
	CASE_ARG(segments, QUEUE),
	CASE_ARG(segments, WORK_QUEUE),
	CASE_ARG(segments, LARGE_ENTRIES),
	CASE(posted_in_err),
};

int main(void)
{
	return CASES_RUN(cases);
}
