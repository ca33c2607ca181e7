// SPDX-License-Identifier: MIT
/* UMRs, the layouts and signatures that they give to mkeys, and accesses by these: whatever a
 * program writes, an access reaches memory that its keys allow, as many bytes as were asked for, or
 * none. The input is a script: UMRs with lists of regions and of each other, as a program would
 * write them or byte by byte, invalidations, and accesses. */
#include <string.h>
#include "fuzz.h"
#include "hca/mkey/fleeting.h"
#include "hca/mkey/mkey.h"
#include "sim/rig.h"
#include "transport/gather.h"
#include "transport/linear/linear.h"

enum { STEPS = 32, MKEYS = 4, OPEN_AT = 0x8000, OPEN = 0x4000, GUARD = 0x11, ACCESS = 9000 };
enum { MTU = 256, RING = 16 /* blocks */, UMR_LEN = 63 * 16 };

const struct fuzz_target fuzz_target = { "mkey", 2048, 250000 };

static struct rig rig;
static struct rig_qp *p;
static struct mr *open_mr; /* may be written: [OPEN_AT, OPEN_AT + OPEN) */
static struct mkey *mkeys[MKEYS];
static uint8_t bytes_in[ACCESS]; /* what a peer sends */

static void begin(void)
{
	static const struct net_config cfg = { .max_seg = MTU, .delay = 1000 };
	struct mr_attr a = { .len = OPEN, .iova = RIG_IOVA + OPEN_AT, .access = rig_rc.access };
	struct rig_attr closed = rig_rc;

	closed.access = 0;
	rig_open(&rig, &cfg, 1);
	p = rig_qp_open(&rig, &closed, GUARD);
	a.addr = p->mem + OPEN_AT;
	if (mr_create(p->pd, &a, &open_mr))
		abort();
	rig_connect(p, &rig_rc, 0x999);
}

static void make(void)
{
	quiesce_exit();
	for (unsigned int i = 0; i < MKEYS; i++) {
		struct mlx5dv_mkey_init_attr a = {
			&p->pd->ib,
			MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT |
				MLX5DV_MKEY_INIT_ATTR_FLAGS_UPDATE_TAG |
				MLX5DV_MKEY_INIT_ATTR_FLAGS_REMOTE_INVALIDATE |
				(i % 2 ? MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE : 0),
			(uint16_t)(i ? UMR_PARTS : 4)
		};

		if (mkey_create(p->pd, &a, &mkeys[i]))
			abort();
	}
	quiesce_enter();
}

static void end(void)
{
	quiesce_exit();
	for (unsigned int i = 0; i < MKEYS; i++)
		if (mkey_destroy(mkeys[i]))
			abort();
	quiesce_enter();
}

/* --- UMRs --- */

static struct mkey *any_mkey(struct fuzz_bytes *b)
{
	return mkeys[fuzz_take(b, 1) % MKEYS];
}

/* A key and an address of it, most of them good ones. */
static uint32_t any_key(struct fuzz_bytes *b, uint64_t *va)
{
	uint8_t x = (uint8_t)fuzz_take(b, 1);

	if (x & 0x80) {
		*va = fuzz_take(b, 8);
		return x & 0x40 ? (uint32_t)fuzz_take(b, 4) : mkeys[x % MKEYS]->now.key;
	}
	*va = fuzz_take(b, 2);
	if (x & 4)
		return mkeys[x % MKEYS]->now.key;
	*va += RIG_IOVA + OPEN_AT - (x & 8 ? 0x100 : 0);
	return x & 3 ? open_mr->ib.lkey : p->mr->ib.lkey;
}

static unsigned int parts(struct fuzz_bytes *b, struct umr_part *part)
{
	unsigned int n = (unsigned int)fuzz_take(b, 1) % 8;

	for (unsigned int i = 0; i < n; i++) {
		part[i].key = any_key(b, &part[i].va);
		part[i].len = (uint32_t)fuzz_take(b, 2);
		part[i].stride = (uint32_t)fuzz_take(b, 2);
	}
	return n;
}

