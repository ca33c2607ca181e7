// SPDX-License-Identifier: MIT
/* Scatter to CQE: which messages stand in the entries of completions, by the size of the entry, the
 * flags of mlx5dv_create_qp() and the environment. The program reads entries in their ring. */
#include <infiniband/mlx5dv.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "verbs/cases.h"
#include "verbs/said.h"

enum { BYTES = 8192, FROM = 0, TO = 4096, DEFAULT = 0, WRS = 32 };
enum {
	DISABLE = MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE,
	ALLOW = MLX5DV_QP_CREATE_ALLOW_SCATTER_TO_CQE
};

struct end {
	struct peer_ep ep;
	struct mlx5dv_cq cq;
	uint32_t polled;
};

static struct peer_dev dev;
static uint8_t *mem;
static struct ibv_mr *mr;
static struct end a, b;

static void endpoint(struct end *e, enum ibv_qp_type type, uint32_t flags, bool sig_all,
		     uint16_t size)
{
	struct ibv_cq_init_attr_ex ca = { .cqe = 2 * WRS };
	struct mlx5dv_cq_init_attr cdv = { .comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE,
					   .cqe_size = size };
	struct ibv_qp_init_attr_ex attr = { .qp_type = type,
					    .sq_sig_all = sig_all,
					    .cap = { WRS, WRS, 2, 2, 0 },
					    .comp_mask = IBV_QP_INIT_ATTR_PD,
					    .pd = dev.pd };
	struct mlx5dv_qp_init_attr dv = { .comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS,
					  .create_flags = flags };
	struct mlx5dv_qp qp = { 0 };
	struct mlx5dv_obj obj = { .qp = { .out = &qp }, .cq = { .out = &e->cq } };
	struct ibv_cq_ex *cq = mlx5dv_create_cq(dev.ctx, &ca, &cdv);

	want(cq);
	attr.send_cq = attr.recv_cq = e->ep.scq = e->ep.rcq = ibv_cq_ex_to_cq(cq);
	e->ep.qp = mlx5dv_create_qp(dev.ctx, &attr, &dv);
	want(e->ep.qp);
	e->ep.mine = (struct peer_addr){ .qpn = e->ep.qp->qp_num, .psn = 7, .gid = dev.gid };
	obj.qp.in = e->ep.qp;
	obj.cq.in = e->ep.scq;
	want_eq(mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ), 0);
}

static void begin(enum ibv_qp_type type, uint32_t flags, bool sig_all, uint16_t size)
{
	struct peer_opts o = { .type = type };

	said_begin();
	peer_open(&dev);
	mem = peer_memory(BYTES, false);
	mr = ibv_reg_mr(dev.pd, mem, BYTES,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				IBV_ACCESS_REMOTE_ATOMIC);
	want(mr);
	a.polled = b.polled = 0;
	endpoint(&a, type, flags, sig_all, size);
	endpoint(&b, type, flags, sig_all, size);
	a.ep.theirs = b.ep.mine;
	b.ep.theirs = a.ep.mine;
	peer_connect(&a.ep, &o);
	peer_connect(&b.ep, &o);
}

static void end(void)
{
	want_eq(ibv_destroy_qp(a.ep.qp), 0);
	want_eq(ibv_destroy_qp(b.ep.qp), 0);
	want_eq(ibv_destroy_cq(a.ep.scq), 0);
	want_eq(ibv_destroy_cq(b.ep.scq), 0);
	want_eq(ibv_dereg_mr(mr), 0);
	peer_close(&dev);
}

/* The next entry: its whole size. */
static const uint8_t *take(struct end *e, struct mlx5_cqe64 *out)
{
	const uint8_t *at =
		(uint8_t *)e->cq.buf + (size_t)(e->polled % e->cq.cqe_cnt) * e->cq.cqe_size;
	const struct mlx5_cqe64 *c = (const void *)(at + e->cq.cqe_size - sizeof(*c));
	time_t limit = time(NULL) + 10;
	uint8_t own;

	do {
		own = __atomic_load_n(&c->op_own, __ATOMIC_ACQUIRE);
		if (time(NULL) > limit)
			fail("no entry %u came", e->polled);
	} while (own >> 4 == MLX5_CQE_INVALID || (own & 1) != !!(e->polled & e->cq.cqe_cnt));
	*out = *c;
	e->polled++;
	__atomic_store_n(&e->cq.dbrec[0], htobe32(e->polled), __ATOMIC_RELEASE);
	return at;
}

/* The next entry of @e tells of @len bytes, which it has too if @inlined. */
static void entry_has(struct end *e, const void *bytes, uint32_t len, bool inlined)
{
	struct mlx5_cqe64 c;
	const uint8_t *at = take(e, &c);
	uint8_t form = e->cq.cqe_size == 64 ? MLX5_INLINE_SCATTER_32 : MLX5_INLINE_SCATTER_64;

	want_eq(be32toh(c.byte_cnt), len);
	want_eq(c.op_own & (MLX5_INLINE_SCATTER_32 | MLX5_INLINE_SCATTER_64), inlined ? form : 0);
	if (inlined)
		want_eq(memcmp(at, bytes, len), 0);
}

