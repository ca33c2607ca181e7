// SPDX-License-Identifier: MIT
/* Compressed completions. A program that knows the format alone reads titles and mini entries from
 * the ring, for frames with their hash or checksum; others poll such queues by the verbs, resize
 * them, take queue pairs away from them, sleep until an event. Whether a drain brings several
 * receives at once is a matter of chance, so a case goes on until it has met with sessions. */
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <stdlib.h>
#include <string.h>
#include "verbs/ether.h"

enum {
	HASH = MLX5DV_CQE_RES_FORMAT_HASH,
	CSUM = MLX5DV_CQE_RES_FORMAT_CSUM,
	STRIDX = MLX5DV_CQE_RES_FORMAT_CSUM_STRIDX,
	WIDE = 0x100, /* entries of 128 bytes */
	PADDED = 0x200,
	SPREAD = 0x400, /* by a hash, over work queues */
	STRIDES = 0x800, /* SPREAD, and each receive takes several frames, of one stride each */
	TARGET = 1,
	CQES = 40, /* 64 entries */
	BURST = 16,
	ENOUGH = 30, /* rounds at least */
	ROUNDS = 20000, /* at most */
	L2 = 14,
	MINIS = 8,
	COMPRESSED = 3,
	STRIDE_LOG = 8,
	STRIDES_LOG = 3,
	A_RECEIVE = 1 << STRIDES_LOG, /* its strides */
};

static struct peer_dev dev;
static unsigned int sessions; /* seen so far */

static struct ibv_cq *queue_on(struct ibv_pd *parent, int form, struct ibv_comp_channel *channel)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = CQES,
					    .channel = channel,
					    .parent_domain = parent };
	struct mlx5dv_cq_init_attr dv = {
		.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE |
			     MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE | MLX5DV_CQ_INIT_ATTR_MASK_FLAGS,
		.cqe_comp_res_format = (uint8_t)(form & (HASH | CSUM | STRIDX)),
		.flags = form & PADDED ? MLX5DV_CQ_INIT_ATTR_FLAGS_CQE_PAD : 0,
		.cqe_size = form & WIDE ? 128 : 64,
	};
	struct ibv_cq_ex *cq;

	attr.comp_mask = parent ? IBV_CQ_INIT_ATTR_MASK_PD : 0;
	cq = mlx5dv_create_cq(dev.ctx, &attr, &dv);
	want(cq);
	return ibv_cq_ex_to_cq(cq);
}

/* --- a reader of rings --- */

struct reader {
	struct mlx5dv_cq cq;
	uint32_t ci;
};

struct mini { /* as in the ring */
	uint8_t brief[4];
	__be32 byte_cnt;
};

typedef void (*entry_fn)(const struct mlx5_cqe64 *title, const struct mini *m, uint32_t j);

static struct mlx5_cqe64 *entry(const struct reader *r, uint32_t i)
{
	uint8_t *end = (uint8_t *)r->cq.buf + (size_t)(i % r->cq.cqe_cnt + 1) * r->cq.cqe_size;

	return (struct mlx5_cqe64 *)(end - sizeof(struct mlx5_cqe64));
}

/* What an ordinary entry has where minis are read. */
static struct mini as_mini(const struct mlx5_cqe64 *e, int form)
{
	struct mini m = { .byte_cnt = e->byte_cnt };

	memcpy(m.brief, (const uint8_t *)e + (form & HASH ? 12 : 20), form & HASH ? 4 : 2);
	return m;
}

static unsigned int take_session(const struct reader *r, const struct mlx5_cqe64 *title,
				 entry_fn got)
{
	uint32_t n = be32toh(title->byte_cnt);

	want(n >= 2 && n <= 64);
	sessions++;
	for (uint32_t j = 0; j < n; j++) {
		uint32_t array = j < MINIS ? 1 : j / MINIS * MINIS;
		struct mini m[MINIS];

		memcpy(m, entry(r, r->ci + array), sizeof(m));
		got(title, &m[j % MINIS], j);
	}
	for (uint32_t k = 0; k < n; k++)
		entry(r, r->ci + k)->op_own = MLX5_CQE_INVALID << 4;
	return n;
}

