// SPDX-License-Identifier: MIT
#include <errno.h>
#include "test.h"
#include "util/hash.h"
#include "util/rand.h"

TEST(empty_map_finds_nothing)
{
	struct hash h;
	size_t pos = 0;

	hash_init(&h);
	check(!hash_get(&h, 0));
	check(!hash_del(&h, 0));
	check(!hash_next(&h, &pos));
	hash_fini(&h);
}

TEST(put_refuses_null_and_a_second_value)
{
	struct hash h;
	int a, b;

	hash_init(&h);
	check_eq(hash_put(&h, 5, NULL), EINVAL);
	check_eq(hash_put(&h, 5, &a), 0);
	check_eq(hash_put(&h, 5, &b), EEXIST);
	check(hash_get(&h, 5) == &a);
	check(hash_del(&h, 5) == &a);
	check(!hash_get(&h, 5));
	hash_fini(&h);
}

TEST(walk_sees_each_value_once)
{
	enum { N = 1000 };
	static uint8_t seen[N];
	struct hash h;
	size_t pos = 0;
	uint8_t *p;

	hash_init(&h);
	for (uint64_t i = 0; i < N; i++)
		check_eq(hash_put(&h, i << 32, &seen[i]), 0);
	while ((p = hash_next(&h, &pos)))
		++*p;
	for (int i = 0; i < N; i++)
		check_eq(seen[i], 1);
	hash_fini(&h);
}

/* Few distinct keys, so that clusters form, break and wrap round the end. */
TEST(agrees_with_an_array)
{
	enum { N = 700 };
	static void *want[N];
	static char place[N];
	struct hash h;
	struct rand r;
	size_t count = 0;

	rand_init(&r, 11);
	hash_init(&h);
	for (int i = 0; i < 100000; i++) {
		uint64_t k = rand_below(&r, i % 20000 < 10000 ? N : 40);

		if (rand_chance(&r, 0.5)) {
			check_eq(hash_put(&h, k, &place[k]), want[k] ? EEXIST : 0);
			count += !want[k];
			want[k] = &place[k];
		} else {
			check(hash_del(&h, k) == want[k]);
			count -= !!want[k];
			want[k] = NULL;
		}
		check_eq(h.count, count);
		k = rand_below(&r, N);
		check(hash_get(&h, k) == want[k]);
	}
	for (uint64_t k = 0; k < N; k++)
		check(hash_get(&h, k) == want[k]);
	hash_fini(&h);
}

RUN_TESTS(unit_test(empty_map_finds_nothing), unit_test(put_refuses_null_and_a_second_value),
	  unit_test(walk_sees_each_value_once), unit_test(agrees_with_an_array))
