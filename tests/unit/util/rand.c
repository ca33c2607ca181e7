// SPDX-License-Identifier: MIT
#include "test.h"
#include "util/rand.h"

TEST(splitmix64_gives_its_published_sequence)
{
	static const uint64_t want[] = { UINT64_C(6457827717110365317),
					 UINT64_C(3203168211198807973),
					 UINT64_C(9817491932198370423) };
	uint64_t x = 1234567;

	for (int i = 0; i < 3; i++)
		check_eq(rand_mix(&x), want[i]);
}

TEST(xoshiro_gives_its_published_sequence)
{
	static const uint64_t want[] = { 11520, 0, 1509978240, UINT64_C(1215971899390074240) };
	struct rand r = { { 1, 2, 3, 4 } };

	for (int i = 0; i < 4; i++)
		check_eq(rand_u64(&r), want[i]);
}

TEST(a_seed_reproduces_and_another_differs)
{
	struct rand a, b, c;

	rand_init(&a, 1);
	rand_init(&b, 1);
	rand_init(&c, 2);
	for (int i = 0; i < 100; i++) {
		uint64_t x = rand_u64(&a);

		check_eq(x, rand_u64(&b));
		check_ne(x, rand_u64(&c));
	}
}

TEST(below_stays_below_and_reaches_all)
{
	int seen[10] = { 0 };
	struct rand r;

	rand_init(&r, 3);
	for (int i = 0; i < 10000; i++)
		seen[rand_below(&r, 10)]++;
	for (int i = 0; i < 10; i++)
		check(seen[i] > 850 && seen[i] < 1150);
	check_eq(rand_below(&r, 0), 0);
	check_eq(rand_below(&r, 1), 0);
}

TEST(chance_is_what_it_says)
{
	int hits = 0;
	struct rand r;

	rand_init(&r, 4);
	for (int i = 0; i < 10000; i++) {
		check(!rand_chance(&r, 0));
		check(rand_chance(&r, 1));
		hits += rand_chance(&r, 0.2);
	}
	check(hits > 1800 && hits < 2200);
}

RUN_TESTS(unit_test(splitmix64_gives_its_published_sequence),
	  unit_test(xoshiro_gives_its_published_sequence),
	  unit_test(a_seed_reproduces_and_another_differs),
	  unit_test(below_stays_below_and_reaches_all), unit_test(chance_is_what_it_says))
