// SPDX-License-Identifier: MIT
/* mlx5dv_create_cq(): one row for each attribute that is refused; what entries look like in the
 * ring's memory, which this program gives by a parent domain, for each size, padded or not; rings
 * that are polled, resized, purged and overrun. */
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <stdlib.h>
#include <string.h>
#include "verbs/cases.h"
#include "verbs/said.h"

enum { CQES = 15, ENTRIES = 16, LEN = 48 };

static struct peer_dev dev;
static uint8_t *ring; /* the last that was made */
static size_t ring_bytes;

static void *make(struct ibv_pd *pd, void *context, size_t size, size_t alignment, uint64_t type)
{
	(void)pd, (void)context;
	if (type != MLX5DV_RES_TYPE_CQ)
		return IBV_ALLOCATOR_USE_DEFAULT;
	ring = aligned_alloc(alignment, size);
	ring_bytes = size;
	return ring;
}

static void unmake(struct ibv_pd *pd, void *context, void *p, uint64_t type)
{
	(void)pd, (void)context, (void)type;
	free(p);
}

static struct ibv_pd *domain(void)
{
	struct ibv_parent_domain_init_attr a = {
		.pd = dev.pd,
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS,
		.alloc = make,
		.free = unmake,
	};

	return ibv_alloc_parent_domain(dev.ctx, &a);
}

#define MASK(name) MLX5DV_CQ_INIT_ATTR_MASK_##name
#define PAD	   MLX5DV_CQ_INIT_ATTR_FLAGS_CQE_PAD

static const struct row {
	struct mlx5dv_cq_init_attr dv;
	int err;
} rows[] = {
	{ { .comp_mask = 8 }, EINVAL },
	{ { .comp_mask = 1ULL << 63 }, EINVAL },
	{ { .comp_mask = MASK(CQE_SIZE), .cqe_size = 0 }, EINVAL },
	{ { .comp_mask = MASK(CQE_SIZE), .cqe_size = 32 }, EINVAL },
	{ { .comp_mask = MASK(CQE_SIZE), .cqe_size = 100 }, EINVAL },
	{ { .comp_mask = MASK(CQE_SIZE), .cqe_size = 256 }, EINVAL },
	{ { .comp_mask = MASK(FLAGS), .flags = MLX5DV_CQ_INIT_ATTR_FLAGS_RESERVED }, EINVAL },
	{ { .comp_mask = MASK(FLAGS), .flags = 1U << 31 }, EINVAL },
	{ { .comp_mask = MASK(FLAGS), .flags = PAD }, EINVAL },
	{ { .comp_mask = MASK(FLAGS) | MASK(CQE_SIZE), .flags = PAD, .cqe_size = 64 }, EINVAL },
	{ { .comp_mask = MASK(COMPRESSED_CQE) }, EINVAL },
	{ { .comp_mask = MASK(COMPRESSED_CQE), .cqe_comp_res_format = 3 }, EINVAL },
	{ { .comp_mask = MASK(COMPRESSED_CQE), .cqe_comp_res_format = 8 }, EINVAL },
	{ { .comp_mask = MASK(COMPRESSED_CQE), .cqe_comp_res_format = 0x81 }, EINVAL },
	/* taken */
	{ { .comp_mask = 0, .cqe_size = 77, .flags = ~0U, .cqe_comp_res_format = 9 }, 0 },
	{ { .comp_mask = MASK(CQE_SIZE), .cqe_size = 64 }, 0 },
	{ { .comp_mask = MASK(CQE_SIZE), .cqe_size = 128 }, 0 },
	{ { .comp_mask = MASK(FLAGS), .flags = 0 }, 0 },
	{ { .comp_mask = MASK(COMPRESSED_CQE), .cqe_comp_res_format = 1 }, 0 },
	{ { .comp_mask = MASK(COMPRESSED_CQE), .cqe_comp_res_format = 2 }, 0 },
	{ { .comp_mask = MASK(COMPRESSED_CQE), .cqe_comp_res_format = 4 }, 0 },
	{ { .comp_mask = MASK(COMPRESSED_CQE) | MASK(CQE_SIZE),
	    .cqe_comp_res_format = 2,
	    .cqe_size = 128 },
	  0 },
	{ { .comp_mask = MASK(FLAGS) | MASK(CQE_SIZE), .flags = PAD, .cqe_size = 128 }, 0 },
};

