// SPDX-License-Identifier: MIT
/* Moving entries within a ring and to another one: each is the consumer's at its new place, and at
 * no other pass. */
#include "prm/cqe_ring.h"
#include "test.h"

enum { MOST = 32 };

static struct cqe_ring ring_of(uint8_t *buf, uint32_t cnt, uint32_t size)
{
	cqe_init(buf, cnt, size);
	return (struct cqe_ring){ buf, cnt, size };
}

static void write_entry(const struct cqe_ring *r, uint32_t i)
{
	struct cqe c = { .opcode = MLX5_CQE_REQ, .wqe_counter = (uint16_t)i, .solicited = i & 1 };

	cqe_write(cqe_ring_at(r, i), &c, !!(i & r->cnt));
}

/* Entry @i is there in its own pass only, and is the one that was written as number @was. */
static void check_entry(const struct cqe_ring *r, uint32_t i, uint32_t was)
{
	struct cqe c;

	check(cqe_ours(cqe_ring_at(r, i), i, r->cnt));
	check(!cqe_ours(cqe_ring_at(r, i), i + r->cnt, r->cnt));
	cqe_read(cqe_ring_at(r, i), &c);
	check_eq(c.wqe_counter, (uint16_t)was);
	check_eq(c.solicited, was & 1);
	check_eq(c.opcode, MLX5_CQE_REQ);
}

TEST(entries_stand_at_the_end_of_their_places)
{
	uint8_t buf[8 * 128];
	struct cqe_ring r = { buf, 8, 64 }, wide = { buf, 8, 128 };

	for (uint32_t i = 0; i < 40; i++) {
		check((uint8_t *)cqe_ring_at(&r, i) == buf + i % 8 * 64);
		check((uint8_t *)cqe_ring_at(&wide, i) == buf + i % 8 * 128 + 64);
	}
}

TEST(a_moved_entry_has_the_owner_bit_of_its_place)
{
	uint8_t buf[8 * 64];

	for (uint32_t from = 0; from < 32; from++)
		for (uint32_t to = from; to < from + 8; to++) {
			struct cqe_ring r = ring_of(buf, 8, 64);

			write_entry(&r, from);
			cqe_ring_move(&r, from, to);
			check_entry(&r, to, from);
		}
}

/* From every place, between rings of every size, also where the numbers wrap. */
TEST(copied_entries_keep_their_numbers)
{
	static uint8_t a[MOST * 64], b[MOST * 64];

	for (uint32_t cnt = 8; cnt <= MOST; cnt *= 2)
		for (uint32_t other = 8; other <= MOST; other *= 2)
			for (uint32_t ci = UINT32_MAX - 40; ci != 80; ci++) {
				struct cqe_ring from = ring_of(a, cnt, 64);
				struct cqe_ring to = ring_of(b, other, 64);

				for (uint32_t i = 0; i < 5; i++)
					write_entry(&from, ci + i);
				cqe_ring_copy(&from, &to, ci, ci + 5);
				for (uint32_t i = 0; i < 5; i++)
					check_entry(&to, ci + i, ci + i);
				check(!cqe_ours(cqe_ring_at(&to, ci + 5), ci + 5, other));
			}
}

TEST(copies_change_the_size_of_entries)
{
	static uint8_t a[8 * 64], b[8 * 128];
	struct cqe_ring from = ring_of(a, 8, 64), to = ring_of(b, 8, 128);

	for (uint32_t i = 6; i < 11; i++)
		write_entry(&from, i);
	cqe_ring_copy(&from, &to, 6, 11);
	for (uint32_t i = 6; i < 11; i++)
		check_entry(&to, i, i);
}

RUN_TESTS(unit_test(entries_stand_at_the_end_of_their_places),
	  unit_test(a_moved_entry_has_the_owner_bit_of_its_place),
	  unit_test(copied_entries_keep_their_numbers),
	  unit_test(copies_change_the_size_of_entries))
