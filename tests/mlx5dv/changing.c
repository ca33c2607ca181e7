// SPDX-License-Identifier: MIT
/* Rings and records that another thread changes bit by bit while the device reads and writes them:
 * whatever becomes of their queue pair, the one beside it goes on, message by message. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "mlx5dv/hand.h"
#include "verbs/said.h"

enum { SLOTS = 7, TIMES = 12, MESSAGES = 40, OWN = 1 << 16 };

static struct hand c, d; /* the pair beside a and b */
static uint8_t *own; /* memory of a and b, OWN bytes */
static struct ibv_mr *own_mr;
static struct mlx5dv_srq shared;

/* --- the thread that changes bits --- */

struct place {
	uint8_t *at;
	size_t len;
};

static struct {
	struct place place[8];
	unsigned int n;
	uint64_t seed;
	bool ends; /* atomic */
	uint64_t changes; /* atomic */
} bits;

static uint64_t next_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static void *change(void *arg)
{
	uint64_t seed = bits.seed;

	(void)arg;
	while (!__atomic_load_n(&bits.ends, __ATOMIC_RELAXED)) {
		uint64_t r = next_random(&seed);
		const struct place *p = &bits.place[r % bits.n];

		__atomic_fetch_xor(p->at + (r >> 8) % p->len, (uint8_t)(1 << (r >> 60 & 7)),
				   __ATOMIC_RELAXED);
		__atomic_fetch_add(&bits.changes, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void add(void *at, size_t len)
{
	if (len)
		bits.place[bits.n++] = (struct place){ at, len };
}

/* --- the pair whose rings change --- */

static void make(enum ibv_qp_type type, bool with_srq)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = SLOTS, .max_sge = 1 } };
	struct mlx5dv_obj obj = { .srq = { .out = &shared } };

	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
	if (with_srq) {
		obj.srq.in = ibv_create_srq(dev.pd, &attr);
		want(obj.srq.in);
		want_eq(mlx5dv_init_obj(&obj, MLX5DV_OBJ_SRQ), 0);
	}
	connected(type, obj.srq.in);
}

static void end(struct hand *h)
{
	struct ibv_srq *srq = h->ep.qp->srq;

	want_eq(ibv_destroy_qp(h->ep.qp), 0);
	want_eq(ibv_destroy_cq(h->ep.scq), 0);
	want_eq(ibv_destroy_comp_channel(h->channel), 0);
	if (srq)
		want_eq(ibv_destroy_srq(srq), 0);
}

enum { SENDS = 1, RECEIVES = 2, ENTRIES = 4, RECORDS = 8 };

static void changing(int what)
{
	bits.n = 0;
	if (what & SENDS)
		add(a.qp.sq.buf, (size_t)a.qp.sq.wqe_cnt * BLOCK);
	if (what & RECEIVES)
		add(b.qp.rq.buf, (size_t)b.qp.rq.wqe_cnt * b.qp.rq.stride);
	if (what & RECEIVES && b.ep.qp->srq)
		add(shared.buf, (SLOTS + 1UL) * shared.stride);
	if (what & ENTRIES) {
		add(a.cq.buf, (size_t)a.cq.cqe_cnt * a.cq.cqe_size);
		add(b.cq.buf, (size_t)b.cq.cqe_cnt * b.cq.cqe_size);
	}
	if (what & RECORDS) {
		add(a.qp.dbrec, 8);
		add(b.qp.dbrec, 8);
		add(a.cq.dbrec, 8);
		add(b.cq.dbrec, 8);
	}
}

static void receives(uint16_t n)
{
	struct mlx5_wqe_data_seg *to;

	for (uint16_t i = 0; b.ep.qp->srq && i <= SLOTS; i++) {
		to = (void *)((uint8_t *)shared.buf + (size_t)i * shared.stride + SEG);
		mlx5dv_set_data_seg(to, OWN / 2, own_mr->lkey, (uintptr_t)own + OWN / 2);
	}
	for (uint16_t i = 0; i < b.qp.rq.wqe_cnt; i++) {
		to = (void *)((uint8_t *)b.qp.rq.buf + (size_t)i * b.qp.rq.stride);
		mlx5dv_set_data_seg(to, OWN / 2, own_mr->lkey, (uintptr_t)own + OWN / 2);
		mlx5dv_set_data_seg(to + 1, 0, 0x100, 0);
	}
	record(b.ep.qp->srq ? shared.dbrec : &b.qp.dbrec[MLX5_RCV_DBR], n);
}

static size_t put(uint8_t *segs, size_t n, const void *what, size_t len)
{
	memcpy(segs + n, what, len);
	return n + len;
}