/* The completions of the next entry or session; 0: there is none. */
static unsigned int take(struct reader *r, int form, entry_fn got)
{
	uint8_t own = __atomic_load_n(&entry(r, r->ci)->op_own, __ATOMIC_ACQUIRE);
	unsigned int n = 1;
	struct mlx5_cqe64 e;
	struct mini m;

	if (own >> 4 == MLX5_CQE_INVALID || (own & 1) != !!(r->ci & r->cq.cqe_cnt))
		return 0;
	e = *entry(r, r->ci);
	want_eq(mlx5dv_get_cqe_opcode(&e), MLX5_CQE_RESP_SEND);
	if (mlx5dv_get_cqe_format(&e) == COMPRESSED) {
		n = take_session(r, &e, got);
	} else {
		m = as_mini(&e, form);
		got(&e, &m, 0);
	}
	r->ci += n;
	__atomic_store_n(&r->cq.dbrec[0], htobe32(r->ci & 0xffffff), __ATOMIC_RELEASE);
	return n;
}

/* --- frames --- */

static struct ether tx, rx;
static struct reader reader;
static struct ibv_cq *receives_on; /* instead of rx.cq */
static struct ibv_wq *wq; /* SPREAD */
static struct receives { /* the ring of rx.qp or wq, filled by hand */
	uint8_t *buf;
	__be32 *dbrec;
	uint32_t cnt, stride;
} rq;
static int form_now;
static uint32_t received; /* frames */
static uint8_t key[40];

static struct ibv_qp *make_spread(struct ibv_context *ctx, bool strides)
{
	struct mlx5dv_wq_init_attr dv = {
		.comp_mask = strides ? MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ : 0,
		.striding_rq_attrs = { STRIDE_LOG, STRIDES_LOG, 0 },
	};
	struct ibv_wq_init_attr wa = { .wq_type = IBV_WQT_RQ,
				       .max_wr = ETHER_SLOTS,
				       .max_sge = 1,
				       .pd = dev.pd,
				       .cq = receives_on };
	struct ibv_wq_attr ready = { .attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY };
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask =
			IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH,
		.pd = dev.pd,
		.rx_hash_conf = { IBV_RX_HASH_FUNC_TOEPLITZ, sizeof(key), key,
				  IBV_RX_HASH_SRC_PORT_UDP | IBV_RX_HASH_SRC_IPV4 },
	};
	struct ibv_rwq_ind_table_init_attr t = { .ind_tbl = &wq };

	pattern_fill(key, sizeof(key), 3, 0);
	wq = mlx5dv_create_wq(ctx, &wa, &dv);
	want(wq);
	want_eq(ibv_modify_wq(wq, &ready), 0);
	init.rwq_ind_tbl = ibv_create_rwq_ind_table(ctx, &t);
	want(init.rwq_ind_tbl);
	return ibv_create_qp_ex(ctx, &init);
}

static struct ibv_qp *make(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr)
{
	attr->recv_cq = receives_on;
	return ibv_create_qp_ex(ctx, attr);
}

