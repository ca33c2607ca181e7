// SPDX-License-Identifier: MIT
/* Keys whose bytes lie apart, by a list of spans or of parts of another key: SENDs, WRITEs, READs
 * and atomics through one, by packets and by whole messages. */
#include <errno.h>
#include "hca/layout.h"
#include "hca/mkey/mkey_layout.h"
#include "link/copy.h"
#include "link/link.h"
#include "pair.h"
#include "transport/gather.h"
#include "transport/linear/linear.h"
#include "transport/place.h"

enum { SPANS = 40, WIDE = 300, NARROW = 7, TOTAL = SPANS / 2 * (WIDE + NARROW) };
enum { TINY = 3, TINY_SPANS = TOTAL / TINY };
#define VA 0x50000UL /* the first address of such a key */

/* One side's list: WIDE and NARROW bytes in turn, each from a page of its own, backwards. */
struct scattered {
	struct rig_qp *p;
	struct span *list;
	unsigned int n; /* spans */
	struct mkey_layout *parts; /* of an indirect key */
	uint32_t key;
};

static uint8_t *byte_of(const struct scattered *s, uint64_t off)
{
	unsigned int i = 0;

	while (off >= s->list[i].len)
		off -= s->list[i++].len;
	return (uint8_t *)(uintptr_t)(s->list[i].addr + off);
}

/* The same places, as parts of the key of the side's memory */
static struct mkey_layout *parts_of(const struct scattered *s)
{
	struct mkey_layout *l = calloc(1, sizeof(*l) + s->n * sizeof(l->part[0]));
	uint64_t len;

	assert_non_null(l);
	l->n = s->n;
	l->times = 1;
	for (unsigned int i = 0; i < s->n; i++)
		l->part[i] = (struct mkey_part){ .va = RIG_IOVA +
						       (s->list[i].addr - (uintptr_t)s->p->mem),
						 .len = s->list[i].len,
						 .key = rig_sge(s->p, 0, 1).key };
	check(mkey_layout_seal(l, &len));
	check(len <= TOTAL && len > TOTAL - TINY);
	return l;
}

/* @tiny: many parts of TINY bytes instead */
static struct scattered scatter(struct rig_qp *p, uint32_t flags, bool tiny)
{
	unsigned int n = tiny ? TINY_SPANS : SPANS;
	struct scattered s = { .p = p, .n = n, .list = calloc(n, sizeof(*s.list)) };
	struct key_entry e = {
		.pdn = p->pd->pdn, .access = rig_rc.access, .flags = flags, .iova = VA, .len = TOTAL
	};

	assert_non_null(s.list);
	for (unsigned int i = 0; i < n && tiny; i++)
		s.list[i] = (struct span){ (uintptr_t)p->mem + (n - i) * 2UL * TINY, TINY };
	for (unsigned int i = 0; i < n && !tiny; i++)
		s.list[i] = (struct span){ (uintptr_t)p->mem + (SPANS - i) * 4096 + 3,
					   i & 1 ? NARROW : WIDE };
	s.parts = parts_of(&s);
	e.addr = flags == KEY_LIST ? (uintptr_t)s.list : (uintptr_t)s.parts;
	check_eq(key_add(p->q.qp.ctx->hca->keys, &e, NULL, &s.key), 0);
	return s;
}

static void gather_again(struct scattered *s)
{
	quiesce_exit(); /* the rig's */
	key_remove(s->p->q.qp.ctx->hca->keys, s->key);
	quiesce_enter();
	free(s->list);
	free(s->parts);
}

/* What is posted on a, with a receive on b for a SEND. */
static struct rig_wr work(const struct scattered *a, const struct scattered *b, uint8_t op,
			  uint64_t off, uint32_t len)
{
	struct sge to = { VA + off + 1, len, b->key };

	if (op == MLX5_OPCODE_SEND)
		rig_receive(b->p, &to, 1);
	return (struct rig_wr){ .op = op,
				.nsge = 1,
				.sge = { { VA + off, len, a->key } },
				.signaled = true,
				.rkey = b->key,
				.raddr = VA + off + 1 };
}

/* Between which links and through which kind of keys */
struct way {
	const struct net_config *net;
	uint32_t flags;
	bool tiny;
};

