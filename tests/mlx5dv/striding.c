// SPDX-License-Identifier: MIT
/* Striding work queues (mlx5dv_create_wq()) by a program that writes their rings and reads the
 * entries of their CQs in memory. A model says where each frame has to be. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "mlx5dv/hand.h"
#include "verbs/ether.h"
#include "verbs/said.h"

enum { TARGET = 1, OTHER, PIECES = 3, FILL = 0xa5, FRAME_MOST = 9000 };
enum { BAD_KEY = 0x12345678, INDICES = 0x10000 };
#define FILLER (1U << 31)

static struct ether tx, other;

/* A work queue, and where the model is in it. */
struct queue {
	struct hand h; /* its CQ */
	struct ibv_wq *wq;
	struct mlx5dv_rwq ring;
	struct ibv_mr *mr;
	uint8_t *mem; /* a buffer for each WQE of the ring */
	uint32_t size, count; /* bytes of a stride, strides of a WQE */
	uint32_t shift; /* bytes in front of a frame */
	uint32_t pieces; /* of each buffer, as its WQE lists it */
	uint32_t posted, wqe, used; /* WQEs; the one in hand, its strides that are done */
	bool halts; /* WQEs that are done are not posted again */
};

struct form {
	uint8_t size_log, count_log, shift;
	uint32_t max_wr, pieces, flags;
};

static void begin(void)
{
	struct ether_rule r = ether_rule(IBV_FLOW_ATTR_NORMAL, 0);

	said_begin();
	peer_open(&dev);
	ether_open(&dev, 0, &tx);
	ether_open(&dev, 0, &other);
	ether_spec_dst(&r, OTHER);
	ether_steer(&other, &r);
}

/* All frames that were sent have come, or are lost: they go in order. */
static void settle(void)
{
	struct ether_frame f = { .dst = OTHER };

	ether_recv(&other, 1);
	ether_send(&tx, &f);
	ether_want(&other, NULL);
}

static int move(struct queue *q, enum ibv_wq_state to)
{
	struct ibv_wq_attr attr = { .attr_mask = IBV_WQ_ATTR_STATE, .wq_state = to };

	return ibv_modify_wq(q->wq, &attr);
}

static void make(struct queue *q, const struct form *f, int cqe)
{
	struct ibv_wq_init_attr init = { .wq_type = IBV_WQT_RQ,
					 .max_wr = f->max_wr,
					 .max_sge = f->pieces,
					 .pd = dev.pd,
					 .wq_context = q,
					 .comp_mask = IBV_WQ_INIT_ATTR_FLAGS,
					 .create_flags = f->flags };
	struct mlx5dv_wq_init_attr dv = { .comp_mask = MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ,
					  .striding_rq_attrs = { f->size_log, f->count_log,
								 f->shift } };
	size_t bytes = (size_t)f->max_wr << f->size_log << f->count_log;

	*q = (struct queue){ .size = 1U << f->size_log,
			     .count = 1U << f->count_log,
			     .shift = f->shift ? 2 : 0,
			     .pieces = f->pieces };
	init.cq = q->h.ep.rcq = ibv_create_cq(dev.ctx, cqe, NULL, NULL, 0);
	want(init.cq);
	q->wq = mlx5dv_create_wq(dev.ctx, &init, &dv);
	want(q->wq);
	want_eq(init.max_wr, f->max_wr);
	want(init.max_sge >= f->pieces);
	want(q->wq->wq_context == q && q->wq->events_completed == 0);
	q->mem = peer_memory(bytes, true);
	q->mr = ibv_reg_mr(dev.pd, q->mem, bytes, IBV_ACCESS_LOCAL_WRITE);
	want(q->mr);
}

static void lay_open(struct queue *q)
{
	struct mlx5dv_obj obj = { .rwq = { q->wq, &q->ring }, .cq = { q->h.ep.rcq, &q->h.cq } };

	want_eq(mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ | MLX5DV_OBJ_RWQ), 0);
	want(q->ring.stride >= SEG + q->pieces * SEG);
	want(!(q->ring.stride & (q->ring.stride - 1)));
}