static const struct verbs_row {
	struct ibv_cq_init_attr_ex attr;
	int err;
} verbs_rows[] = {
	{ { .cqe = 0 }, EINVAL },
	{ { .cqe = 1U << 31 }, EINVAL },
	{ { .cqe = 1, .comp_vector = 1U << 30 }, EINVAL },
	{ { .cqe = 1, .comp_mask = 4 }, EINVAL },
	{ { .cqe = 1, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = 4 }, EINVAL },
	{ { .cqe = 1, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD }, EINVAL },
	{ { .cqe = 1, .wc_flags = 1ULL << 40 }, EOPNOTSUPP },
	{ { .cqe = 1, .flags = ~0U }, 0 },
};

static void expect(struct ibv_cq_ex *cq, int err)
{
	want_eq(cq ? 0 : errno, err);
	if (cq)
		want_eq(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

static void refusals(int arg)
{
	(void)arg;
	said_begin();
	peer_open(&dev);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_cq_init_attr_ex a = { .cqe = 1 };
		struct mlx5dv_cq_init_attr dv = rows[i].dv;

		peer_note("row %zu", i);
		expect(mlx5dv_create_cq(dev.ctx, &a, &dv), rows[i].err);
	}
	for (size_t i = 0; i < sizeof(verbs_rows) / sizeof(verbs_rows[0]); i++) {
		struct ibv_cq_init_attr_ex a = verbs_rows[i].attr;

		peer_note("row %zu of the verbs'", i);
		expect(mlx5dv_create_cq(dev.ctx, &a, NULL), verbs_rows[i].err);
	}
	want_null(mlx5dv_create_cq(NULL, NULL, NULL), EINVAL);
	want_null(mlx5dv_create_cq(dev.ctx, NULL, NULL), EINVAL);
	said_want(SAID_NEAR, "mlx5dv_create_cq: the queue's attribute is NULL; give one");
	peer_close(&dev);
}

static struct peer_ep a, b;

/* @size: 0, what the environment says. */
static struct ibv_cq *queue(struct ibv_pd *parent, uint16_t size, bool pad)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = CQES,
					    .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
					    .parent_domain = parent };
	struct mlx5dv_cq_init_attr dv = { .comp_mask = (size ? MASK(CQE_SIZE) : 0) |
						       (pad ? MASK(FLAGS) : 0),
					  .cqe_size = size,
					  .flags = pad ? PAD : 0 };
	struct ibv_cq_ex *cq = mlx5dv_create_cq(dev.ctx, &attr, &dv);

	want(cq);
	return ibv_cq_ex_to_cq(cq);
}

static struct ibv_qp *endpoint(struct ibv_cq *cq, struct peer_ep *ep)
{
	struct ibv_qp_init_attr_ex attr = { .qp_type = IBV_QPT_RC,
					    .send_cq = cq,
					    .recv_cq = cq,
					    .sq_sig_all = 1,
					    .cap = { 8, 8, 1, 1, 0 },
					    .comp_mask = IBV_QP_INIT_ATTR_PD,
					    .pd = dev.pd };

	ep->qp = mlx5dv_create_qp(dev.ctx, &attr, NULL);
	want(ep->qp);
	ep->scq = ep->rcq = cq;
	ep->mine = (struct peer_addr){ .qpn = ep->qp->qp_num, .psn = 7, .gid = dev.gid };
	return ep->qp;
}

