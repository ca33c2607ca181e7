// SPDX-License-Identifier: MIT
/* Messages through keys with signatures, by packets that are shorter than blocks and get lost, and
 * by whole messages: what arrives, and what is found wrong where. */
#include "hca/mkey/mkey.h"
#include "pair.h"

#define MASK(bit) ((uint64_t)MLX5_WQE_UMR_CTRL_MKEY_MASK_##bit)

enum { CUT = 1001, SECOND = 70000, BLOCKS = 17, BLOCK = 512, PITCH = 520, LEN = BLOCKS * PITCH };
enum {
	SIGNABLE =
		MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT | MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE
};

/* T10-DIF in memory, a CRC of 64 bits on the wire */
static const struct signature both = {
	.mem = { .guard = CHECKSUM_CRC16,
		 .block = BLOCK,
		 .field = 8,
		 .app_tag = 0x1234,
		 .ref_tag = 9,
		 .increment = true },
	.wire = { .guard = CHECKSUM_CRC64, .block = 4096, .field = 8, .ones = true },
	.check = 0xff,
};

static const struct net_config networks[] = {
	{ .same_host = true, .max_seg = 4096, .max_ref = 1 << 16, .inline_max = 512, .delay = 100 },
	{ .max_seg = 256, .delay = 1000, .loss = 0.05, .dup = 0.02, .late = 0.05 },
	{ .max_seg = 256,
	  .delay = 1000,
	  .loss = 0.05,
	  .late = 0.05,
	  .window = 32,
	  .abilities = { DEST_REPORTS, DEST_REPORTS } },
};

static const uint8_t ops[] = { MLX5_OPCODE_SEND, MLX5_OPCODE_RDMA_WRITE, MLX5_OPCODE_RDMA_READ };

static uint8_t *byte_of(const struct rig_qp *p, uint32_t i)
{
	return p->mem + (i < CUT ? SECOND + i : i - CUT);
}

/* The first CUT bytes at SECOND of the side's memory, and the rest at 0 */
static struct mkey *key_of(struct rig_qp *p)
{
	struct mlx5dv_mkey_init_attr a = { &p->pd->ib, SIGNABLE, 4 };
	uint32_t under = p->mr->ib.lkey;
	struct umr u = {
		.mask = MASK(LEN) | MASK(FREE) | MASK(BSF_ENABLE) | MASK(ACCESS_LOCAL_WRITE) |
			MASK(ACCESS_REMOTE_READ) | MASK(ACCESS_REMOTE_WRITE),
		.access = rig_rc.access,
		.len = LEN,
		.is_signed = true,
		.brings_sig = true,
		.sig = both,
		.listed = true,
		.times = 1,
		.nparts = 2,
		.part = { { RIG_IOVA + SECOND, CUT, 0, under }, { RIG_IOVA, LEN - CUT, 0, under } }
	};
	struct mkey *m;

	check_eq(mkey_create(p->pd, &a, &m), 0);
	u.mkey = m->dv.lkey;
	check(mkey_umr(p->q.qp.ctx->hca->keys, &u, p->q.qp.pd->pdn) == NULL);
	return m;
}

static void fill(const struct rig_qp *p, uint8_t seed)
{
	uint8_t block[PITCH];
	struct rand r;

	rand_init(&r, seed);
	for (uint32_t b = 0; b < BLOCKS; b++) {
		for (uint32_t i = 0; i < BLOCK; i++)
			block[i] = (uint8_t)rand_u64(&r);
		uint64_t guard = checksum_more(CHECKSUM_CRC16, 0, block, BLOCK);

		put_be16(block + BLOCK, (uint16_t)guard);
		put_be16(block + BLOCK + 2, 0x1234);
		put_be32(block + BLOCK + 4, 9 + b);
		for (uint32_t i = 0; i < PITCH; i++)
			*byte_of(p, b * PITCH + i) = block[i];
	}
}