/* What its receives are steered by: a table of @n WQs, a power of two. */
static void steered(struct ibv_wq **wqs, uint32_t log)
{
	struct ibv_rwq_ind_table_init_attr t = { .log_ind_tbl_size = log, .ind_tbl = wqs };
	struct ether_rule r = ether_rule(IBV_FLOW_ATTR_NORMAL, 0);
	static uint8_t key[40] = { 0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67 };
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask =
			IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH,
		.rx_hash_conf = { IBV_RX_HASH_FUNC_TOEPLITZ, sizeof(key), key,
				  IBV_RX_HASH_SRC_IPV4 },
		.pd = dev.pd,
	};
	struct ether rx = { 0 };

	init.rwq_ind_tbl = ibv_create_rwq_ind_table(dev.ctx, &t);
	want(init.rwq_ind_tbl);
	rx.qp = ibv_create_qp_ex(dev.ctx, &init);
	want(rx.qp);
	ether_spec_dst(&r, TARGET);
	ether_steer(&rx, &r);
}

static uint8_t *buffer(const struct queue *q, uint32_t wqe)
{
	return q->mem + (size_t)(wqe % q->ring.wqe_cnt) * q->size * q->count;
}

/* The list begins behind a next segment, which says nothing. */
static struct mlx5_wqe_data_seg *list(const struct queue *q, uint32_t wqe)
{
	return (void *)((uint8_t *)q->ring.buf + (size_t)(wqe % q->ring.wqe_cnt) * q->ring.stride +
			sizeof(struct mlx5_wqe_srq_next_seg));
}

static void write_receive(struct queue *q, uint32_t wqe)
{
	uint32_t bytes = q->size * q->count, first = bytes / (q->pieces + 1) + 1;
	struct mlx5_wqe_data_seg *to = list(q, wqe);
	uint8_t *at = buffer(q, wqe);

	for (uint32_t i = 0; i < q->pieces; i++) {
		uint32_t n = i + 1 < q->pieces ? first : bytes - i * first;

		mlx5dv_set_data_seg(to + i, n, q->mr->lkey, (uintptr_t)at);
		at += n;
	}
	if (q->ring.stride > SEG + q->pieces * SEG)
		mlx5dv_set_data_seg(to + q->pieces, 0, 0x100, 0);
}

static void post(struct queue *q, uint32_t n)
{
	while (n--)
		write_receive(q, q->posted++);
	record(&q->ring.dbrec[MLX5_RCV_DBR], q->posted);
}

static void ready_for_frames(struct queue *q, const struct form *f)
{
	make(q, f, 255);
	want_eq(move(q, IBV_WQS_RDY), 0);
	lay_open(q);
	want_eq(q->ring.wqe_cnt, f->max_wr);
	steered(&q->wq, 0);
	memset(q->mem, FILL, (size_t)f->max_wr * q->size * q->count);
	post(q, f->max_wr);
}

static size_t build(uint32_t len, uint8_t from, uint8_t *out)
{
	struct ether_frame f = { .dst = TARGET, .ip = 4, .from = from, .sport = 5 };

	f.len = (uint16_t)(len - 42);
	return ether_build(&f, out);
}

static uint32_t strides_of(const struct queue *q, uint32_t len)
{
	return (len + q->shift + q->size - 1) / q->size;
}

static void wqe_done(struct queue *q)
{
	memset(buffer(q, q->wqe), FILL, (size_t)q->size * q->count);
	q->wqe++;
	q->used = 0;
	if (!q->halts)
		post(q, 1);
}

static void all(const uint8_t *p, size_t n, uint8_t value)
{
	for (size_t i = 0; i < n; i++)
		want_eq(p[i], value);
}

/* The next entry is of the WQE in hand and of its next strides. */
static struct mlx5_cqe64 next_entry(struct queue *q, uint32_t byte_cnt)
{
	struct mlx5_cqe64 e = take(&q->h);

	want_eq(mlx5dv_get_cqe_opcode(&e), MLX5_CQE_RESP_SEND);
	want_eq(be16toh(e.wqe_id), (uint16_t)q->wqe);
	want_eq(be16toh(e.wqe_counter), q->used);
	want_eq(be32toh(e.byte_cnt), byte_cnt);
	return e;
}