/* ether_open() takes its queue pair to RTS, and one that spreads has no states: it is another. */
static void open_frames(int form)
{
	struct ether_rule r = ether_rule(IBV_FLOW_ATTR_NORMAL, 0);
	struct mlx5dv_qp qp = { 0 };
	struct mlx5dv_rwq rwq = { 0 };
	struct mlx5dv_obj obj = { .cq.out = &reader.cq, .qp.out = &qp, .rwq.out = &rwq };

	form_now = form;
	peer_open(&dev);
	ether_open(&dev, 0, &tx);
	receives_on = queue_on(NULL, form, NULL);
	ether_make = make;
	ether_open(&dev, 0, &rx);
	if (form & (SPREAD | STRIDES)) {
		want_eq(ibv_destroy_qp(rx.qp), 0);
		rx.qp = make_spread(dev.ctx, form & STRIDES);
		want(rx.qp);
	}
	obj.cq.in = receives_on;
	obj.qp.in = rx.qp;
	obj.rwq.in = wq;
	want_eq(mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ | (wq ? MLX5DV_OBJ_RWQ : MLX5DV_OBJ_QP)), 0);
	rq = wq ? (struct receives){ rwq.buf, &rwq.dbrec[MLX5_RCV_DBR], rwq.wqe_cnt, rwq.stride }
		: (struct receives){ qp.rq.buf, &qp.dbrec[MLX5_RCV_DBR], qp.rq.wqe_cnt,
				     qp.rq.stride };
	want_eq(reader.cq.cqe_size, form & WIDE ? 128 : 64);
	ether_spec_dst(&r, TARGET);
	ether_steer(&rx, &r);
}

static struct ether_frame nth(uint32_t i)
{
	return (struct ether_frame){
		.dst = TARGET, .ip = 4, .sport = (uint16_t)(i * 7), .len = (uint16_t)(30 + i % 100)
	};
}

/* In strides, the list begins behind a next segment. */
static void post_receives(void)
{
	const bool strides = form_now & STRIDES;
	const size_t front = strides ? sizeof(struct mlx5_wqe_srq_next_seg) : 0;

	for (int i = 0; i < BURST; i += strides ? A_RECEIVE : 1, rx.posted++) {
		struct mlx5_wqe_data_seg *sg =
			(void *)(rq.buf + (size_t)(rx.posted % rq.cnt) * rq.stride + front);
		const uint8_t *at = rx.mem + rx.posted % ETHER_SLOTS * (size_t)ETHER_ROOM;

		mlx5dv_set_data_seg(sg, ETHER_ROOM, rx.mr->lkey, (uintptr_t)at);
		if (rq.stride > front + sizeof(*sg)) /* the list is shorter than its room */
			mlx5dv_set_data_seg(sg + 1, 0, 0x100, 0);
	}
	__atomic_store_n(rq.dbrec, htobe32(rx.posted & 0xffff), __ATOMIC_RELEASE);
}

static void send_burst(uint32_t first)
{
	struct ibv_send_wr wr[BURST], *bad;
	struct ibv_sge sg[BURST];

	for (uint32_t i = 0; i < BURST; i++) {
		uint8_t *at = tx.mem + (size_t)(ETHER_SLOTS + i) * ETHER_ROOM;
		struct ether_frame f = nth(first + i);

		sg[i] = (struct ibv_sge){ (uintptr_t)at, (uint32_t)ether_build(&f, at),
					  tx.mr->lkey };
		wr[i] = (struct ibv_send_wr){ .next = i + 1 < BURST ? &wr[i + 1] : NULL,
					      .sg_list = &sg[i],
					      .num_sge = 1,
					      .opcode = IBV_WR_SEND };
	}
	wr[BURST - 1].send_flags = IBV_SEND_SIGNALED;
	want_eq(ibv_post_send(tx.qp, wr, &bad), 0);
}