static struct mlx5dv_mkey_err told(struct mkey *m)
{
	struct mlx5dv_mkey_err e;

	check_eq(mkey_check(m, &e), 0);
	return e;
}

struct ends {
	struct pair *p;
	struct mkey *a, *b;
	struct rig_qp *from, *to;
	struct mkey *from_key;
};

static struct ends open_ends(const struct net_config *net, uint8_t op, uint64_t seed)
{
	struct ends e = { .p = pair_open(net, &rig_rc) };
	bool read = op == MLX5_OPCODE_RDMA_READ;

	rand_init(&e.p->rig.net.rand, seed);
	e.a = key_of(e.p->a);
	e.b = key_of(e.p->b);
	e.from = read ? e.p->b : e.p->a;
	e.to = read ? e.p->a : e.p->b;
	e.from_key = read ? e.b : e.a;
	fill(e.from, (uint8_t)seed);
	fill(e.to, (uint8_t)(seed + 1));
	return e;
}

static void close_ends(struct ends *e)
{
	quiesce_exit(); /* the rig's */
	check_eq(mkey_destroy(e->a), 0);
	check_eq(mkey_destroy(e->b), 0);
	quiesce_enter();
	pair_close(e->p);
}

static void move(struct ends *e, uint8_t op)
{
	uint32_t len = (uint32_t)sig_wire_len(&both, LEN);
	struct sge to = { 0, len, e->b->dv.lkey };
	struct rig_wr w = { .op = op,
			    .nsge = 1,
			    .sge = { { 0, len, e->a->dv.lkey } },
			    .signaled = true,
			    .rkey = e->b->dv.rkey };

	if (op == MLX5_OPCODE_SEND)
		rig_receive(e->p->b, &to, 1);
	rig_post(e->p->a, &w);
	rig_run(&e->p->rig);
	pair_good(e->p->a, false);
}

TEST(what_is_lost_and_sent_again_is_converted_again)
{
	for (unsigned int i = 0; i < 3 * 3 * 10; i++) {
		uint8_t op = ops[i % 3];
		struct ends e = open_ends(&networks[i / 3 % 3], op, i);

		move(&e, op);
		for (uint32_t k = 0; k < LEN; k++)
			check_eq(*byte_of(e.to, k), *byte_of(e.from, k));
		check_eq(told(e.a).err_type, MLX5DV_MKEY_NO_ERR);
		check_eq(told(e.b).err_type, MLX5DV_MKEY_NO_ERR);
		close_ends(&e);
	}
}

/* The sender finds it; on the wire, and where the data arrives, all is well again. */
TEST(a_damaged_block_is_found_by_the_side_whose_memory_has_it)
{
	for (unsigned int i = 0; i < 3 * 3 * 5; i++) {
		uint8_t op = ops[i % 3];
		struct ends e = open_ends(&networks[i / 3 % 3], op, i);
		uint32_t block = i * 7 % BLOCKS;
		struct mlx5dv_mkey_err err;

		*byte_of(e.from, block * PITCH + i) ^= 0x10;
		move(&e, op);
		err = told(e.from_key);
		check_eq(err.err_type, MLX5DV_MKEY_SIG_BLOCK_BAD_GUARD);
		check_eq(err.err.sig.offset, block * PITCH);
		check_eq(told(e.from_key).err_type, MLX5DV_MKEY_NO_ERR);
		check_eq(told(e.from == e.p->a ? e.b : e.a).err_type, MLX5DV_MKEY_NO_ERR);
		for (uint32_t k = 0; k < BLOCK; k++)
			check_eq(*byte_of(e.to, block * PITCH + k),
				 *byte_of(e.from, block * PITCH + k));
		close_ends(&e);
	}
}

RUN_TESTS(unit_test(what_is_lost_and_sent_again_is_converted_again),
	  unit_test(a_damaged_block_is_found_by_the_side_whose_memory_has_it))