static void filler_comes(struct queue *q)
{
	struct mlx5_cqe64 e = next_entry(q, FILLER | (q->count - q->used) << 16);

	want_eq(e.hds_ip_ext, 0);
	wqe_done(q);
}

/* The frame has come, and nothing else has been touched: neither the end of its last stride nor the
 * stride behind it. */
static void frame_comes(struct queue *q, const uint8_t *frame, uint32_t len)
{
	uint32_t need = strides_of(q, len), bytes = need * q->size, rest;
	struct mlx5_cqe64 e;
	uint8_t *at;

	if (q->used + need > q->count)
		filler_comes(q);
	e = next_entry(q, len | need << 16);
	want_eq(e.hds_ip_ext & (MLX5_CQE_L3_OK | MLX5_CQE_L4_OK), MLX5_CQE_L3_OK | MLX5_CQE_L4_OK);
	at = buffer(q, q->wqe) + (size_t)q->used * q->size;
	all(at, q->shift, 0);
	want(!memcmp(at + q->shift, frame, len));
	rest = bytes - q->shift - len + (q->used + need < q->count ? q->size : 0);
	all(at + q->shift + len, rest, FILL);
	q->used += need;
	if (q->used == q->count)
		wqe_done(q);
}

static void send_one(uint32_t len, uint8_t from, uint8_t *frame)
{
	want_eq(build(len, from, frame), len);
	ether_send_bytes(&tx, frame, len, 0);
}

static void one(struct queue *q, uint32_t len)
{
	uint8_t frame[FRAME_MOST];

	send_one(len, (uint8_t)len, frame);
	frame_comes(q, frame, len);
}

static const struct form forms[] = {
	{ 6, 3, 0, 4, 1, 0 }, /* the least of both */
	{ 6, 5, 0, 4, 1, 0 },  { 6, 5, 1, 2, 1, 0 },
	{ 8, 6, 1, 8, 1, 0 },  { 7, 4, 1, 4, PIECES, 0 },
	{ 11, 3, 0, 2, 1, 0 }, { 13, 3, 1, 2, 1, 0 }, /* the largest strides */
	{ 6, 16, 0, 2, 1, 0 }, /* the most */
};

/* Frames of many sizes, several in each WQE and in strides that they fill to the byte, around the
 * ring. */
static void sizes(int form)
{
	const struct form *f = &forms[form];
	uint32_t most, step = cases_sanitized() ? 61 : 17;
	bool large = form % 2; /* entries, in every second case */
	static struct queue q;

	if (large)
		setenv("MLX5_CQE_SIZE", "128", 1);
	begin();
	ready_for_frames(&q, f);
	want_eq(q.h.cq.cqe_size, large ? 128 : 64);
	most = q.size * q.count - q.shift;
	most = most < FRAME_MOST ? most : FRAME_MOST;
	for (uint32_t len = 60; len <= most; len += len < 2000 ? step : 40 * step) {
		peer_note("%u B at WQE %u, stride %u", len, q.wqe, q.used);
		one(&q, len);
		one(&q, 60 + len % 200);
	}
	for (uint32_t len = q.size - 3; len <= q.size + 3; len++)
		if (len >= 60 && len <= most)
			one(&q, len);
	while (q.wqe < 2 * f->max_wr)
		one(&q, most);
	settle();
	want(!ready(&q.h));
}

/* Each frame fills a WQE, whose numbers go round at 2^16, and go on in the ring. */
static void around_the_index(int arg)
{
	const struct form f = { 6, 3, 0, 4, 1, 0 };
	uint32_t most = INDICES + 10;
	static struct queue q;
	uint8_t frame[FRAME_MOST];

	(void)arg;
	begin();
	ready_for_frames(&q, &f);
	want_eq(build(512, 0, frame), 512);
	while (q.wqe < most) {
		uint32_t wqe = q.wqe;

		ether_send_bytes(&tx, frame, 512, 0);
		next_entry(&q, 512 | 8 << 16);
		if (wqe % 997 == 0 || wqe + 20 > INDICES)
			want(!memcmp(buffer(&q, wqe), frame, 512));
		wqe_done(&q);
	}
}