static struct sig_domain domain(struct fuzz_bytes *b)
{
	static const uint32_t blocks[] = { 512, 520, 4048, 4096, 4160 };
	uint8_t x = (uint8_t)fuzz_take(b, 1), y = (uint8_t)fuzz_take(b, 1);

	return (struct sig_domain){ .guard = (enum checksum)(x % (CHECKSUM_CRC64 + 1)),
				    .ones = x & 0x80,
				    .block = blocks[y % 5],
				    .app_tag = (uint16_t)fuzz_take(b, 1),
				    .ref_tag = (uint32_t)fuzz_take(b, 1),
				    .increment = y & 0x20,
				    .app_escape = y & 0x40,
				    .ref_escape = y & 0x80 };
}

/* As the driver builds one */
static void shaped(struct fuzz_bytes *b, uint8_t *segs, unsigned int *n)
{
	struct umr_part part[8];
	uint8_t x = (uint8_t)fuzz_take(b, 1);
	unsigned int nparts = x & 1 ? parts(b, part) : 0;
	uint64_t len = fuzz_take(b, x & 2 ? 8 : 2);

	if (nparts && x & 4)
		*n += umr_interleaved(segs, part, nparts, (uint32_t)fuzz_take(b, 1), len);
	else if (nparts)
		*n += umr_list(segs, part, nparts, len);
	umr_access(segs, x & 8 ? rig_rc.access : 0);
	umr_free(segs, !(x & 0x70));
	if (x & 0x80) {
		struct signature s = { domain(b), domain(b), (uint8_t)fuzz_take(b, 1),
				       (uint8_t)fuzz_take(b, 1) };

		umr_sign(segs, true);
		umr_rearm(segs);
		bsf_write(segs + (size_t)(*n - 1) * 16, &s);
		*n += BSF_SEGS;
	} else if (x & 0x40) {
		umr_sign(segs, false);
	}
}

static void umr(struct fuzz_bytes *b)
{
	uint8_t *wqe = rig_alloc(RING * WQE_BB), x = (uint8_t)fuzz_take(b, 1);
	const struct sq_ring ring = { .buf = wqe, .cnt = RING };
	unsigned int n = UMR_FIXED_SEGS;
	const struct mkey *m = any_mkey(b);
	const uint8_t *run;
	struct umr u;

	shaped(b, wqe + 16, &n);
	put_be32(wqe, MLX5_OPCODE_UMR);
	put_be32(wqe + 4, p->q.qp.qpn << 8 | n);
	put_be32(wqe + 12, m->now.key);
	if (x & 1) { /* and then byte by byte */
		size_t at = fuzz_take(b, 2) % UMR_LEN;
		size_t len = fuzz_take_run(b, fuzz_take(b, 1) % (UMR_LEN - at), &run);

		memcpy(wqe + at, run, len);
	}
	if (!umr_parse(&ring, 0, &u)) {
		must(!u.listed || (u.nparts >= 1 && u.nparts <= UMR_PARTS));
		mkey_umr(rig.hca.keys, &u, p->pd->pdn);
	}
	free(wqe);
	for (unsigned int i = 0; i < MKEYS; i++) {
		const struct mkey_state *s = &mkeys[i]->now;

		must(s->key && (s->free || s->layout));
		must(!s->layout || s->len <= s->covers);
	}
}

static void invalidate(struct fuzz_bytes *b)
{
	uint8_t x = (uint8_t)fuzz_take(b, 1);
	struct invalidation i = { mkeys[x % MKEYS]->now.key, p->pd->pdn, 1, x & 4 };

	fleeting_invalidate(rig.hca.keys, &i);
}

/* --- accesses --- */