/* Both ends of a connection on one queue. */
static void connected(struct ibv_cq *cq)
{
	struct peer_opts o = { .type = IBV_QPT_RC };

	endpoint(cq, &a);
	endpoint(cq, &b);
	a.theirs = b.mine;
	b.theirs = a.mine;
	peer_connect(&a, &o);
	peer_connect(&b, &o);
}

static uint8_t *mem;
static struct ibv_mr *mr;

static void post(uint64_t id)
{
	struct ibv_sge to = { (uintptr_t)mem + 4096, LEN, mr->lkey };
	struct ibv_sge from = { (uintptr_t)mem, LEN, mr->lkey };
	struct ibv_send_wr wr = { .wr_id = id,
				  .sg_list = &from,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND_WITH_IMM,
				  .imm_data = htobe32((uint32_t)id) },
			   *bad;

	peer_recv(&b, id, &to, 1);
	want_eq(ibv_post_send(a.qp, &wr, &bad), 0);
}

static void polled(struct ibv_cq *cq, uint64_t id)
{
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc;

		peer_poll_ok(cq, &wc);
		want_eq(wc.wr_id, id);
		if (wc.opcode == IBV_WC_RECV) {
			want_eq(wc.byte_len, LEN);
			want_eq(be32toh(wc.imm_data), id);
		}
	}
	want_eq(pattern_check(mem + 4096, LEN, id, 0), LEN);
}

/* What the format says of entry @i, which was the receive's or the send's of SEND @id. */
static void entry_is(size_t size, unsigned int i, uint64_t id)
{
	const uint8_t *end = ring + (i % ENTRIES + 1) * size;
	struct mlx5_cqe64 e;

	memcpy(&e, end - sizeof(e), sizeof(e));
	want_eq(mlx5dv_get_cqe_owner(&e), !!(i & ENTRIES));
	want_eq(mlx5dv_get_cqe_format(&e), 0);
	if (mlx5dv_get_cqe_opcode(&e) == MLX5_CQE_REQ) {
		want_eq(be32toh(e.sop_drop_qpn),
			(uint32_t)MLX5_OPCODE_SEND_IMM << 24 | a.qp->qp_num);
		return;
	}
	want_eq(mlx5dv_get_cqe_opcode(&e), MLX5_CQE_RESP_SEND_IMM);
	want_eq(be32toh(e.byte_cnt), LEN);
	want_eq(be32toh(e.imm_inval_pkey), id);
}

static bool is_all(const uint8_t *p, uint8_t byte, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != byte)
			return false;
	return true;
}

static struct ibv_pd *begin(void)
{
	struct ibv_pd *parent;

	peer_open(&dev);
	mem = peer_memory(8192, false);
	mr = ibv_reg_mr(dev.pd, mem, 8192, IBV_ACCESS_LOCAL_WRITE);
	parent = domain();
	want(mr && parent);
	return parent;
}

static void end(struct ibv_pd *parent, struct ibv_cq *cq)
{
	want_eq(ibv_destroy_qp(a.qp), 0);
	want_eq(ibv_destroy_qp(b.qp), 0);
	want_eq(ibv_destroy_cq(cq), 0);
	want_eq(ibv_dealloc_pd(parent), 0);
	want_eq(ibv_dereg_mr(mr), 0);
	peer_close(&dev);
}

/* Three passes over the ring. The first half of an entry of 128 bytes is the device's only if it is
 * padded. */
