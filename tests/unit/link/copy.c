// SPDX-License-Identifier: MIT
/* Gather, scatter and both at once, over seeded lists of pieces, against a model byte by byte. */
#include "link/copy.h"
#include <errno.h>
#include <sys/mman.h>
#include "util/guard.h"
#include "util/rand.h"
#include "test.h"

enum { ARENA = 16384, MAX_PIECES = 12, MAX_LEN = 300, MAX_SUM = MAX_PIECES * MAX_LEN };

static uint8_t arena[ARENA], model[ARENA], other[ARENA];

static void fill(struct rand *r, uint8_t *p)
{
	for (int i = 0; i < ARENA; i++)
		p[i] = (uint8_t)rand_u64(r);
}

/* Pieces in @base that do not overlap, some empty; returns their number, *@sum bytes. */
static unsigned int cut(struct rand *r, uint8_t *base, struct piece *out, size_t *sum)
{
	unsigned int n = (unsigned int)rand_below(r, MAX_PIECES + 1);
	size_t at = 0;

	*sum = 0;
	for (unsigned int i = 0; i < n; i++) {
		at += rand_below(r, 100);
		out[i].addr = (uintptr_t)base + at;
		out[i].len = rand_chance(r, 0.2) ? 0 : (uint32_t)rand_below(r, MAX_LEN);
		out[i].key = 0;
		at += out[i].len;
		*sum += out[i].len;
	}
	return n;
}

/* Byte @at of the list */
static uint8_t *byte_of(const struct piece *p, size_t at)
{
	for (; at >= p->len; p++)
		at -= p->len;
	return (uint8_t *)(uintptr_t)p->addr + at;
}

static void start(struct rand *r, uint64_t seed)
{
	check_eq(guard_init(), 0);
	guard_recheck();
	rand_init(r, seed);
	fill(r, arena);
	fill(r, other);
	memcpy(model, arena, ARENA);
}

TEST(gather_takes_each_byte_in_order)
{
	struct piece p[MAX_PIECES];
	struct rand r;
	size_t sum;

	for (uint64_t seed = 0; seed < 500; seed++) {
		uint8_t out[MAX_SUM + 1];
		unsigned int n;
		size_t skip, len;

		start(&r, seed);
		n = cut(&r, arena, p, &sum);
		skip = rand_below(&r, sum + 1);
		len = rand_below(&r, sum - skip + 1);
		out[len] = 0x5a;
		check_eq(copy_gather(out, p, n, skip, len), 0);
		for (size_t i = 0; i < len; i++)
			check_eq(out[i], *byte_of(p, skip + i));
		check_eq(out[len], 0x5a);
		check_eq(copy_gather(other, p, n, skip, sum - skip + 1), EFAULT);
	}
}

TEST(scatter_puts_each_byte_in_order_and_no_other)
{
	struct piece p[MAX_PIECES];
	struct rand r;
	size_t sum;

	for (uint64_t seed = 0; seed < 500; seed++) {
		unsigned int n;
		size_t skip, len;

		start(&r, seed);
		n = cut(&r, arena, p, &sum);
		skip = rand_below(&r, sum + 1);
		len = rand_below(&r, sum - skip + 1);
		for (size_t i = 0; i < len; i++)
			model[byte_of(p, skip + i) - arena] = other[i];
		check_eq(copy_scatter(p, n, skip, other, len), 0);
		check_mem(arena, model, ARENA);
	}
}

TEST(pieces_to_pieces_fill_the_destination)
{
	struct piece dst[MAX_PIECES], src[MAX_PIECES + 1];
	struct rand r;
	size_t want, have, skip;

	for (uint64_t seed = 0; seed < 1000; seed++) {
		unsigned int ndst, nsrc;

		start(&r, seed);
		ndst = cut(&r, arena, dst, &want);
		nsrc = cut(&r, other, src, &have);
		skip = rand_below(&r, have + 1);
		if (have - skip < want) {
			src[nsrc++] = (struct piece){ (uintptr_t)other, (uint32_t)want, 0 };
			have += want;
		}
		for (size_t i = 0; i < want; i++)
			model[byte_of(dst, i) - arena] = *byte_of(src, skip + i);
		check_eq(copy_pieces(dst, ndst, src, nsrc, skip), 0);
		check_mem(arena, model, ARENA);
		if (want)
			check_eq(copy_pieces(dst, ndst, src, nsrc, have - want + 1), EFAULT);
	}
}

TEST(missing_piece_is_efault)
{
	uint8_t *hole = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct piece bad[] = { { (uintptr_t)arena, 50, 0 }, { (uintptr_t)hole, 10, 0 } };
	struct piece good[] = { { (uintptr_t)other, 60, 0 } };
	uint8_t buf[60] = { 0 };

	check_eq(guard_init(), 0);
	guard_recheck();
	check_eq(copy_gather(buf, bad, 2, 0, 60), EFAULT);
	check_eq(copy_gather(buf, bad, 2, 0, 50), 0);
	check_eq(copy_scatter(bad, 2, 0, buf, 51), EFAULT);
	check_eq(copy_scatter(bad, 2, 50, buf, 1), EFAULT);
	check_eq(copy_pieces(bad, 2, good, 1, 0), EFAULT);
	check_eq(copy_pieces(good, 1, bad, 2, 0), EFAULT);
	munmap(hole, 4096);
}

RUN_TESTS(unit_test(gather_takes_each_byte_in_order),
	  unit_test(scatter_puts_each_byte_in_order_and_no_other),
	  unit_test(pieces_to_pieces_fill_the_destination), unit_test(missing_piece_is_efault))