/* A frame that finds no WQE is lost. What was left of the WQE before is passed over at once, so
 * that the program can post it again. */
static void no_receive(int arg)
{
	const struct form f = { 6, 3, 0, 2, 1, 0 };
	static struct queue q;
	uint8_t frame[FRAME_MOST];

	(void)arg;
	begin();
	ready_for_frames(&q, &f);
	q.halts = true;
	one(&q, 512);
	one(&q, 300);
	send_one(300, 0, frame);
	filler_comes(&q);
	send_one(60, 0, frame);
	settle();
	want(!ready(&q.h));
	post(&q, 1);
	one(&q, 60);
	post(&q, 1);
	q.halts = false;
	one(&q, 500);
	one(&q, 60);
}

/* --- errors --- */

static void error_comes(struct queue *q, uint8_t syndrome, uint32_t wqe)
{
	struct mlx5_cqe64 e = take(&q->h);
	const struct mlx5_err_cqe *err = (const void *)&e;

	want_eq(mlx5dv_get_cqe_opcode(&e), MLX5_CQE_RESP_ERR);
	want_eq(err->syndrome, syndrome);
	want_eq(be16toh(err->wqe_counter), (uint16_t)wqe);
}

static void flushed(struct queue *q)
{
	while (q->wqe < q->posted)
		error_comes(q, MLX5_CQE_SYNDROME_WR_FLUSH_ERR, q->wqe++);
	want(!ready(&q->h));
}

static void event(enum ibv_event_type type, const struct queue *q)
{
	struct ibv_async_event ev;

	want_eq(ibv_get_async_event(dev.ctx, &ev), 0);
	want_eq(ev.event_type, type);
	if (type == IBV_EVENT_WQ_FATAL)
		want(ev.element.wq == q->wq);
	ibv_ack_async_event(&ev);
}

/* From the beginning: with no WQE in hand, whatever was before. */
static void anew(struct queue *q)
{
	want_eq(move(q, IBV_WQS_RESET), 0);
	want_eq(move(q, IBV_WQS_RDY), 0);
	want_eq(be32toh(q->ring.dbrec[MLX5_RCV_DBR]), 0);
	q->posted = q->wqe = q->used = 0;
	memset(q->mem, FILL, (size_t)q->ring.wqe_cnt * q->size * q->count);
	post(q, q->ring.wqe_cnt);
	one(q, 60);
	one(q, 500);
}

enum { TOO_LONG, SHORT_LIST, KEY };

static void spoil(struct queue *q, int how, uint32_t wqe)
{
	struct mlx5_wqe_data_seg *seg = list(q, wqe);

	if (how == SHORT_LIST)
		mlx5dv_set_data_seg(seg, 400, q->mr->lkey, (uintptr_t)buffer(q, wqe));
	if (how == KEY)
		mlx5dv_set_data_seg(seg, 512, BAD_KEY, (uintptr_t)buffer(q, wqe));
}

static void wants_said(const struct queue *q, int how)
{
	uint32_t n = q->wq->wq_num;

	if (how == TOO_LONG)
		said_want(SAID_NEAR,
			  "frame of 513 B: a receive of WQ 0x%x has 8 strides of 64 B; create it "
			  "with more or larger ones (mlx5dv_create_wq)",
			  n);
	if (how == SHORT_LIST)
		said_want(SAID_NEAR,
			  "frame of 300 B at byte 128 of receive 0x1 of WQ 0x%x, whose SGEs have "
			  "400 B; post receives of 8 strides of 64 B",
			  n);
	if (how == KEY)
		said_want(SAID_NEAR,
			  "ibv_post_wq_recv: WQ 0x%x: receive 0x1, sge[0]: lkey 0x12345678 names "
			  "no memory region (never registered, or deregistered); use a key of the "
			  "WQ's PD that covers the buffer with IBV_ACCESS_LOCAL_WRITE",
			  n);
}