static void post(enum ibv_wr_opcode op, const struct ibv_sge *sg, int n)
{
	struct ibv_send_wr wr = { .opcode = op,
				  .num_sge = n,
				  .sg_list = (struct ibv_sge *)sg,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	wr.wr.rdma.rkey = mr->rkey;
	wr.wr.rdma.remote_addr = (uintptr_t)mem + FROM;
	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.rkey = mr->rkey;
		wr.wr.atomic.remote_addr = (uintptr_t)mem + FROM;
		wr.wr.atomic.compare_add = 1;
	}
	want_eq(ibv_post_send(a.ep.qp, &wr, &bad), 0);
}

/* In two pieces, if it has two bytes. */
static int pieces(uint32_t len, uint32_t at, struct ibv_sge sg[2])
{
	uint32_t first = len > 1 ? len / 2 : len;

	sg[0] = (struct ibv_sge){ (uintptr_t)mem + at, first, mr->lkey };
	sg[1] = (struct ibv_sge){ (uintptr_t)mem + at + first, len - first, mr->lkey };
	return len > 1 ? 2 : 1;
}

static void message(uint32_t len, bool inlined)
{
	struct ibv_sge sg[2];
	struct mlx5_cqe64 c;

	peer_note("SEND of %u", len);
	pattern_fill(mem + FROM, len, len, 0);
	memset(mem + TO, 0, len + 1);
	peer_recv(&b.ep, 1, sg, pieces(len, TO, sg));
	post(IBV_WR_SEND, sg, pieces(len, FROM, sg));
	entry_has(&b, mem + FROM, len, inlined);
	take(&a, &c);
	want_eq(c.op_own & 0xc, 0); /* what was sent is in no entry */
	want_eq(pattern_check(mem + TO, len, len, 0), len);
}

static void answers(uint32_t len, bool inlined)
{
	struct ibv_sge sg[2];
	uint64_t was = 7;

	peer_note("READ of %u", len);
	pattern_fill(mem + FROM, len, len + 1, 0);
	post(IBV_WR_RDMA_READ, sg, pieces(len, TO, sg));
	entry_has(&a, mem + FROM, len, inlined);
	want_eq(pattern_check(mem + TO, len, len + 1, 0), len);
	if (len > 32)
		return;
	peer_note("atomic");
	memcpy(mem + FROM, &was, sizeof(was));
	pieces(1, TO, sg);
	sg[0].length = sizeof(was);
	post(IBV_WR_ATOMIC_FETCH_AND_ADD, sg, 1);
	entry_has(&a, &was, 8, inlined);
}

static const struct row {
	const char *env; /* MLX5_SCATTER_TO_CQE, or NULL */
	uint32_t flags;
	bool sig_all;
	bool receives, answers; /* what stands in entries */
} rows[] = {
	{ NULL, DEFAULT, false, true, false }, { NULL, DEFAULT, true, true, true },
	{ NULL, DISABLE, true, false, false }, { NULL, ALLOW, false, true, true },
	{ "0", DEFAULT, true, false, false },  { "0", ALLOW, false, true, true },
	{ "1", DEFAULT, false, true, false },  { "1", DISABLE, true, false, false },
};

static void says_who(int size)
{
	uint32_t room = (uint32_t)size / 2;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *r = &rows[i];

		if (r->env)
			setenv("MLX5_SCATTER_TO_CQE", r->env, 1);
		else
			unsetenv("MLX5_SCATTER_TO_CQE");
		begin(IBV_QPT_RC, r->flags, r->sig_all, (uint16_t)size);
		peer_note("row %zu", i);
		message(1, r->receives);
		message(room, r->receives);
		message(room + 1, false);
		answers(1, r->answers);
		answers(room, r->answers);
		answers(room + 1, false);
		end();
	}
}

/* Others than RC never. */
static void other_types(int arg)
{
	(void)arg;
	begin(IBV_QPT_UC, ALLOW, true, 64);
	message(8, false);
	end();
}

/* A WRITE's bytes are no receive's. */
static void writes(int arg)
{
	struct ibv_sge sg[2];
	struct mlx5_cqe64 c;

	(void)arg;
	begin(IBV_QPT_RC, ALLOW, true, 64);
	peer_recv(&b.ep, 1, sg, pieces(8, TO, sg));
	post(IBV_WR_RDMA_WRITE_WITH_IMM, sg, pieces(8, TO, sg));
	entry_has(&b, NULL, 8, false);
	take(&a, &c);
	want_eq(c.op_own & 0xc, 0);
	end();
}

/* --- memory where the reader of an entry could not put the bytes --- */

enum place { OTHER_IOVA, ZERO_BASED, DEVICE };
enum { AT = 16 /* of that memory */, PAGE = 4096 };