static void traffic(uint16_t size, bool pad)
{
	struct ibv_pd *parent = begin();
	struct ibv_cq *cq = queue(parent, size, pad);
	size_t bytes = size ? size : 64;

	want_eq(ring_bytes, bytes * ENTRIES < 4096 ? 4096 : bytes * ENTRIES);
	want_eq(cq->cqe, CQES);
	connected(cq);
	for (unsigned int i = 0; bytes == 128 && i < ENTRIES; i++)
		memset(ring + i * bytes, 0xa5, 64);
	for (uint64_t id = 0; id < 3 * ENTRIES / 2; id++) {
		pattern_fill(mem, LEN, id, 0);
		post(id);
		polled(cq, id);
		for (unsigned int i = 0; i < 2; i++) {
			unsigned int n = (unsigned int)id * 2 + i;

			entry_is(bytes, n, id);
			if (bytes == 128)
				want(is_all(ring + n % ENTRIES * bytes, pad ? 0 : 0xa5, 64));
		}
	}
	end(parent, cq);
}

static void sizes(int size)
{
	traffic((uint16_t)size, false);
}

static void padding(int arg)
{
	(void)arg;
	traffic(128, true);
}

/* The environment decides where the program does not, of the verbs' queues too. */
static void environment(int arg)
{
	static const struct {
		const char *text;
		size_t bytes; /* 0: refused */
	} says[] = { { "64", 64 }, { "128", 128 }, { "100", 0 }, { "", 0 }, { "64 ", 0 } };
	struct ibv_pd *parent;

	(void)arg;
	said_begin();
	parent = begin();
	for (size_t i = 0; i < sizeof(says) / sizeof(says[0]); i++) {
		struct ibv_cq_init_attr_ex attr = { .cqe = 100,
						    .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
						    .parent_domain = parent };
		struct mlx5dv_cq_init_attr dv = { .comp_mask = MASK(CQE_SIZE), .cqe_size = 64 };

		setenv("MLX5_CQE_SIZE", says[i].text, 1);
		ring_bytes = 0;
		expect(mlx5dv_create_cq(dev.ctx, &attr, NULL), says[i].bytes ? 0 : EINVAL);
		want_eq(ring_bytes, says[i].bytes * 128);
		expect(ibv_create_cq_ex(dev.ctx, &attr), says[i].bytes ? 0 : EINVAL);
		expect(mlx5dv_create_cq(dev.ctx, &attr, &dv), 0);
		want_eq(ring_bytes, 64 * 128);
	}
	said_want(SAID_NEAR, "ibv_create_cq: the environment's MLX5_CQE_SIZE is \"64 \"; entries "
			     "have 64 or 128 B");
}

/* A resize keeps the entries' size and the unread ones; RESET takes out those of one QP. */
static void resized_and_purged(int size)
{
	struct ibv_pd *parent = begin();
	struct ibv_cq *cq = queue(parent, (uint16_t)size, false);
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct ibv_wc wc;

	connected(cq);
	for (uint64_t id = 0; id < 5; id++) {
		pattern_fill(mem, LEN, id, 0);
		post(id);
		polled(cq, id);
	}
	for (uint64_t id = 5; id < 9; id++)
		post(id);
	while (ibv_resize_cq(cq, 7) == 0) /* until all eight entries are there */
		want_eq(ibv_resize_cq(cq, 15), 0);
	want_eq(errno, EINVAL);
	want_eq(ibv_resize_cq(cq, 40), 0);
	want_eq(cq->cqe, 63);
	want_eq(ring_bytes, (size_t)size * 64);
	want_eq(ibv_modify_qp(a.qp, &reset, IBV_QP_STATE), 0);
	for (uint64_t id = 5; id < 9; id++) {
		peer_poll_ok(cq, &wc);
		want_eq(wc.wr_id, id);
		want_eq(wc.qp_num, b.qp->qp_num);
	}
	want_eq(ibv_poll_cq(cq, 1, &wc), 0);
	end(parent, cq);
}

static const struct test_case cases[] = {
	CASE(refusals),
	CASE_ARG(sizes, 0),
	CASE_ARG(sizes, 64),
	CASE_ARG(sizes, 128),
	CASE(padding),
	CASE(environment),
	CASE_ARG(resized_and_purged, 64),
	CASE_ARG(resized_and_purged, 128),
};

int main(void)
{
	return CASES_RUN(cases);
}