/* A WQE that cannot take its frame ends the queue: that WQE with the error, and once; those behind
 * it are flushed. RESET brings it back. */
static void errors(int how)
{
	const struct form f = { 6, 3, 0, 4, 1, 0 };
	static struct queue q;
	uint8_t frame[FRAME_MOST];

	begin();
	ready_for_frames(&q, &f);
	q.halts = true;
	one(&q, 512);
	spoil(&q, how, q.wqe);
	if (how != KEY) /* a WQE is read once, when its turn comes */
		one(&q, 128);
	send_one(how == TOO_LONG ? 513 : 300, 0, frame);
	error_comes(&q,
		    how == KEY ? MLX5_CQE_SYNDROME_LOCAL_PROT_ERR
			       : MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR,
		    q.wqe++);
	flushed(&q);
	event(IBV_EVENT_WQ_FATAL, &q);
	wants_said(&q, how);
	send_one(60, 0, frame);
	settle();
	want(!ready(&q.h));
	q.halts = false;
	anew(&q);
}

/* A WQE of which strides are left is flushed with the others, once, and forgotten in RESET. What a
 * program posts to a queue in ERR is flushed, though it makes no call. */
static void states(int arg)
{
	const struct form f = { 6, 3, 0, 4, 1, 0 };
	static struct queue q;

	(void)arg;
	begin();
	ready_for_frames(&q, &f);
	one(&q, 60);
	want_eq(move(&q, IBV_WQS_ERR), 0);
	flushed(&q);
	post(&q, 1);
	flushed(&q);
	post(&q, 3);
	flushed(&q);
	anew(&q);
	one(&q, 60);
	want(q.used != 0);
	anew(&q);
	want_eq(move(&q, IBV_WQS_ERR), 0);
	flushed(&q);
	anew(&q);
}

/* A CQ whose entries nobody takes: the queue stops, at a frame or at a filler. */
static void overrun(int at_filler)
{
	const struct form f = { 6, 3, 0, 4, 1, 0 };
	static struct queue q;
	uint8_t frame[FRAME_MOST];

	begin();
	make(&q, &f, 3);
	want_eq(move(&q, IBV_WQS_RDY), 0);
	lay_open(&q);
	want_eq(q.h.cq.cqe_cnt, 4);
	steered(&q.wq, 0);
	post(&q, 4);
	for (unsigned int i = 0; i < 4; i++)
		send_one(60, 0, frame);
	send_one(at_filler ? 512 : 60, 0, frame);
	event(IBV_EVENT_CQ_ERR, &q);
	event(IBV_EVENT_WQ_FATAL, &q);
	for (; q.used < 4; q.used++)
		next_entry(&q, 60 | 1 << 16);
	want(!ready(&q.h));
}

/* --- beside other things --- */

enum { WQS = 4, SOURCES = 200 };

/* Each of several striding queues has its own place, and gets frames as the hash says. */
static void several_queues(int arg)
{
	const struct form of[WQS] = { { 6, 5, 0, 4, 1, 0 },
				      { 7, 4, 1, 2, 1, 0 },
				      { 8, 3, 0, 8, 1, 0 },
				      { 9, 3, 1, 4, 2, 0 } };
	uint32_t got[WQS] = { 0 };
	struct ibv_wq *wqs[WQS];
	static struct queue q[WQS];

	(void)arg;
	begin();
	for (unsigned int i = 0; i < WQS; i++) {
		make(&q[i], &of[i], 255);
		want_eq(move(&q[i], IBV_WQS_RDY), 0);
		lay_open(&q[i]);
		memset(q[i].mem, FILL, (size_t)of[i].max_wr * q[i].size * q[i].count);
		post(&q[i], of[i].max_wr);
		wqs[i] = q[i].wq;
	}
	steered(wqs, 2);
	for (uint32_t k = 0; k < SOURCES; k++) {
		uint8_t frame[FRAME_MOST];
		uint32_t len = 60 + k * 37 % 1500, i = 0;

		send_one(len, (uint8_t)k, frame);
		settle();
		while (i < WQS && !ready(&q[i].h))
			i++;
		want(i < WQS);
		frame_comes(&q[i], frame, len);
		got[i]++;
		for (i = 0; i < WQS; i++)
			want(!ready(&q[i].h));
	}
	for (unsigned int i = 0; i < WQS; i++)
		want(got[i] > SOURCES / (2 * WQS));
}