static void allowed(const struct gather *g, unsigned int need, uint64_t len)
{
	uint64_t from = (uintptr_t)p->mem + (need ? OPEN_AT : 0), size = need ? OPEN : RIG_MEM;
	uint64_t sum = 0;

	must(g->n <= GATHER_PIECES);
	for (unsigned int i = 0; i < g->n; i++) {
		must(g->piece[i].addr >= from && g->piece[i].len <= size);
		must(g->piece[i].addr - from <= size - g->piece[i].len);
		sum += g->piece[i].len;
	}
	must(sum == len);
}

static void send(struct gather_ask *ask)
{
	struct gather g;

	if (gather(rig.hca.keys, ask, &g)) {
		allowed(&g, 0, ask->len);
		return;
	}
	if (!linear_source(&p->q, ask, 4 * MTU, &g))
		return;
	must(g.n == 1 && g.piece[0].len == ask->len && ask->len <= 4 * MTU);
}

static void receive(struct gather_ask *ask)
{
	struct gather g;
	struct seg s = { .op = 0, .len = (uint32_t)ask->len, .data = bytes_in };

	ask->need = IBV_ACCESS_LOCAL_WRITE;
	if (gather(rig.hca.keys, ask, &g)) {
		allowed(&g, ask->need, ask->len);
		return;
	}
	if (linear_place(&p->q, ask, &s, 0, &g))
		must(g.n == 1 && g.piece[0].len == ask->len);
}

static void access_by_keys(struct fuzz_bytes *b)
{
	uint8_t x = (uint8_t)fuzz_take(b, 1);
	struct sge sge[3];
	struct gather_ask ask = { .sge = sge, .n = 1 + x % 3, .pdn = p->pd->pdn };
	uint64_t all = 0;

	for (unsigned int i = 0; i < ask.n; i++) {
		sge[i].key = any_key(b, &sge[i].addr);
		sge[i].len = (uint32_t)fuzz_take(b, 2) % (ACCESS / 3);
		all += sge[i].len;
	}
	ask.skip = x & 0x10 ? fuzz_take(b, 2) % (all + 1) : 0;
	ask.len = all - ask.skip;
	if (x & 0x20)
		receive(&ask);
	else
		send(&ask);
}

/* A peer's, by a key whose bytes may be signed */
static void check(struct fuzz_bytes *b)
{
	struct key_ask k = { .pdn = p->pd->pdn, .need = IBV_ACCESS_REMOTE_WRITE, .qpn = 1 };
	struct span s = { 0, 0 };
	uint64_t addr, off;
	uint32_t under;
	char text[256];
	enum key_verdict v;

	k.key = any_key(b, &k.va);
	k.len = fuzz_take(b, 2);
	if (k.len & 1)
		k.need |= IBV_ACCESS_REMOTE_ATOMIC, k.len = 8;
	v = key_check(rig.hca.keys, &k, &addr);
	if (v == KEY_APART && key_span(rig.hca.keys, &k, &s, &under) == KEY_OK)
		must(s.len && s.len <= k.len);
	if (v == KEY_SIGNED && key_signature(rig.hca.keys, &k, &off))
		must(off < UINT64_MAX - k.len);
	if (v == KEY_OK && k.len)
		must(addr - (uintptr_t)p->mem - OPEN_AT <= OPEN - k.len);
	must(strlen(key_describe(rig.hca.keys, v, &k, text, sizeof(text))) < sizeof(text));
}

static void step(struct fuzz_bytes *b)
{
	static void (*const doings[])(struct fuzz_bytes *) = {
		umr, umr, access_by_keys, check, access_by_keys, invalidate
	};

	doings[fuzz_take(b, 1) % (sizeof(doings) / sizeof(doings[0]))](b);
}

static void untouched(void)
{
	for (uint32_t i = 0; i < RIG_MEM; i++) {
		if (i == OPEN_AT)
			i += OPEN;
		must(p->mem[i] == (uint8_t)(GUARD + i * 7 + (i >> 8)));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct fuzz_bytes b = { data, len };
	static unsigned int runs;

	if (!p)
		begin();
	make();
	for (unsigned int i = 0; i < STEPS && b.left; i++)
		step(&b);
	end();
	if (!(runs++ % 64))
		untouched();
	return 0;
}