/* A work request of any kind, with a list of three. @av: UD; else NULL */
static const void *write_any(uint64_t r, const struct mlx5_wqe_av *av)
{
	static const uint8_t codes[] = { MLX5_OPCODE_SEND,	 MLX5_OPCODE_SEND_IMM,
					 MLX5_OPCODE_RDMA_WRITE, MLX5_OPCODE_RDMA_WRITE_IMM,
					 MLX5_OPCODE_RDMA_READ,	 MLX5_OPCODE_ATOMIC_FA,
					 MLX5_OPCODE_UMR,	 MLX5_OPCODE_NOP };
	enum { FAR = 2, ATOMIC = 5, NOT_FAR = 6 }; /* from here on, in codes */
	struct mlx5_wqe_raddr_seg to = { htobe64((uintptr_t)own + OWN / 2), htobe32(own_mr->rkey),
					 0 };
	const struct mlx5_wqe_atomic_seg one = { htobe64(1), 0 };
	unsigned int kind = r % (av ? FAR : sizeof(codes));
	uint32_t len = kind == ATOMIC ? 8 : (uint32_t)(r >> 16 & 0x1fff) + 1;
	struct hand_op op = { codes[kind], MLX5_WQE_CTRL_CQ_UPDATE, 7 };
	struct mlx5_wqe_data_seg list[3];
	uint8_t segs[3 * BLOCK];
	size_t n = 0;

	for (int i = 0; i < 3; i++)
		mlx5dv_set_data_seg(&list[i], len, own_mr->lkey, (uintptr_t)own + i * 8UL);
	if (av)
		n = put(segs, n, av, sizeof(*av));
	if (kind >= FAR && kind < NOT_FAR)
		n = put(segs, n, &to, sizeof(to));
	if (kind == ATOMIC)
		n = put(segs, n, &one, sizeof(one));
	n = put(segs, n, list, kind == ATOMIC ? sizeof(list[0]) : sizeof(list));
	return write_wqe(&a, &op, segs, n);
}

static void again(struct hand *h, enum ibv_qp_type type)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct peer_opts o = { .type = type };

	want_eq(ibv_modify_qp(h->ep.qp, &reset, IBV_QP_STATE), 0);
	h->sent = h->received = 0;
	peer_connect(&h->ep, &o);
}

/* --- the pair beside it --- */

static void one_message(uint32_t imm)
{
	uint16_t at = c.sent;

	pattern_fill(mem, LEN, imm, 0);
	hand_recv(&d);
	hand_send(&c, MLX5_WQE_CTRL_CQ_UPDATE, imm);
	received_ok(&d, LEN, imm);
	sent_ok(&c, at);
	want_eq(pattern_check(mem + HALF, LEN, imm, 0), LEN);
}