/* The sum over the IP packet. */
static uint16_t sum_of(const uint8_t *p, size_t len)
{
	uint32_t sum = 0;

	for (size_t i = L2; i < len; i++)
		sum += (uint32_t)p[i] << (i % 2 ? 0 : 8);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

/* Toeplitz, of source address and port, bit by bit. */
static uint32_t hash_of(const uint8_t *p)
{
	uint8_t in[6];
	uint32_t hash = 0;

	memcpy(in, p + L2 + 12, 4);
	memcpy(in + 4, p + L2 + 20, 2);
	for (unsigned int bit = 0; bit < 48; bit++)
		for (unsigned int k = 0; in[bit / 8] >> (7 - bit % 8) & 1 && k < 32; k++)
			hash ^= (uint32_t)(key[(bit + k) / 8] >> (7 - (bit + k) % 8) & 1)
				<< (31 - k);
	return hash;
}

/* Where the next frame has to be. */
static const uint8_t *place(void)
{
	if (form_now & STRIDES)
		return rx.mem + received / A_RECEIVE % ETHER_SLOTS * (size_t)ETHER_ROOM +
		       ((size_t)(received % A_RECEIVE) << STRIDE_LOG);
	return rx.mem + (received % ETHER_SLOTS) * (size_t)ETHER_ROOM;
}

static void got_frame(const struct mlx5_cqe64 *title, const struct mini *m, uint32_t j)
{
	const bool strides = form_now & STRIDES;
	const uint16_t counter = (uint16_t)(strides ? received % A_RECEIVE : received);
	struct ether_frame f = nth(received);
	const uint8_t *at = place();
	uint8_t right[ETHER_ROOM];
	size_t len = ether_build(&f, right);
	uint32_t brief = (uint32_t)m->brief[0] << 24 | m->brief[1] << 16;

	peer_note("frame %u, %u of its session", received, j);
	want_eq((uint16_t)(be16toh(title->wqe_counter) + j), counter);
	if (strides)
		want_eq(be16toh(title->wqe_id), (uint16_t)(received / A_RECEIVE));
	want_eq(be32toh(m->byte_cnt), len | (strides ? 1 << 16 : 0));
	want(!memcmp(at, right, len));
	want_eq(title->hds_ip_ext & (MLX5_CQE_L3_OK | MLX5_CQE_L4_OK),
		MLX5_CQE_L3_OK | MLX5_CQE_L4_OK);
	if (form_now & STRIDX &&
	    mlx5dv_get_cqe_format((struct mlx5_cqe64 *)(uintptr_t)title) == COMPRESSED)
		want_eq(m->brief[2] << 8 | m->brief[3], counter);
	if (form_now & (CSUM | STRIDX))
		want_eq(brief >> 16, sum_of(right, len));
	else
		want_eq(brief | m->brief[2] << 8 | m->brief[3],
			form_now & SPREAD ? hash_of(right) : 0);
	received++;
}

/* Reads what a burst has brought. A poll of the sender's queue makes progress. */
static void frames(int form)
{
	open_frames(form);
	for (uint32_t round = 0; round < ENOUGH || !sessions; round++) {
		struct ibv_wc wc;

		if (round == ROUNDS)
			fail("%u bursts brought no session", ROUNDS);
		post_receives();
		send_burst(round * BURST);
		peer_poll_ok(ibv_cq_ex_to_cq(tx.cq), &wc);
		while (received < (round + 1) * BURST) {
			want_eq(ibv_poll_cq(ibv_cq_ex_to_cq(tx.cq), 1, &wc), 0);
			take(&reader, form, got_frame);
		}
	}
}

/* --- by the verbs --- */

static uint8_t *ring; /* the last that was made */

static void *ring_make(struct ibv_pd *pd, void *context, size_t size, size_t alignment,
		       uint64_t type)
{
	(void)pd, (void)context;
	if (type != MLX5DV_RES_TYPE_CQ)
		return IBV_ALLOCATOR_USE_DEFAULT;
	ring = aligned_alloc(alignment, size);
	return ring;
}

static void ring_unmake(struct ibv_pd *pd, void *context, void *p, uint64_t type)
{
	(void)pd, (void)context, (void)type;
	free(p);
}

enum { LEN = 4096, ENDS = 2, GRH = 40, QKEY = 0x11111111 };

static struct peer_ep from[ENDS], to[ENDS]; /* each of the first to one of the second */
static struct ibv_cq *sends, *compressed;
static struct ibv_pd *parent;
static struct ibv_ah *ah; /* UD */
static uint8_t *mem;
static struct ibv_mr *mr;

static void endpoint(struct peer_ep *ep, enum ibv_qp_type type, struct ibv_cq *rcq)
{
	struct ibv_qp_init_attr attr = { .qp_type = type,
					 .send_cq = sends,
					 .recv_cq = rcq,
					 .cap = { 2 * BURST, 2 * BURST, 1, 1, 0 } };

	ep->qp = ibv_create_qp(dev.pd, &attr);
	want(ep->qp);
	ep->mine = (struct peer_addr){ .qpn = ep->qp->qp_num, .psn = 7, .gid = dev.gid };
}

static void open_ends(enum ibv_qp_type type, struct ibv_comp_channel *channel)
{
	struct ibv_parent_domain_init_attr a = {
		.pd = dev.pd,
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS,
		.alloc = ring_make,
		.free = ring_unmake,
	};
	struct peer_opts o = { .type = type };
	struct peer_addr here;

	parent = ibv_alloc_parent_domain(dev.ctx, &a);
	sends = ibv_create_cq(dev.ctx, 8 * BURST, NULL, NULL, 0);
	want(parent && sends);
	compressed = queue_on(parent, HASH, channel);
	mem = peer_memory(2 * LEN, false);
	mr = ibv_reg_mr(dev.pd, mem, 2 * LEN, IBV_ACCESS_LOCAL_WRITE);
	want(mr);
	for (int i = 0; i < ENDS; i++) {
		endpoint(&from[i], type, sends);
		endpoint(&to[i], type, compressed);
		from[i].theirs = to[i].mine;
		to[i].theirs = from[i].mine;
		peer_connect(&from[i], &o);
		peer_connect(&to[i], &o);
	}
	here = (struct peer_addr){ .gid = dev.gid };
	ah = type == IBV_QPT_UD ? peer_ah(&dev, &here) : NULL;
}

static void post_burst(int end, uint32_t first, uint32_t n)
{
	struct ibv_sge at = { (uintptr_t)mem + LEN, LEN, mr->lkey };
	struct ibv_send_wr wr[BURST], *bad;
	struct ibv_sge sg[BURST];

	for (uint32_t i = 0; i < n; i++) {
		peer_recv(&to[end], first + i, &at, 1);
		sg[i] = (struct ibv_sge){ (uintptr_t)mem, (first + i) % 100 + 1, mr->lkey };
		wr[i] = (struct ibv_send_wr){ .next = i + 1 < n ? &wr[i + 1] : NULL,
					      .sg_list = &sg[i],
					      .num_sge = 1,
					      .opcode = IBV_WR_SEND_WITH_IMM,
					      .imm_data = htobe32((first + i) / 40) };
		wr[i].wr.ud.ah = ah;
		wr[i].wr.ud.remote_qpn = to[end].qp->qp_num;
		wr[i].wr.ud.remote_qkey = QKEY;
	}
	wr[n - 1].send_flags = IBV_SEND_SIGNALED;
	want_eq(ibv_post_send(from[end].qp, wr, &bad), 0);
}

static void is_receive(const struct ibv_wc *wc, int end, uint32_t id)
{
	peer_note("receive %u of end %d", id, end);
	want_eq(wc->status, IBV_WC_SUCCESS);
	want_eq(wc->opcode, IBV_WC_RECV);
	want_eq(wc->wr_id, id);
	want_eq(wc->qp_num, to[end].qp->qp_num);
	want_eq(wc->byte_len, id % 100 + 1 + (ah ? GRH : 0));
	want_eq(be32toh(wc->imm_data), id / 40);
}

static uint32_t polled; /* of @compressed */

/* A title in front of the consumer. */
static void look_for_session(void)
{
	const uint8_t *at =
		ring + polled % ((uint32_t)compressed->cqe + 1) * sizeof(struct mlx5_cqe64);
	struct mlx5_cqe64 e = { 0 };

	e.op_own = __atomic_load_n(&at[sizeof(e) - 1], __ATOMIC_RELAXED);
	if (mlx5dv_get_cqe_format(&e) == COMPRESSED &&
	    mlx5dv_get_cqe_opcode(&e) == MLX5_CQE_RESP_SEND_IMM)
		sessions++;
}

/* As ibv_poll_cq() would fill it in. */
static void extended(struct ibv_cq_ex *cq, struct ibv_wc *wc)
{
	*wc = (struct ibv_wc){ .wr_id = cq->wr_id,
			       .status = cq->status,
			       .opcode = ibv_wc_read_opcode(cq),
			       .qp_num = ibv_wc_read_qp_num(cq),
			       .byte_len = ibv_wc_read_byte_len(cq),
			       .imm_data = ibv_wc_read_imm_data(cq) };
}

static int poll_extended(int n, struct ibv_wc *wc)
{
	struct ibv_cq_ex *cq = (struct ibv_cq_ex *)compressed;
	struct ibv_poll_cq_attr attr = { 0 };
	int got = 0;

	if (ibv_start_poll(cq, &attr))
		return 0;
	do
		extended(cq, &wc[got++]);
	while (got < n && !ibv_next_poll(cq));
	ibv_end_poll(cq);
	return got;
}

static int poll_some(bool by_readers, int n, struct ibv_wc *wc)
{
	int got;

	look_for_session();
	got = by_readers ? poll_extended(n, wc) : ibv_poll_cq(compressed, n, wc);
	want(got >= 0);
	polled += (uint32_t)got;
	return got;
}

static void sent(void)
{
	struct ibv_wc wc;

	peer_poll_ok(sends, &wc);
}

/* Of different lengths, and parts of sessions at a time. */
static void poll_burst(bool by_readers, uint32_t first)
{
	struct ibv_wc wc[BURST];

	for (uint32_t at = first; at < first + BURST;) {
		int got = poll_some(by_readers, (int)(1 + at % 5), wc);

		for (int i = 0; i < got; i++)
			is_receive(&wc[i], 0, at++);
	}
}

static bool go_on(uint32_t round)
{
	if (round == ROUNDS)
		fail("%u bursts brought no session", ROUNDS);
	return round < ENOUGH || !sessions;
}

static void polls(int type)
{
	peer_open(&dev);
	open_ends((enum ibv_qp_type)type, NULL);
	for (uint32_t round = 0; go_on(round); round++) {
		post_burst(0, round * BURST, BURST);
		sent();
		poll_burst(round % 2, round * BURST);
	}
}

/* --- two processes: the receiver drains a ring, and frees itself of what is delayed --- */

enum { FAR_ROUNDS = 300 };

/* Sends a burst for each byte that comes. */
static int far_side(int fd, void *arg)
{
	struct peer_opts o = { .type = IBV_QPT_RC, .cap = { BURST, BURST, 1, 1, 0 } };
	struct peer_ep ep;

	(void)arg;
	peer_open(&dev);
	mem = peer_memory(2 * LEN, false);
	mr = ibv_reg_mr(dev.pd, mem, 2 * LEN, IBV_ACCESS_LOCAL_WRITE);
	want(mr);
	peer_ep_create(&dev, &o, &ep);
	peer_ep_swap(fd, &ep);
	peer_connect(&ep, &o);
	peer_sync(fd);
	for (uint32_t first = 0; first < FAR_ROUNDS * BURST; first += BURST) {
		struct ibv_wc wc;

		peer_sync(fd);
		for (uint32_t i = first; i < first + BURST; i++) {
			struct ibv_sge sg = { (uintptr_t)mem, i % 100 + 1, mr->lkey };
			struct ibv_send_wr wr = { .sg_list = &sg,
						  .num_sge = 1,
						  .opcode = IBV_WR_SEND_WITH_IMM,
						  .imm_data = htobe32(i / 40),
						  .send_flags = i + 1 < first + BURST
									? 0
									: IBV_SEND_SIGNALED },
					   *bad;

			want_eq(ibv_post_send(ep.qp, &wr, &bad), 0);
		}
		peer_poll_ok(ep.scq, &wc);
	}
	peer_sync(fd);
	return 0;
}

static void between_processes(int by_events)
{
	struct peer_opts o = { .type = IBV_QPT_RC };
	struct ibv_comp_channel *channel = NULL;
	struct ibv_sge at;
	struct ibv_cq *cq;
	uint32_t got = 0;
	void *context;
	int fd;
	pid_t pid = peer_fork(far_side, NULL, &fd);

	peer_open(&dev);
	if (by_events)
		channel = ibv_create_comp_channel(dev.ctx);
	mem = peer_memory(2 * LEN, false);
	mr = ibv_reg_mr(dev.pd, mem, 2 * LEN, IBV_ACCESS_LOCAL_WRITE);
	sends = compressed = queue_on(NULL, CSUM, channel);
	want(mr);
	endpoint(&to[0], IBV_QPT_RC, compressed);
	peer_ep_swap(fd, &to[0]);
	peer_connect(&to[0], &o);
	peer_sync(fd);
	at = (struct ibv_sge){ (uintptr_t)mem, LEN, mr->lkey };
	for (uint32_t round = 0; round < FAR_ROUNDS; round++) {
		for (uint32_t i = 0; i < BURST; i++)
			peer_recv(&to[0], round * BURST + i, &at, 1);
		peer_sync(fd);
		while (got < (round + 1) * BURST) {
			struct ibv_wc wc[7];
			int n = ibv_poll_cq(compressed, 7, wc);

			for (int i = 0; i < n; i++)
				is_receive(&wc[i], 0, got++);
			if (n || !by_events)
				continue;
			want_eq(ibv_req_notify_cq(compressed, 0), 0);
			n = ibv_poll_cq(compressed, 1, wc);
			if (n) {
				is_receive(wc, 0, got++);
				continue;
			}
			want_eq(ibv_get_cq_event(channel, &cq, &context), 0);
			ibv_ack_cq_events(cq, 1);
		}
	}
	peer_sync(fd);
	want_eq(peer_wait(pid), 0);
}

/* --- what happens to sessions that wait --- */

/* Receives of both ends, of which one is taken away, in a ring that grows and shrinks. */
static void resized_and_purged(int arg)
{
	static const int sizes[] = { 40, 100, 35 };
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct peer_opts o = { .type = IBV_QPT_RC };
	struct ibv_wc wc;

	(void)arg;
	peer_open(&dev);
	open_ends(IBV_QPT_RC, NULL);
	for (uint32_t round = 0, id; go_on(round); round++) {
		id = round * BURST;
		post_burst(0, id, BURST);
		post_burst(1, id, BURST);
		sent();
		sent();
		look_for_session();
		want_eq(ibv_resize_cq(compressed, sizes[round % 3]), 0);
		want_eq(ibv_modify_qp(to[0].qp, &reset, IBV_QP_STATE), 0);
		want_eq(ibv_modify_qp(from[0].qp, &reset, IBV_QP_STATE), 0);
		for (uint32_t i = 0; i < BURST; i++) {
			while (!ibv_poll_cq(compressed, 1, &wc))
				;
			is_receive(&wc, 1, id + i);
		}
		want_eq(ibv_poll_cq(compressed, 1, &wc), 0);
		polled += 2 * BURST; /* what was taken away counts */
		peer_connect(&from[0], &o);
		peer_connect(&to[0], &o);
	}
}

static const struct test_case cases[] = {
	CASE_ARG(frames, HASH),
	CASE_ARG(frames, CSUM),
	CASE_ARG(frames, STRIDX),
	CASE_ARG(frames, HASH | WIDE),
	CASE_ARG(frames, CSUM | WIDE | PADDED),
	CASE_ARG(frames, HASH | SPREAD),
	CASE_ARG(frames, CSUM | SPREAD),
	CASE_ARG(frames, STRIDX | STRIDES),
	CASE_ARG(frames, STRIDX | STRIDES | WIDE),
	CASE_ARG(polls, IBV_QPT_RC),
	CASE_ARG(polls, IBV_QPT_UC),
	CASE_ARG(polls, IBV_QPT_UD),
	CASE_ARG(between_processes, false),
	CASE_ARG(between_processes, true),
	CASE(resized_and_purged),
};

int main(void)
{
	return CASES_RUN(cases);
}
