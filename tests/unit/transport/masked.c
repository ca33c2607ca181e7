// SPDX-License-Identifier: MIT
/* Masked atomics at the responder: what they change, duplicates, forms that are refused. */
#include "pair.h"
#include "util/be.h"

static struct seg request(struct pair *p, uint8_t op, const uint8_t masks[16])
{
	return (struct seg){ .op = op,
			     .flags = SEG_ACKREQ | SEG_SQPN,
			     .pkey = 0xffff,
			     .dqpn = p->b->q.qp.qpn,
			     .sqpn = p->a->q.qp.qpn,
			     .npsn = 1,
			     .rkey = p->b->mr->ib.rkey,
			     .va = RIG_IOVA,
			     .from = &p->b->end.d,
			     .data = masks,
			     .len = 16 };
}

static void input(struct pair *p, const struct seg *s)
{
	tqp_input(&p->b->q, s, p->rig.net.now);
}

static uint64_t word(const struct pair *p)
{
	uint64_t x;

	memcpy(&x, p->b->mem, 8);
	return x;
}

static void set_word(struct pair *p, uint64_t x)
{
	memcpy(p->b->mem, &x, 8);
}

#define ALL (~UINT64_C(0))

/* Of a swap the masks say which bits are swapped and which compared, of an addition where fields
 * end: nothing is carried from one to the next. */
static const struct masked {
	uint8_t op;
	uint64_t was, swap_add, compare, swap_mask, compare_mask, is;
} masked[] = {
	{ OP_MASKED_SWAP, 0, 7, 0, ALL, ALL, 7 },
	{ OP_MASKED_SWAP, 5, 7, 0, ALL, ALL, 5 },
	{ OP_MASKED_SWAP, 0x1234, 0xabcd, 0x9934, 0xff00, 0x00ff, 0xab34 },
	{ OP_MASKED_SWAP, 0x1234, 0xabcd, 0x9935, 0xff00, 0x00ff, 0x1234 },
	{ OP_MASKED_SWAP, ALL, 0, 0, 1ULL << 63, 0, ALL >> 1 }, /* nothing to compare */
	{ OP_MASKED_SWAP, 5, 9, 5, 0, ALL, 5 }, /* nothing to swap */
	{ OP_MASKED_ADD, 5, 3, 0, 0, 0, 8 },
	{ OP_MASKED_ADD, ALL, 1, 0, 0, 0, 0 },
	{ OP_MASKED_ADD, 0x00000000ffffffff, 1, 0, 1ULL << 31, 0, 0 },
	{ OP_MASKED_ADD, 0x00000001ffffffff, 0x0000000200000003, 0, 1ULL << 31, 0,
	  0x0000000300000002 },
	{ OP_MASKED_ADD, 0xff7f80010203ff00, 0x0101010101010101, 0, 0x8080808080808080, 0,
	  0x0080810203040001 },
	{ OP_MASKED_ADD, 0xf0f0, 0xffff, 0, ALL, 0, 0x0f0f }, /* fields of a bit */
};

static void put_masks(uint8_t at[16], const struct masked *m)
{
	put_be64(at, m->swap_mask);
	put_be64(at + 8, m->compare_mask);
}

TEST(masked_atomics_touch_the_bits_that_they_name)
{
	for (unsigned int i = 0; i < sizeof(masked) / sizeof(masked[0]); i++) {
		struct pair *p = pair_open(&pair_lossy, &rig_rc);
		uint8_t masks[16];
		struct seg s = request(p, masked[i].op, masks);

		set_word(p, masked[i].was);
		put_masks(masks, &masked[i]);
		s.swap_add = masked[i].swap_add;
		s.compare = masked[i].compare;
		input(p, &s);
		check_eq(word(p), masked[i].is);
		check_eq(p->n, 1);
		check_eq(p->log[0].op, OP_ATOMIC_ACK);
		check_eq(p->log[0].swap_add, masked[i].was);
		set_word(p, 77);
		input(p, &s); /* again: the answer alone */
		check_eq(word(p), 77);
		check_eq(p->log[1].swap_add, masked[i].was);
		pair_close(p);
	}
}

TEST(masked_atomics_without_their_masks_are_refused)
{
	for (uint32_t len = 0; len <= 32; len += 8) {
		struct pair *p = pair_open(&pair_lossy, &rig_rc);
		uint8_t masks[32] = { 0 };
		struct seg s = request(p, OP_MASKED_ADD, masks);
		uint64_t before = word(p);

		s.len = len;
		s.flags |= len == 16 ? SEG_BYREF : 0;
		s.swap_add = 1;
		input(p, &s);
		check_eq(word(p), before);
		check_eq(p->b->q.qp.state, IBV_QPS_ERR);
		check_eq(p->log[1].syndrome, aeth_nak(NAK_INVALID_REQUEST));
		pair_close(p);
	}
}

RUN_TESTS(unit_test(masked_atomics_touch_the_bits_that_they_name),
	  unit_test(masked_atomics_without_their_masks_are_refused))