static void beside(void)
{
	struct peer_opts o = { .type = IBV_QPT_RC };

	open_memory();
	own = peer_memory(OWN, false);
	own_mr = ibv_reg_mr(dev.pd, own, OWN,
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	want(own_mr);
	endpoint(&c, IBV_QPT_RC, NULL);
	endpoint(&d, IBV_QPT_RC, NULL);
	c.ep.theirs = d.ep.mine;
	d.ep.theirs = c.ep.mine;
	peer_connect(&c.ep, &o);
	peer_connect(&d.ep, &o);
}

static void work(enum ibv_qp_type type, uint64_t *seed)
{
	struct mlx5dv_ah of;
	struct mlx5dv_obj obj = { .ah = { .out = &of } };
	struct mlx5_wqe_av av;

	if (type == IBV_QPT_UD) {
		obj.ah.in = peer_ah(&dev, &b.ep.mine);
		want_eq(mlx5dv_init_obj(&obj, MLX5DV_OBJ_AH), 0);
		av = *of.av;
		av.dqp_dct |= htobe32(b.ep.mine.qpn);
		av.key.qkey.qkey = htobe32(0x11111111);
	}
	for (uint32_t i = 0; i < MESSAGES; i++) {
		uint64_t r = next_random(seed);

		if (i % 8 == 0)
			receives((uint16_t)(i + 8));
		announce(&a, write_any(r, type == IBV_QPT_UD ? &av : NULL));
		record(a.cq.dbrec, i + 1); /* all is read, whatever it is */
		record(b.cq.dbrec, i + 1);
		if (i % 8 == 7)
			one_message((uint32_t)r);
	}
	if (type == IBV_QPT_UD)
		want_eq(ibv_destroy_ah(obj.ah.in), 0);
}

/* @what of them, in the low bits; then the type, and whether they share receives. */
#define OF(what, type, srq) ((what) | (type) << 8 | (srq) << 16)

static void change_under_way(int of)
{
	enum ibv_qp_type type = (enum ibv_qp_type)(of >> 8 & 0xff);
	unsigned int times = cases_full() ? 20 * TIMES : TIMES;
	uint64_t seed = 0x123456789 + (uint64_t)of;
	pthread_t thread;

	beside();
	/* while the other thread gets no core it changes nothing: then there are more rounds */
	for (unsigned int i = 0; i < times || bits.changes <= times; i++) {
		make(type, of >> 16);
		changing(of & 0xff);
		bits.seed = next_random(&seed);
		__atomic_store_n(&bits.ends, false, __ATOMIC_RELAXED);
		want(!pthread_create(&thread, NULL, change, NULL));
		work(type, &seed);
		again(&a, type);
		again(&b, type);
		work(type, &seed);
		__atomic_store_n(&bits.ends, true, __ATOMIC_RELAXED);
		want(!pthread_join(thread, NULL));
		end(&a);
		end(&b);
		one_message(i);
	}
}

/* --- queue pairs that go while their entries are read --- */

static struct ibv_cq *common;

static void *poll_all(void *arg)
{
	struct ibv_wc wc;

	(void)arg;
	while (!__atomic_load_n(&bits.ends, __ATOMIC_RELAXED))
		want(ibv_poll_cq(common, 1, &wc) >= 0);
	return NULL;
}

static void on_common(struct peer_ep *ep)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC,
					 .send_cq = common,
					 .recv_cq = common,
					 .cap = { WRS, WRS, 1, 1, 0 } };

	ep->qp = ibv_create_qp(dev.pd, &attr);
	want(ep->qp);
	ep->mine = (struct peer_addr){ .qpn = ep->qp->qp_num, .psn = 7, .gid = dev.gid };
}

static void some_messages(struct peer_ep *from, struct peer_ep *to)
{
	struct ibv_sge sge = { (uintptr_t)own, 8, own_mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	for (uint64_t i = 0; i < WRS; i++) {
		peer_recv(to, i, &sge, 1);
		want_eq(ibv_post_send(from->qp, &wr, &bad), 0);
	}
}

/* Another thread polls the CQ by the verbs, though it is laid open. */
static void polled_while_they_go(int arg)
{
	struct peer_opts o = { .type = IBV_QPT_RC };
	struct mlx5dv_cq out = { 0 };
	struct mlx5dv_obj obj = { .cq = { .out = &out } };
	struct peer_ep x, y;
	pthread_t thread;

	(void)arg;
	beside();
	common = obj.cq.in = ibv_create_cq(dev.ctx, 255, NULL, NULL, 0);
	want(common);
	want_eq(mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ), 0);
	want(!pthread_create(&thread, NULL, poll_all, NULL));
	for (unsigned int i = 0; i < 20 * TIMES; i++) {
		on_common(&x);
		on_common(&y);
		x.theirs = y.mine;
		y.theirs = x.mine;
		peer_connect(&x, &o);
		peer_connect(&y, &o);
		some_messages(&x, &y);
		want_eq(ibv_destroy_qp(x.qp), 0);
		want_eq(ibv_destroy_qp(y.qp), 0);
	}
	__atomic_store_n(&bits.ends, true, __ATOMIC_RELAXED);
	want(!pthread_join(thread, NULL));
	one_message(1);
}

static const struct test_case cases[] = {
	CASE(polled_while_they_go),
	CASE_ARG(change_under_way, OF(SENDS, IBV_QPT_RC, 0)),
	CASE_ARG(change_under_way, OF(RECEIVES, IBV_QPT_RC, 0)),
	CASE_ARG(change_under_way, OF(RECEIVES, IBV_QPT_RC, 1)),
	CASE_ARG(change_under_way, OF(ENTRIES, IBV_QPT_RC, 0)),
	CASE_ARG(change_under_way, OF(RECORDS, IBV_QPT_RC, 0)),
	CASE_ARG(change_under_way, OF(SENDS | RECEIVES | ENTRIES | RECORDS, IBV_QPT_RC, 1)),
	CASE_ARG(change_under_way, OF(SENDS | RECEIVES | ENTRIES | RECORDS, IBV_QPT_UD, 0)),
	CASE_ARG(change_under_way, OF(SENDS | RECEIVES | ENTRIES | RECORDS, IBV_QPT_UC, 0)),
};

int main(void)
{
	return CASES_RUN(cases);
}