/* The tag goes into the entry, and the frame check sequence stands behind the frame and counts. */
static void tags_and_sums(int arg)
{
	const struct form f = { 6, 5, 1,
				4, 1, IBV_WQ_FLAGS_CVLAN_STRIPPING | IBV_WQ_FLAGS_SCATTER_FCS };
	struct ether_frame tagged = { .dst = TARGET, .vlan = 0x123, .ip = 4, .sport = 5 };
	uint8_t frame[ETHER_ROOM];
	static struct queue q;

	(void)arg;
	begin();
	ready_for_frames(&q, &f);
	for (uint32_t k = 0; k < 100; k++) {
		uint32_t len, need;
		struct mlx5_cqe64 e;
		uint8_t *at;

		tagged.len = (uint16_t)(60 + k * 7);
		len = (uint32_t)ether_build(&tagged, frame);
		ether_send_bytes(&tx, frame, len, 0);
		need = strides_of(&q, len);
		if (q.used + need > q.count)
			filler_comes(&q);
		e = next_entry(&q, len | need << 16);
		want_eq(be16toh(e.vlan_info), 0x123);
		at = buffer(&q, q.wqe) + (size_t)q.used * q.size + q.shift;
		want(!memcmp(at, frame, 12) && !memcmp(at + 12, frame + 16, len - 16));
		q.used += need;
		if (q.used == q.count)
			wqe_done(&q);
	}
}

/* A ring that is laid open while a WQE is in hand goes on with the next stride. */
static void opened_late(int arg)
{
	const struct form f = { 6, 3, 0, 2, 1, 0 };
	static struct queue q;
	struct ibv_sge sg;
	struct ibv_recv_wr wr = { .sg_list = &sg, .num_sge = 1 }, *bad;
	struct ibv_wc wc;
	uint8_t frame[FRAME_MOST];

	(void)arg;
	begin();
	make(&q, &f, 255);
	memset(q.mem, FILL, 1024);
	want_eq(move(&q, IBV_WQS_RDY), 0);
	steered(&q.wq, 0);
	for (uint32_t i = 0; i < 2; i++) {
		sg = (struct ibv_sge){ (uintptr_t)q.mem + 512 * i, 512, q.mr->lkey };
		want_eq(ibv_post_wq_recv(q.wq, &wr, &bad), 0);
	}
	q.posted = 2;
	send_one(100, 0, frame);
	peer_poll_ok(q.h.ep.rcq, &wc);
	q.h.polled = 1;
	q.used = 2;
	lay_open(&q);
	for (uint32_t len = 60; len < 512; len += 10)
		one(&q, len);
}

/* What ibv_poll_cq() says: each entry by itself, with the wr_id of its receive and the byte count
 * of the entry as it is. The last of a receive frees the slot. */