/* @len bytes from a's @off meet b's @off + 1, and the bytes beside them are as before. */
static void move(const struct way *way, uint8_t op, uint64_t off, uint32_t len)
{
	struct pair *p = pair_open(way->net, &rig_rc);
	struct scattered a = scatter(p->a, way->flags, way->tiny),
			 b = scatter(p->b, way->flags, way->tiny);
	struct rig_wr w = work(&a, &b, op, off, len);
	const struct scattered *from = op == MLX5_OPCODE_RDMA_READ ? &b : &a;
	const struct scattered *to = op == MLX5_OPCODE_RDMA_READ ? &a : &b;
	uint64_t src = off + (from == &b), dst = off + (to == &b);
	uint8_t before = *byte_of(to, dst - 1), after = *byte_of(to, dst + len);

	rig_post(p->a, &w);
	rig_run(&p->rig);
	pair_good(p->a, false);
	for (uint32_t i = 0; i < len; i++)
		check_eq(*byte_of(to, dst + i), *byte_of(from, src + i));
	check_eq(*byte_of(to, dst - 1), before);
	check_eq(*byte_of(to, dst + len), after);
	gather_again(&a);
	gather_again(&b);
	pair_close(p);
}

static const uint8_t ops[] = { MLX5_OPCODE_SEND, MLX5_OPCODE_RDMA_WRITE, MLX5_OPCODE_RDMA_READ };

TEST(messages_go_through_lists_on_both_sides)
{
	static const struct way ways[] = { { &pair_lossy, KEY_LIST, false },
					   { &pair_host, KEY_LIST, false },
					   { &pair_lossy, KEY_INDIRECT, false },
					   { &pair_host, KEY_INDIRECT, false } };

	for (unsigned int n = 0; n < sizeof(ways) / sizeof(ways[0]); n++)
		for (unsigned int i = 0; i < sizeof(ops); i++) {
			move(&ways[n], ops[i], 1, 1); /* one span */
			move(&ways[n], ops[i], WIDE - 3, 5); /* two, less than a packet */
			move(&ways[n], ops[i], 200, 1500); /* ten, more than a packet */
			move(&ways[n], ops[i], WIDE + 2,
			     4000); /* by reference where that is done */
		}
}

/* 4000 bytes are at most 28 pieces; the whole list is 40, in one message by reference. Parts of a
 * few bytes are hundreds in each packet. */
TEST(more_pieces_than_a_segment_takes_go_through_a_copy)
{
	static const struct way ways[] = { { &pair_lossy, KEY_INDIRECT, true },
					   { &pair_host, KEY_INDIRECT, true },
					   { &pair_lossy, KEY_INDIRECT, false },
					   { &pair_host, KEY_INDIRECT, false } };

	for (unsigned int n = 0; n < sizeof(ways) / sizeof(ways[0]); n++)
		for (unsigned int i = 0; i < sizeof(ops); i++) {
			move(&ways[n], ops[i], 1, 95);
			move(&ways[n], ops[i], 4, 1000);
			move(&ways[n], ops[i], 2, TOTAL - 10);
		}
}

/* A key beneath that is gone is found among thousands, before anything leaves. */
TEST(what_goes_through_a_copy_is_checked_part_by_part)
{
	struct pair *p = pair_open(&pair_host, &rig_rc);
	struct scattered a = scatter(p->a, KEY_INDIRECT, true);
	struct scattered b = scatter(p->b, KEY_INDIRECT, true);
	struct rig_wr w = work(&a, &b, MLX5_OPCODE_RDMA_WRITE, 0, 1000);

	a.parts->part[200].key ^= 1;
	rig_post(p->a, &w);
	rig_run(&p->rig);
	pair_bad(p->a, false, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, VENDOR_LOC_PROT);
	gather_again(&a);
	gather_again(&b);
	pair_close(p);
}

