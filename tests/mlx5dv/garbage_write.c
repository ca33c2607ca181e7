// SPDX-License-Identifier: MIT
#include "mlx5dv/garbage_write.h"
#include <stdlib.h>
#include <string.h>

enum { MOST = 16 * BLOCK, INLINE_HEAD = 4, PAGE = 4096, BLUE = 0x800, ARM = 0x20 };
enum { BIND_MW = 0x3d, ATOMIC_WRITE = 0x3f, MASKED_8 = 9, COPY = 1 };
#define INLINE (1U << 31)
#define UMR_CHANGES                                                                                \
	(MLX5_WQE_UMR_CTRL_MKEY_MASK_LEN | MLX5_WQE_UMR_CTRL_MKEY_MASK_START_ADDR |                \
	 MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_LOCAL_WRITE |                                          \
	 MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_REMOTE_READ |                                          \
	 MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_REMOTE_WRITE |                                         \
	 MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_ATOMIC | MLX5_WQE_UMR_CTRL_MKEY_MASK_FREE)

struct garbage garbage;
static uint64_t state;

void dice_begin(uint64_t seed)
{
	state = seed;
}

uint64_t dice(void) /* splitmix64 */
{
	uint64_t z = state += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

uint32_t dice_below(uint32_t n)
{
	return (uint32_t)(dice() >> 32) % n;
}

bool one_in(uint32_t n)
{
	return !dice_below(n);
}

static uint32_t any_number(void)
{
	return garbage.number[dice_below(garbage.n_numbers)];
}

/* --- rings --- */

void paper_of(struct paper *p, void *at, size_t len)
{
	*p = (struct paper){ at, len ? malloc(len) : NULL, len };
	if (!len)
		return;
	want(p->copy);
	memcpy(p->copy, at, len);
}

void paper_want_same(struct paper *p, const char *what)
{
	for (size_t i = 0; i < p->len; i++)
		if (p->at[i] != p->copy[i])
			fail("byte 0x%zx of the %s has changed", i, what);
	free(p->copy);
	*p = (struct paper){ 0 };
}

static void write_byte(struct paper *p, size_t at, uint8_t value)
{
	p->copy[at % p->len] = value;
	__atomic_store_n(&p->at[at % p->len], value, __ATOMIC_RELAXED);
}

void paper_write(struct paper *p, size_t at, const void *what, size_t len)
{
	for (size_t i = 0; i < len; i++)
		write_byte(p, at + i, ((const uint8_t *)what)[i]);
}

void paper_flip(struct paper *p)
{
	size_t at = dice_below((uint32_t)p->len);

	write_byte(p, at, p->copy[at] ^ (uint8_t)(1 << dice_below(8)));
}

/* --- work requests --- */

struct draft {
	uint8_t at[MOST];
	size_t n; /* bytes so far */
	bool bad;
};

static void add(struct draft *d, const void *what, size_t len)
{
	if (d->n + len > MOST)
		return;
	memcpy(d->at + d->n, what, len);
	d->n += len;
}

static void add_random(struct draft *d, size_t len)
{
	for (size_t i = 0; i < len; i += sizeof(uint64_t)) {
		uint64_t r = dice();

		add(d, &r, sizeof(r));
	}
}

/* Where @len bytes are not, or not all, within @of. */
static uint64_t beside(const struct aim *of, uint32_t len)
{
	switch (dice_below(6)) {
	case 0:
		return of->va - 1 - dice_below(64); /* begins before it */
	case 1:
	case 2:
		return of->va + of->len - len + 1 + dice_below(8); /* ends behind it */
	case 3:
		return of->va + of->len + dice_below(PAGE);
	case 4:
		return UINT64_MAX - dice_below(256);
	default:
		return dice();
	}
}

static uint32_t length_of(const struct aim *of)
{
	if (one_in(8))
		return (uint32_t)dice() & (INLINE - 1);
	if (one_in(16))
		return 0; /* that is 2^31 */
	return 1 + dice_below(one_in(4) ? (uint32_t)of->len : 256);
}

/* An address, a length, a key; @len 0: any. */
static struct aim shot(const struct aim *of, unsigned int n, uint32_t len, bool bad)
{
	struct aim to = of[bad && one_in(3) ? dice_below(n) : 0];

	if (!bad || !one_in(6)) {
		bool many = one_in(4) && garbage.type != IBV_QPT_UD;

		len = len ? len : 1 + dice_below(many ? (uint32_t)to.len / 8 : 128);
		to.va += dice_below((uint32_t)to.len / 2) & ~7U;
		to.len = len;
		return to;
	}
	len = len && !one_in(4) ? len : length_of(&to);
	to.va = one_in(2) ? beside(&to, len) : to.va + dice_below((uint32_t)to.len);
	to.len = len;
	if (one_in(4))
		to.key = one_in(2) ? to.key ^ 1U << dice_below(32) : (uint32_t)dice();
	return to;
}

static void add_sge(struct draft *d, uint32_t len)
{
	struct mlx5_wqe_data_seg seg;
	struct aim to = shot(garbage.local, garbage.n_local, len, d->bad);

	mlx5dv_set_data_seg(&seg, (uint32_t)to.len, to.key, to.va);
	add(d, &seg, sizeof(seg));
}

static void add_inline(struct draft *d)
{
	uint32_t len = dice_below(one_in(3) ? 300 : 40), head;
	uint64_t zero[2] = { 0 };

	head = htobe32(INLINE | len);
	if (d->bad && one_in(6)) /* past the end, or with bits that mean nothing */
		head = htobe32(INLINE | (uint32_t)dice());
	add(d, &head, INLINE_HEAD);
	add_random(d, len);
	add(d, zero, (SEG - d->n % SEG) % SEG);
}

static void add_list(struct draft *d, uint32_t len)
{
	unsigned int n = len ? 1 : dice_below(4);

	if (d->bad && one_in(12))
		n = dice_below(60);
	for (unsigned int i = 0; i < n; i++)
		if (!len && one_in(3))
			add_inline(d);
		else
			add_sge(d, len);
}

static void add_av(struct draft *d)
{
	struct mlx5_wqe_av av = garbage.av;
	uint32_t to = garbage.to;

	if (garbage.type != IBV_QPT_UD && garbage.type != IBV_QPT_DRIVER)
		return;
	if (d->bad && one_in(4))
		to = one_in(2) ? any_number() : (uint32_t)dice() & 0xffffff;
	av.dqp_dct |= htobe32(to);
	if (garbage.type == IBV_QPT_UD)
		av.key.qkey.qkey = htobe32(d->bad && one_in(8) ? (uint32_t)dice() : QKEY);
	else
		av.key.dc_key = htobe64(d->bad && one_in(8) ? dice() : ACCESS_KEY);
	if (d->bad && one_in(12))
		((uint8_t *)&av)[dice_below(sizeof(av))] ^= (uint8_t)(1 << dice_below(8));
	add(d, &av, sizeof(av));
}

static void add_remote(struct draft *d, uint32_t len)
{
	struct aim to = shot(garbage.remote, garbage.n_remote, len ? len : 256, d->bad);
	struct mlx5_wqe_raddr_seg seg = { htobe64(to.va), htobe32(to.key), 0 };

	add(d, &seg, sizeof(seg));
}

/* A list of up to 4 parts, or a list that stands in memory, for an mkey. */
static void add_umr(struct draft *d)
{
	struct mlx5_wqe_umr_ctrl_seg ctrl = { 0 };
	struct mlx5_wqe_mkey_context_seg mkey = { 0 };
	unsigned int n = 4;

	ctrl.flags = one_in(4) ? 0 : MLX5_WQE_UMR_CTRL_FLAG_INLINE;
	ctrl.klm_octowords = htobe16((uint16_t)(one_in(6) ? dice() : n));
	ctrl.mkey_mask = one_in(3) ? dice() : htobe64(UMR_CHANGES);
	mkey.access_flags = one_in(3) ? (uint8_t)dice() : 0x3c;
	mkey.qpn_mkey = htobe32(0xffffff00 | (garbage.mkey & 0xff));
	mkey.len = htobe64(one_in(3) ? dice() : 512);
	if (one_in(4))
		mkey.start_addr = dice();
	add(d, &ctrl, sizeof(ctrl));
	add(d, &mkey, sizeof(mkey));
	for (unsigned int i = 0; i < n; i++)
		add_sge(d, 128);
}

static const uint8_t codes[] = {
	MLX5_OPCODE_SEND,
	MLX5_OPCODE_SEND_IMM,
	MLX5_OPCODE_RDMA_WRITE,
	MLX5_OPCODE_RDMA_WRITE_IMM,
	MLX5_OPCODE_RDMA_READ,
	MLX5_OPCODE_ATOMIC_FA,
	MLX5_OPCODE_ATOMIC_CS,
	MLX5_OPCODE_NOP,
	MLX5_OPCODE_UMR, /* from here on only where it may fail */
	MLX5_OPCODE_LOCAL_INVAL,
	MLX5_OPCODE_SEND_INVAL,
	MLX5_OPCODE_MMO,
	MLX5_OPCODE_TSO,
	MLX5_OPCODE_SET_PSV,
	MLX5_OPCODE_ATOMIC_MASKED_CS,
	MLX5_OPCODE_ATOMIC_MASKED_FA,
	BIND_MW,
	ATOMIC_WRITE,
};
enum { CODES_OF_UD = 2, CODES_OF_UC = 4, CODES_GOOD = 8 };

static uint8_t any_code(bool bad)
{
	if (bad && one_in(12))
		return (uint8_t)dice();
	if (bad && one_in(3))
		return codes[dice_below(sizeof(codes))];
	if (garbage.type == IBV_QPT_UD)
		return codes[dice_below(CODES_OF_UD)];
	return codes[dice_below(garbage.type == IBV_QPT_UC ? CODES_OF_UC : CODES_GOOD)];
}

/* Operands, and masks, of an atomic. */
static void add_atomic(struct draft *d, unsigned int segments)
{
	add_remote(d, 8);
	add_random(d, segments * (size_t)SEG);
	add_list(d, 8);
}

static void add_segments(struct draft *d, uint8_t code)
{
	if (code != MLX5_OPCODE_MMO)
		add_av(d);
	switch (code) {
	case MLX5_OPCODE_RDMA_READ:
		add_remote(d, 0);
		add_sge(d, 0);
		break;
	case MLX5_OPCODE_RDMA_WRITE:
	case MLX5_OPCODE_RDMA_WRITE_IMM:
	case ATOMIC_WRITE:
		add_remote(d, 0);
		add_list(d, 0);
		break;
	case MLX5_OPCODE_ATOMIC_FA:
	case MLX5_OPCODE_ATOMIC_CS:
	case MLX5_OPCODE_ATOMIC_MASKED_FA:
		add_atomic(d, 1);
		break;
	case MLX5_OPCODE_ATOMIC_MASKED_CS:
		add_atomic(d, 2);
		break;
	case MLX5_OPCODE_UMR:
		add_umr(d);
		break;
	case MLX5_OPCODE_MMO:
		add_random(d, SEG);
		add_sge(d, 64);
		add_sge(d, 64);
		break;
	case MLX5_OPCODE_NOP:
	case MLX5_OPCODE_LOCAL_INVAL:
		break;
	default:
		add_list(d, 0);
	}
}

/* What the immediate is: of most that have one, a key. */
static uint32_t word_of(uint8_t code)
{
	if (code == MLX5_OPCODE_UMR || one_in(2))
		return garbage.mkey;
	return garbage.remote[dice_below(garbage.n_remote)].key;
}

static void set_control(struct draft *d, const struct hand *h, uint8_t code)
{
	uint16_t index = h->sent;
	uint32_t qpn = h->ep.qp->qp_num;
	uint8_t ds = (uint8_t)(d->n / SEG), flags = MLX5_WQE_CTRL_CQ_UPDATE, opmod = 0;

	if (code == MLX5_OPCODE_ATOMIC_MASKED_CS || code == MLX5_OPCODE_ATOMIC_MASKED_FA)
		opmod = MASKED_8;
	if (code == MLX5_OPCODE_MMO)
		opmod = COPY;
	if (d->bad && one_in(10))
		flags = (uint8_t)dice();
	if (d->bad && one_in(24))
		index = (uint16_t)garbage_index(index, h->qp.sq.wqe_cnt);
	if (d->bad && one_in(24))
		qpn = any_number();
	if (d->bad && one_in(16))
		ds = one_in(2) ? (uint8_t)dice() : (uint8_t)(ds + 1 - 2 * dice_below(2));
	if (d->bad && one_in(24))
		opmod = (uint8_t)dice();
	mlx5dv_set_ctrl_seg((void *)d->at, index, code, opmod, qpn, flags, ds, 0,
			    htobe32(word_of(code)));
}

static const void *put(struct hand *h, struct paper *sq, const struct draft *d)
{
	const void *first = block(h, h->sent);
	size_t blocks = (d->n + BLOCK - 1) / BLOCK;

	paper_write(sq, (size_t)(h->sent % h->qp.sq.wqe_cnt) * BLOCK, d->at, d->n);
	h->sent += (uint16_t)blocks;
	return first;
}

const void *garbage_wqe(struct hand *h, struct paper *sq, bool bad)
{
	struct draft d = { .n = sizeof(struct mlx5_wqe_ctrl_seg), .bad = bad };
	uint8_t code = any_code(bad);

	if (bad && one_in(16)) { /* nothing but noise */
		d.n = 0;
		add_random(&d, (1 + dice_below(8)) * (size_t)SEG);
		return put(h, sq, &d);
	}
	add_segments(&d, code);
	if (d.n > h->qp.sq.wqe_cnt * (size_t)BLOCK / 2) /* not more than half of the ring */
		d.n = h->qp.sq.wqe_cnt * (size_t)BLOCK / 2;
	set_control(&d, h, code);
	if (bad && one_in(16))
		d.at[dice_below((uint32_t)d.n)] ^= (uint8_t)(1 << dice_below(8));
	return put(h, sq, &d);
}

const void *garbage_nop(struct hand *h, struct paper *sq)
{
	struct draft d = { .n = sizeof(struct mlx5_wqe_ctrl_seg) };

	add_segments(&d, MLX5_OPCODE_NOP);
	set_control(&d, h, MLX5_OPCODE_NOP);
	return put(h, sq, &d);
}

/* --- receives, records, doorbells --- */

void garbage_receive(struct paper *rq, uint32_t slot, uint32_t stride, uint32_t head, bool bad)
{
	struct draft d = { .bad = bad };

	if (bad && one_in(8)) {
		add_random(&d, stride);
	} else {
		if (head) { /* the next one's index */
			uint16_t next = htobe16((uint16_t)(slot + 1));
			uint8_t link[SEG] = { 0 };

			if (bad && one_in(3))
				next = (uint16_t)dice();
			memcpy(link + 2, &next, sizeof(next));
			add(&d, link, head);
		}
		while (d.n + SEG <= stride && !(d.n > head && one_in(2)))
			add_sge(&d, bad ? 0 : 4096);
		if (d.n + SEG <= stride) {
			struct mlx5_wqe_data_seg end;

			mlx5dv_set_data_seg(&end, 0, 0x100, 0);
			add(&d, &end, sizeof(end));
		}
	}
	paper_write(rq, (size_t)slot * stride, d.at, d.n < stride ? d.n : stride);
}

uint32_t garbage_index(uint32_t was, uint32_t entries)
{
	switch (dice_below(6)) {
	case 0:
		return was - 1 - dice_below(entries);
	case 1:
		return was + 1 + dice_below(entries);
	case 2:
		return was + entries + 1 + dice_below(entries);
	case 3:
		return was + 0x8000;
	case 4:
		return (uint32_t)dice();
	default:
		return was ^ 1U << dice_below(16);
	}
}

static uint64_t any_value(void)
{
	uint64_t low = (uint32_t)dice();
	uint32_t number = any_number();

	if (one_in(4))
		return dice();
	if (one_in(3)) /* an arm */
		return low | (uint64_t)htobe32(number) << 32;
	return low | (uint64_t)htobe32(number << 8 | dice_below(64)) << 32;
}

void garbage_store(volatile uint8_t *page)
{
	static const size_t usual[] = { ARM, BLUE, BLUE + 0x100, BLUE + 8 };
	size_t at = one_in(3) ? dice_below(PAGE / 8) * 8UL : usual[dice_below(4)];
	uint64_t wqe[BLOCK / sizeof(uint64_t)];

	switch (dice_below(6)) {
	case 0:
		*(volatile uint32_t *)(page + at + 4) = (uint32_t)(any_value() >> 32);
		break;
	case 1:
		page[at + dice_below(8)] = (uint8_t)dice();
		break;
	case 2: /* a whole WQE, by what the compiler takes for it */
		for (size_t i = 0; i < BLOCK / sizeof(uint64_t); i++)
			wqe[i] = any_value();
		memcpy((uint8_t *)page + (BLUE | (at & 0x700)), wqe, sizeof(wqe));
		break;
	default:
		*(volatile uint64_t *)(page + at) = any_value();
	}
}