static void by_the_verbs(int arg)
{
	static const struct {
		uint32_t len; /* of a frame that is sent first; 0: none */
		uint64_t wr_id;
		uint32_t byte_len;
		bool last;
	} rows[] = {
		{ 60, 0, 60 | 1 << 16, false },	    { 300, 0, 300 | 5 << 16, false },
		{ 300, 0, FILLER | 2 << 16, true }, { 0, 1, 300 | 5 << 16, false },
		{ 100, 1, 100 | 2 << 16, false },   { 64, 1, 64 | 1 << 16, true },
		{ 512, 2, 512 | 8 << 16, true },
	};
	const struct form f = { 6, 3, 0, 2, 1, 0 };
	static struct queue q;
	struct ibv_sge sg;
	struct ibv_recv_wr wr = { .sg_list = &sg, .num_sge = 1 }, *bad;
	struct ibv_wc wc;
	uint8_t frame[FRAME_MOST];

	(void)arg;
	begin();
	make(&q, &f, 255);
	want_eq(move(&q, IBV_WQS_RDY), 0);
	steered(&q.wq, 0);
	sg = (struct ibv_sge){ (uintptr_t)q.mem, 512, q.mr->lkey };
	for (; wr.wr_id < 2; wr.wr_id++)
		want_eq(ibv_post_wq_recv(q.wq, &wr, &bad), 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		peer_note("row %zu", i);
		if (rows[i].len)
			send_one(rows[i].len, 0, frame);
		want_eq(ibv_post_wq_recv(q.wq, &wr, &bad), ENOMEM);
		peer_poll_ok(q.h.ep.rcq, &wc);
		want_eq(wc.wr_id, rows[i].wr_id);
		want_eq(wc.byte_len, rows[i].byte_len);
		want_eq(wc.qp_num, q.wq->wq_num);
		want_eq(ibv_post_wq_recv(q.wq, &wr, &bad), rows[i].last ? 0 : ENOMEM);
		wr.wr_id += rows[i].last;
	}
	want(!peer_poll(q.h.ep.rcq, &wc, 0));
	want_eq(move(&q, IBV_WQS_ERR), 0);
	for (uint64_t id = wr.wr_id - 2; id < wr.wr_id; id++) {
		want(peer_poll(q.h.ep.rcq, &wc, 0));
		want_eq(wc.status, IBV_WC_WR_FLUSH_ERR);
		want_eq(wc.wr_id, id);
	}
	want(!peer_poll(q.h.ep.rcq, &wc, 0));
}

/* Rings and records with anything in them: each queue ends with an entry of an error, or takes
 * frames; the other one gets all of its own. */
static void any_bytes(int arg)
{
	const struct form f = { 6, 3, 0, 4, 1, 0 };
	static struct queue q, good;
	uint64_t seed = 1;
	uint8_t frame[FRAME_MOST];
	unsigned int failed = 0;

	(void)arg;
	begin();
	ready_for_frames(&good, &f);
	make(&q, &f, 255);
	want_eq(move(&q, IBV_WQS_RDY), 0);
	lay_open(&q);
	steered(&q.wq, 0);
	for (unsigned int round = 0; round < 300; round++) {
		pattern_fill(q.ring.buf, (size_t)q.ring.wqe_cnt * q.ring.stride, ++seed, 0);
		for (uint32_t i = 0; i < q.ring.wqe_cnt && round % 2; i++)
			write_receive(&q, i); /* right ones, but the record is wrong */
		for (unsigned int k = 0; k < 10; k++) {
			record(&q.ring.dbrec[MLX5_RCV_DBR], (uint32_t)(seed * 0x9e3779b9U >> k));
			send_one(60 + k * 50, 0, frame);
			frame_comes(&good, frame, 60 + k * 50);
		}
		settle();
		while (ready(&q.h)) {
			struct mlx5_cqe64 e = take(&q.h);

			failed += mlx5dv_get_cqe_opcode(&e) == MLX5_CQE_RESP_ERR;
		}
		want_eq(move(&q, IBV_WQS_RESET), 0);
		want_eq(move(&q, IBV_WQS_RDY), 0);
	}
	want(failed >= 150);
}

static const struct test_case cases[] = {
	CASE_ARG(sizes, 0),
	CASE_ARG(sizes, 1),
	CASE_ARG(sizes, 2),
	CASE_ARG(sizes, 3),
	CASE_ARG(sizes, 4),
	CASE_ARG(sizes, 5),
	CASE_ARG(sizes, 6),
	CASE_ARG(sizes, 7),
	CASE(around_the_index),
	CASE(no_receive),
	CASE_ARG(errors, TOO_LONG),
	CASE_ARG(errors, SHORT_LIST),
	CASE_ARG(errors, KEY),
	CASE(states),
	CASE_ARG(overrun, false),
	CASE_ARG(overrun, true),
	CASE(several_queues),
	CASE(tags_and_sums),
	CASE(opened_late),
	CASE(by_the_verbs),
	CASE(any_bytes),
};

int main(void)
{
	return CASES_RUN(cases);
}
