// SPDX-License-Identifier: MIT
/* mlx5dv_wr_memcpy(3): the device copies from memory to memory; what it refuses, and where in the
 * order of work requests. */
#include <errno.h>
#include <string.h>
#include "mlx5dv/dc_duo.h"
#include "verbs/said.h"

enum { MAX = 4 << 20, SOURCE = 0, TARGET = 1, SEGS = 16 };

static struct peer_dev dev;
static struct peer_ep ep[2];
static struct ibv_qp_ex *ex;
static struct mlx5dv_qp_ex *dv;
static struct ibv_mr *mr[2];
static uint8_t *mem[2];

static void begin(void)
{
	struct peer_opts o = { .type = IBV_QPT_RC,
			       .cap = { 64, 64, 2, 2, 256 },
			       .send_ops = IBV_QP_EX_WITH_RDMA_WRITE };

	said_begin();
	peer_open(&dev);
	peer_pair(&dev, &o, &ep[0], &ep[1]);
	ex = ibv_qp_to_qp_ex(ep[0].qp);
	dv = mlx5dv_qp_ex_from_ibv_qp_ex(ex);
	want(ex && dv);
	for (int i = 0; i < 2; i++) {
		mem[i] = peer_memory(MAX + 4096, false);
		mr[i] = ibv_reg_mr(dev.pd, mem[i], MAX + 4096,
				   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
		want(mr[i]);
	}
}

static void start(uint64_t id)
{
	ibv_wr_start(ex);
	ex->wr_id = id;
	ex->wr_flags = IBV_SEND_SIGNALED;
}

static void copy(uint64_t id, uint32_t to, uint32_t from, size_t len)
{
	start(id);
	mlx5dv_wr_memcpy(dv, to, (uintptr_t)mem[TARGET], from, (uintptr_t)mem[SOURCE], len);
	want_eq(ibv_wr_complete(ex), 0);
}

static void ends_as(uint64_t id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	want(peer_poll(ep[0].scq, &wc, 30000));
	want_eq(wc.wr_id, id);
	want_eq(wc.status, status);
	if (status == IBV_WC_SUCCESS && id)
		want_eq(wc.opcode, MLX5DV_WC_MEMCPY);
}

static void lengths(int arg)
{
	static const size_t rows[] = { 1, 63, 4096, 65535, 65536, 65537, 200000, MAX };

	(void)arg;
	begin();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		pattern_fill(mem[SOURCE], rows[i], i + 1, 0);
		memset(mem[TARGET], 0, rows[i] + 64);
		copy(i + 1, mr[TARGET]->lkey, mr[SOURCE]->lkey, rows[i]);
		ends_as(i + 1, IBV_WC_SUCCESS);
		want_eq(pattern_check(mem[TARGET], rows[i], i + 1, 0), rows[i]);
		want_eq(mem[TARGET][rows[i]], 0);
	}
}

static void bad_lengths(int arg)
{
	struct mlx5dv_context a = { .comp_mask = MLX5DV_CONTEXT_MASK_WR_MEMCPY_LENGTH };
	static const size_t rows[] = { 0, MAX + 1, 1UL << 31, (1UL << 32) + 8 };

	(void)arg;
	begin();
	want_eq(mlx5dv_query_device(dev.ctx, &a), 0);
	want_eq(a.max_wr_memcpy_length, MAX);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		start(1);
		mlx5dv_wr_memcpy(dv, mr[TARGET]->lkey, (uintptr_t)mem[TARGET], mr[SOURCE]->lkey,
				 (uintptr_t)mem[SOURCE], rows[i]);
		want_eq(ibv_wr_complete(ex), EINVAL);
		said_want(SAID_NEAR,
			  "mlx5dv_wr_memcpy (wr_id 0x1): %zu B on QP 0x%x; a copy has 1 to %d B "
			  "(max_wr_memcpy_length)",
			  rows[i], ep[0].qp->qp_num, MAX);
	}
	copy(2, mr[TARGET]->lkey, mr[SOURCE]->lkey, 8); /* nothing is left of them */
	ends_as(2, IBV_WC_SUCCESS);
}

enum { PART = 512, SKIP = 8, PARTS = 256 };

/* PARTS parts of the memory of @side, with a gap behind each. Its bytes count from 0. */
static struct mlx5dv_mkey *in_parts(int side)
{
	struct mlx5dv_mkey_init_attr a = { dev.pd, MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT, 4 };
	struct mlx5dv_mr_interleaved p = { (uintptr_t)mem[side], PART, SKIP, mr[side]->lkey };
	struct mlx5dv_mkey *m = mlx5dv_create_mkey(&a);