TEST(an_atomic_needs_its_word_in_one_place)
{
	for (unsigned int i = 0; i < 4; i++) {
		bool apart = i & 1;
		struct pair *p = pair_open(&pair_lossy, &rig_rc);
		struct scattered b = scatter(p->b, i & 2 ? KEY_INDIRECT : KEY_LIST, false);
		struct rig_wr w = pair_remote(p, MLX5_OPCODE_ATOMIC_FA, 0, 8);
		uint64_t before, now;

		/* aligned from here on; four bytes of this span lie behind 296 */
		b.list[0].addr += 5;
		b.parts->part[0].va += 5;
		w.rkey = b.key;
		w.raddr = VA + (apart ? 296 : 0);
		w.swap_add = 1;
		memcpy(&before, byte_of(&b, 0), 8);
		rig_post(p->a, &w);
		rig_run(&p->rig);
		memcpy(&now, byte_of(&b, 0), 8);
		check_eq(now, apart ? before : before + 1);
		if (!apart)
			pair_good(p->a, false);
		else
			pair_bad(p->a, false, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR,
				 VENDOR_REM_ACCESS);
		gather_again(&b);
		pair_close(p);
	}
}

/* What is deregistered beneath an indirect key ends what it covers. */
TEST(a_region_that_goes_away_takes_its_parts_with_it)
{
	for (unsigned int local = 0; local < 2; local++) {
		struct pair *p = pair_open(&pair_host, &rig_rc);
		struct scattered a = scatter(p->a, KEY_INDIRECT, false),
				 b = scatter(p->b, KEY_INDIRECT, false);
		struct rig_wr w = work(&a, &b, MLX5_OPCODE_RDMA_WRITE, WIDE - 3, 100);

		(local ? a : b).parts->part[1].key ^= 1; /* names nothing */
		rig_post(p->a, &w);
		rig_run(&p->rig);
		if (local)
			pair_bad(p->a, false, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, VENDOR_LOC_PROT);
		else
			pair_bad(p->a, false, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR,
				 VENDOR_REM_ACCESS);
		gather_again(&a);
		gather_again(&b);
		pair_close(p);
	}
}

/* The key of a piece is what a peer may reach its bytes under: never that of the whole. */
TEST(pieces_of_an_indirect_key_stand_under_the_keys_beneath)
{
	struct pair *p = pair_open(&pair_host, &rig_rc);
	struct scattered a = scatter(p->a, KEY_INDIRECT, false);
	struct sge sge = { VA, WIDE + NARROW + 1, a.key };
	struct gather_ask ask = { &sge, 1, 0, sge.len, p->a->pd->pdn, 0 };
	struct key_ask k = { a.key, p->a->pd->pdn, VA, sge.len, 0 };
	struct gather g;

	check(gather(p->rig.hca.keys, &ask, &g));
	check_eq(g.n, 3);
	for (unsigned int i = 0; i < g.n; i++)
		check_eq(g.piece[i].key, rig_sge(p->a, 0, 1).key);
	g.n = 0;
	check(gather_apart(p->rig.hca.keys, &k, 0, GATHER_PIECES, &g)); /* by value */
	for (unsigned int i = 0; i < g.n; i++)
		check_eq(g.piece[i].key, 0);
	gather_again(&a);
	pair_close(p);
}

static unsigned int fetches;

/* The peer's memory is not there, and then it is. */
static int fetch_at_the_second_try(struct dest *from, const struct seg *s, uint32_t skip,
				   const struct piece *dst, unsigned int ndst)
{
	static const uint8_t bytes[1000];

	(void)from;
	return fetches++ ? copy_scatter(dst, ndst, 0, bytes, s->len - skip) : EREMOTEIO;
}

TEST(what_was_not_placed_is_not_reported_as_placed)
{
	static const struct link_ops late = { .name = "test", .fetch = fetch_at_the_second_try };
	struct pair *p = pair_open(&pair_host, &rig_rc);
	struct scattered b = scatter(p->b, KEY_INDIRECT, true);
	struct sge sge = { VA, 1000, b.key };
	struct gather_ask ask = { &sge, 1, 0, sge.len, p->b->pd->pdn, IBV_ACCESS_LOCAL_WRITE };
	struct dest from = { .ops = &late };
	struct seg s = { .flags = SEG_BYREF, .len = sge.len, .from = &from };
	struct gather g;

	check(!gather(p->rig.hca.keys, &ask, &g));
	fetches = 0;
	check(linear_place(&p->b->q, &ask, &s, 0, &g));
	check_ne(place_copy(&p->b->q, &s, 0, &g), 0);
	check_eq(fetches, 2);
	gather_again(&b);
	pair_close(p);
}