/* Work requests name @iova for its first byte. */
static struct elsewhere {
	struct ibv_dm *dm;
	struct ibv_mr *mr;
	uint8_t *own; /* unless it is the device's */
	uint8_t *decoy; /* other memory of the program, at addresses that work requests name */
	uint64_t iova;
} there;

static void elsewhere_begin(enum place p)
{
	struct ibv_alloc_dm_attr da = { .length = PAGE };

	there = (struct elsewhere){ 0 };
	if (p == DEVICE) {
		there.dm = ibv_alloc_dm(dev.ctx, &da);
		want(there.dm);
		there.mr = ibv_reg_dm_mr(dev.pd, there.dm, 0, PAGE,
					 IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE);
	} else {
		there.own = peer_memory(PAGE, false);
		there.decoy = peer_memory(PAGE, false);
		pattern_fill(there.decoy, PAGE, 99, 0);
		there.iova = p == OTHER_IOVA ? (uintptr_t)there.decoy : 0;
		there.mr = p == OTHER_IOVA
				   ? ibv_reg_mr_iova(dev.pd, there.own, PAGE, there.iova,
						     IBV_ACCESS_LOCAL_WRITE)
				   : ibv_reg_mr(dev.pd, there.own, PAGE,
						IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE);
	}
	want(there.mr);
}

static void elsewhere_end(void)
{
	if (there.decoy) /* nothing lands where an address alone would lead */
		want_eq(pattern_check(there.decoy, PAGE, 99, 0), PAGE);
	want_eq(ibv_dereg_mr(there.mr), 0);
	if (there.dm)
		want_eq(ibv_free_dm(there.dm), 0);
}

static struct ibv_sge sge_there(uint32_t len)
{
	return (struct ibv_sge){ there.iova + AT, len, there.mr->lkey };
}

/* The bytes of @want are there now. */
static void is_there(const void *want, uint32_t len)
{
	uint8_t back[PAGE];

	if (there.dm)
		want_eq(ibv_memcpy_from_dm(back, there.dm, AT, (len + 3) / 4 * 4), 0);
	else
		memcpy(back, there.own + AT, len);
	want_eq(memcmp(back, want, len), 0);
}

/* A SEND, a READ, and an atomic, whose bytes go there. */
static void go_there(uint32_t len)
{
	struct ibv_sge to = sge_there(len), sg[2];
	struct mlx5_cqe64 c;
	uint64_t was = 7;

	peer_note("SEND of %u", len);
	pattern_fill(mem + FROM, len, 3, 0);
	peer_recv(&b.ep, 1, &to, 1);
	post(IBV_WR_SEND, sg, pieces(len, FROM, sg));
	entry_has(&b, NULL, len, false);
	take(&a, &c);
	is_there(mem + FROM, len);
	peer_note("READ of %u", len);
	pattern_fill(mem + FROM, len, 4, 0);
	post(IBV_WR_RDMA_READ, &to, 1);
	entry_has(&a, NULL, len, false);
	is_there(mem + FROM, len);
	peer_note("atomic");
	to.length = sizeof(was);
	memcpy(mem + FROM, &was, sizeof(was));
	post(IBV_WR_ATOMIC_FETCH_AND_ADD, &to, 1);
	entry_has(&a, NULL, sizeof(was), false);
	is_there(&was, sizeof(was));
}

/* A receive of which only the end is there: the entry has what ends before. */
static void begin_here(void)
{
	struct ibv_sge to[] = { { (uintptr_t)mem + TO, 8, mr->lkey }, sge_there(8) }, sg[2];
	struct mlx5_cqe64 c;

	for (uint32_t len = 8; len <= 16; len += 8) {
		peer_note("SEND of %u, the rest elsewhere", len);
		pattern_fill(mem + FROM, len, len + 5, 0);
		memset(mem + TO, 0, 8);
		peer_recv(&b.ep, 1, to, 2);
		post(IBV_WR_SEND, sg, pieces(len, FROM, sg));
		entry_has(&b, mem + FROM, len, len == 8);
		take(&a, &c);
		want_eq(memcmp(mem + TO, mem + FROM, 8), 0);
		is_there(mem + FROM + 8, len - 8);
	}
}

/* No entry has what its reader could not put there, whether the program has thought of
 * MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE or not; and the bytes come. */
static void elsewhere(int p)
{
	static const uint32_t flags[] = { DEFAULT, ALLOW, DISABLE };

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		begin(IBV_QPT_RC, flags[i], true, 64);
		elsewhere_begin((enum place)p);
		go_there(8);
		go_there(32);
		go_there(33);
		if (flags[i] != DISABLE)
			begin_here();
		elsewhere_end();
		end();
	}
}

static const struct test_case cases[] = {
	CASE_ARG(says_who, 64),
	CASE_ARG(says_who, 128),
	CASE(other_types),
	CASE(writes),
	CASE_ARG(elsewhere, OTHER_IOVA),
	CASE_ARG(elsewhere, ZERO_BASED),
	CASE_ARG(elsewhere, DEVICE),
};

int main(void)
{
	return CASES_RUN(cases);
}
