// SPDX-License-Identifier: MIT
#include <errno.h>
#include "test.h"
#include "util/bitmap.h"
#include "util/rand.h"

TEST(every_number_once_then_full)
{
	for (uint32_t n = 1; n < 200; n++) {
		struct bitmap b;
		uint32_t id;

		check_eq(bitmap_init(&b, 100, n), 0);
		for (uint32_t i = 0; i < n; i++) {
			check_eq(bitmap_alloc(&b, &id), 0);
			check_eq(id, 100 + i);
		}
		check_eq(bitmap_count(&b), n);
		check_eq(bitmap_alloc(&b, &id), ENOSPC);
		bitmap_fini(&b);
	}
}

TEST(a_freed_number_comes_back_last)
{
	struct bitmap b;
	uint32_t id;

	check_eq(bitmap_init(&b, 0, 130), 0);
	check_eq(bitmap_alloc(&b, &id), 0);
	check_eq(id, 0);
	bitmap_free(&b, 0);
	for (uint32_t i = 1; i < 130; i++) {
		check_eq(bitmap_alloc(&b, &id), 0);
		check_eq(id, i);
	}
	check_eq(bitmap_alloc(&b, &id), 0);
	check_eq(id, 0);
	bitmap_fini(&b);
}

TEST(take_refuses_what_is_taken_or_outside)
{
	struct bitmap b;
	uint32_t id;

	check_eq(bitmap_init(&b, 10, 3), 0);
	check_eq(bitmap_take(&b, 11), 0);
	check_eq(bitmap_take(&b, 11), EBUSY);
	check_eq(bitmap_take(&b, 9), EINVAL);
	check_eq(bitmap_take(&b, 13), EINVAL);
	check_eq(bitmap_alloc(&b, &id), 0);
	check_eq(id, 10);
	check_eq(bitmap_alloc(&b, &id), 0);
	check_eq(id, 12);
	check(bitmap_taken(&b, 12));
	bitmap_free(&b, 12);
	bitmap_free(&b, 12);
	bitmap_free(&b, 999);
	check(!bitmap_taken(&b, 12));
	check_eq(bitmap_count(&b), 2);
	bitmap_fini(&b);
	bitmap_fini(&b);
}

TEST(sizes_at_the_edge_of_32_bits)
{
	struct bitmap b;
	uint32_t id;

	check_eq(bitmap_init(&b, 0, 0), EINVAL);
	check_eq(bitmap_init(&b, UINT32_MAX, 2), EINVAL);
	check_eq(bitmap_init(&b, UINT32_MAX, 1), 0);
	check_eq(bitmap_alloc(&b, &id), 0);
	check_eq(id, UINT32_MAX);
	bitmap_fini(&b);
}

TEST(agrees_with_an_array_of_bools)
{
	enum { N = 150 };
	bool taken[N] = { false };
	uint32_t id, used = 0;
	struct bitmap b;
	struct rand r;

	rand_init(&r, 7);
	check_eq(bitmap_init(&b, 1000, N), 0);
	for (int i = 0; i < 20000; i++) {
		if (rand_below(&r, 100) < 52) {
			int err = bitmap_alloc(&b, &id);

			check_eq(err, used == N ? ENOSPC : 0);
			if (err)
				continue;
			check(!taken[id - 1000]);
			taken[id - 1000] = true;
			used++;
		} else {
			id = (uint32_t)rand_below(&r, N);
			used -= taken[id];
			taken[id] = false;
			bitmap_free(&b, 1000 + id);
		}
		check_eq(bitmap_count(&b), used);
	}
	bitmap_fini(&b);
}

RUN_TESTS(unit_test(every_number_once_then_full), unit_test(a_freed_number_comes_back_last),
	  unit_test(take_refuses_what_is_taken_or_outside), unit_test(sizes_at_the_edge_of_32_bits),
	  unit_test(agrees_with_an_array_of_bools))