/* --- messages in the entries of completions --- */

enum { HALF = 8, FAR_OFF = 4096 }; /* bytes; the second half's distance from the first */

/* The key of b's memory at its own addresses, or of both halves one behind the other from there. */
static uint32_t key_here(struct rig_qp *p, uint32_t flags, const void *layout)
{
	struct key_entry e = { .pdn = p->pd->pdn,
			       .access = rig_rc.access,
			       .flags = flags,
			       .iova = (uintptr_t)p->mem,
			       .len = layout ? 2 * HALF : 2 * FAR_OFF,
			       .addr = (uintptr_t)(layout ? layout : p->mem) };
	uint32_t key;

	check_eq(key_add(p->q.qp.ctx->hca->keys, &e, NULL, &key), 0);
	return key;
}

/* A SEND to the receive @sge: has its entry the message, too? */
static bool inlined(struct pair *p, const struct sge *sge, unsigned int n)
{
	struct rig_wr w = pair_send(p->a, 0, 2 * HALF);
	const struct mlx5_cqe64 *c = (const void *)(p->b->cq[1] + (size_t)p->b->ci[1] * sizeof(*c));

	rig_receive(p->b, sge, n);
	rig_post(p->a, &w);
	rig_run(&p->rig);
	pair_good(p->a, false);
	check_eq(pair_good(p->b, true).byte_cnt, 2 * HALF);
	check_mem(p->b->mem, p->a->mem, HALF);
	check_mem(p->b->mem + FAR_OFF, p->a->mem + HALF, HALF);
	return c->op_own & MLX5_INLINE_SCATTER_32;
}

/* Its reader would put the bytes behind the SGE's address; that another receive listed the parts
 * before does not count. */
TEST(an_entry_has_no_message_whose_bytes_lie_apart)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	uintptr_t first = (uintptr_t)p->b->mem, second = first + FAR_OFF;
	struct span list[] = { { first, HALF }, { second, HALF } };
	uint32_t flat = key_here(p->b, 0, NULL), spans = key_here(p->b, KEY_LIST, list), parts;
	struct mkey_layout *l = calloc(1, sizeof(*l) + 2 * sizeof(l->part[0]));
	uint64_t len;

	assert_non_null(l);
	l->n = 2;
	l->times = 1;
	l->part[0] = (struct mkey_part){ .va = first, .len = HALF, .key = flat };
	l->part[1] = (struct mkey_part){ .va = second, .len = HALF, .key = flat };
	check(mkey_layout_seal(l, &len));
	parts = key_here(p->b, KEY_INDIRECT, l);
	p->b->q.qp.inlines = QP_INLINES_RECEIVES;
	cq_lay_open(p->b->cqs[1]);
	for (unsigned int i = 0; i < 2; i++) {
		struct sge halves[] = { { first, HALF, flat }, { second, HALF, flat } };
		struct sge apart = { first, 2 * HALF, i ? parts : spans };

		check(inlined(p, halves, 2));
		check(!inlined(p, &apart, 1));
	}
	quiesce_exit(); /* the rig's */
	key_remove(p->rig.hca.keys, parts);
	key_remove(p->rig.hca.keys, spans);
	key_remove(p->rig.hca.keys, flat);
	quiesce_enter();
	free(l);
	pair_close(p);
}

RUN_TESTS(unit_test(what_was_not_placed_is_not_reported_as_placed),
	  unit_test(pieces_of_an_indirect_key_stand_under_the_keys_beneath),
	  unit_test(messages_go_through_lists_on_both_sides),
	  unit_test(more_pieces_than_a_segment_takes_go_through_a_copy),
	  unit_test(what_goes_through_a_copy_is_checked_part_by_part),
	  unit_test(an_atomic_needs_its_word_in_one_place),
	  unit_test(a_region_that_goes_away_takes_its_parts_with_it),
	  unit_test(an_entry_has_no_message_whose_bytes_lie_apart))