	want(m);
	start(0);
	ex->wr_flags |= IBV_SEND_INLINE;
	mlx5dv_wr_mr_interleaved(dv, m, IBV_ACCESS_LOCAL_WRITE, PARTS, 1, &p);
	want_eq(ibv_wr_complete(ex), 0);
	ends_as(0, IBV_WC_SUCCESS);
	return m;
}

/* More parts than a segment has pieces, on either side and on both. */
static void of_many_parts(int sides)
{
	const size_t len = PARTS * PART;
	uint32_t key[2];
	uint64_t addr[2];

	begin();
	for (int i = 0; i < 2; i++) {
		bool apart = sides & 1 << i;

		key[i] = apart ? in_parts(i)->lkey : mr[i]->lkey;
		addr[i] = apart ? 0 : (uintptr_t)mem[i];
	}
	for (size_t at = 0; at < len; at += PART)
		pattern_fill(mem[SOURCE] + (sides & 1 << SOURCE ? at / PART * SKIP : 0) + at, PART,
			     at + 1, 0);
	memset(mem[TARGET], 0, MAX);
	start(1);
	mlx5dv_wr_memcpy(dv, key[TARGET], addr[TARGET], key[SOURCE], addr[SOURCE], len);
	want_eq(ibv_wr_complete(ex), 0);
	ends_as(1, IBV_WC_SUCCESS);
	for (size_t at = 0; at < len; at += PART) {
		const uint8_t *part =
			mem[TARGET] + at + (sides & 1 << TARGET ? at / PART * SKIP : 0);

		want_eq(pattern_check(part, PART, at + 1, 0), PART);
		if (sides & 1 << TARGET)
			want_eq(part[PART], 0); /* the gap */
	}
}

enum wrong { NO_KEY, OTHER_PD, READ_ONLY, TOO_FAR, UNMAPPED };

static void wrong_key(enum wrong how, int side, uint32_t *key, size_t *len)
{
	struct ibv_pd *other = ibv_alloc_pd(dev.ctx);
	struct ibv_mr *of;

	*key = PEER_NO_KEY;
	if (how == OTHER_PD || how == READ_ONLY) {
		of = ibv_reg_mr(how == OTHER_PD ? other : dev.pd, mem[side], MAX,
				how == OTHER_PD ? IBV_ACCESS_LOCAL_WRITE : 0);
		want(of);
		*key = of->lkey;
	} else if (how != NO_KEY) {
		*key = mr[side]->lkey;
		*len = 8192;
	}
	if (how == TOO_FAR)
		mem[side] += MAX;
	if (how == UNMAPPED)
		peer_unmap(mem[side] + 4096, 4096);
}

/* In their places: what was posted before completes, what was posted behind is flushed. */
static void refused(int row)
{
	int side = row & 1;
	uint32_t key[2];
	size_t len = 64;

	begin();
	key[SOURCE] = mr[SOURCE]->lkey;
	key[TARGET] = mr[TARGET]->lkey;
	wrong_key((enum wrong)(row >> 1), side, &key[side], &len);
	start(0);
	ibv_wr_rdma_write(ex, mr[TARGET]->rkey, (uintptr_t)mr[TARGET]->addr);
	ibv_wr_set_sge(ex, mr[SOURCE]->lkey, (uintptr_t)mr[SOURCE]->addr, 64);
	want_eq(ibv_wr_complete(ex), 0);
	copy(1, key[TARGET], key[SOURCE], len);
	copy(2, mr[TARGET]->lkey, mr[SOURCE]->lkey, 64);
	ends_as(0, IBV_WC_SUCCESS);
	ends_as(1, IBV_WC_LOC_PROT_ERR);
	ends_as(2, IBV_WC_WR_FLUSH_ERR);
}

/* As bytes: operations that the device does not know, two lengths, none. */
static void malformed(int row)
{
	static const struct {
		uint8_t opmod, ds;
		uint32_t source, target;
		enum ibv_wc_status status;
	} rows[] = {
		{ 1, 4, 64, 64, IBV_WC_SUCCESS },
		{ 0, 4, 64, 64, IBV_WC_LOC_QP_OP_ERR },
		{ 2, 4, 64, 64, IBV_WC_LOC_QP_OP_ERR },
		{ 1, 3, 64, 64, IBV_WC_LOC_QP_OP_ERR },
		{ 1, 4, 64, 65, IBV_WC_LOC_QP_OP_ERR },
		{ 1, 1, 64, 64, IBV_WC_LOC_QP_OP_ERR },
		{ 1, 4, MAX + 1, MAX + 1, IBV_WC_LOC_QP_OP_ERR },
		{ 1, 4, 0, 0, IBV_WC_LOC_LEN_ERR }, /* 2^31 each */
	};
	uint8_t wqe[4 * SEGS] __attribute__((aligned(64))) = { 0 };
	struct mlx5_wqe_data_seg *list = (void *)(wqe + 2 * SEGS);
	struct ibv_wc wc;

	begin();
	mlx5dv_set_ctrl_seg((void *)wqe, 0, MLX5_OPCODE_MMO, rows[row].opmod, 0,
			    MLX5_WQE_CTRL_CQ_UPDATE, rows[row].ds, 0, 0);
	mlx5dv_set_data_seg(&list[0], rows[row].source, mr[SOURCE]->lkey, (uintptr_t)mem[SOURCE]);
	mlx5dv_set_data_seg(&list[1], rows[row].target, mr[TARGET]->lkey, (uintptr_t)mem[TARGET]);
	pattern_fill(mem[SOURCE], 64, 7, 0);
	start(1);
	mlx5dv_wr_raw_wqe(dv, wqe);
	want_eq(ibv_wr_complete(ex), 0);
	want(peer_poll(ep[0].scq, &wc, 30000));
	want_eq(wc.status, rows[row].status);
	want_eq(pattern_check(mem[TARGET], 64, 7, 0) == 64, !row);
}

/* An initiator copies without an address, between messages that have one. */
static void of_an_initiator(int arg)
{
	static struct dc_duo d;
	struct ibv_wc wc;

	(void)arg;
	dc_open(&d, THIS_PROCESS);
	for (uint64_t i = 0; i < 20; i++) {
		pattern_fill(d.mem, 100, i, 0);
		ibv_wr_start(d.i.ex);
		d.i.ex->wr_id = 100 + i;
		d.i.ex->wr_flags = IBV_SEND_SIGNALED;
		mlx5dv_wr_memcpy(d.i.dv, d.mr->lkey, (uintptr_t)d.mem + 4096, d.mr->lkey,
				 (uintptr_t)d.mem, 100);
		want_eq(ibv_wr_complete(d.i.ex), 0);
		dc_post(&d, &d.i, IBV_WR_RDMA_WRITE, (unsigned int)i % d.targets, 8, i);
		wc = dc_wc(&d.i);
		want_eq(wc.wr_id, 100 + i);
		want_eq(wc.status, IBV_WC_SUCCESS);
		want_eq(wc.opcode, MLX5DV_WC_MEMCPY);
		dc_done(&d.i, i);
		want_eq(pattern_check(d.mem + 4096, 100, i, 0), 100);
	}
	dc_close(&d);
}

/* Others have no such work request. */
static void of_others(int arg)
{
	struct peer_opts o = { .type = IBV_QPT_UC,
			       .cap = { 64, 64, 2, 2, 0 },
			       .send_ops = IBV_QP_EX_WITH_SEND };

	(void)arg;
	begin();
	peer_pair(&dev, &o, &ep[0], &ep[1]);
	ex = ibv_qp_to_qp_ex(ep[0].qp);
	dv = mlx5dv_qp_ex_from_ibv_qp_ex(ex);
	start(1);
	mlx5dv_wr_memcpy(dv, mr[TARGET]->lkey, (uintptr_t)mem[TARGET], mr[SOURCE]->lkey,
			 (uintptr_t)mem[SOURCE], 8);
	want_eq(ibv_wr_complete(ex), EOPNOTSUPP);
}

#define BOTH(f, how) CASE_ARG(f, (how) << 1 | SOURCE), CASE_ARG(f, (how) << 1 | TARGET)

static const struct test_case cases[] = {
	CASE(lengths),
	CASE(bad_lengths),
	CASE_ARG(of_many_parts, 1 << SOURCE),
	CASE_ARG(of_many_parts, 1 << TARGET),
	CASE_ARG(of_many_parts, 1 << SOURCE | 1 << TARGET),
	BOTH(refused, NO_KEY),
	BOTH(refused, OTHER_PD),
	CASE_ARG(refused, READ_ONLY << 1 | TARGET),
	BOTH(refused, TOO_FAR),
	BOTH(refused, UNMAPPED),
	CASE_ARG(malformed, 0),
	CASE_ARG(malformed, 1),
	CASE_ARG(malformed, 2),
	CASE_ARG(malformed, 3),
	CASE_ARG(malformed, 4),
	CASE_ARG(malformed, 5),
	CASE_ARG(malformed, 6),
	CASE_ARG(malformed, 7),
	CASE(of_an_initiator),
	CASE(of_others),
};

int main(void)
{
	return CASES_RUN(cases);
}
