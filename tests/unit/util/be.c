// SPDX-License-Identifier: MIT
#include "test.h"
#include "util/be.h"
#include "util/rand.h"

TEST(stores_put_the_high_byte_first_at_any_alignment)
{
	static const uint8_t want[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	uint8_t buf[16];

	for (int at = 0; at < 8; at++) {
		put_be64(buf + at, UINT64_C(0x0102030405060708));
		check_mem(buf + at, want, 8);
		put_be32(buf + at, 0x01020304);
		check_mem(buf + at, want, 4);
		put_be16(buf + at, 0x0102);
		check_mem(buf + at, want, 2);
	}
}

TEST(be24_touches_three_bytes_and_drops_the_upper_eight_bits)
{
	uint8_t buf[5] = { 0xaa, 0, 0, 0, 0xbb };

	put_be24(buf + 1, 0xff010203);
	check_eq(get_be24(buf + 1), 0x010203);
	check_eq(buf[0], 0xaa);
	check_eq(buf[4], 0xbb);
}

TEST(loads_are_the_inverse_of_stores)
{
	struct rand r;
	uint8_t buf[9];

	rand_init(&r, 1);
	for (int i = 0; i < 1000; i++) {
		uint64_t v = rand_u64(&r);

		put_be64(buf + 1, v);
		check_eq(get_be64(buf + 1), v);
		check_eq(get_be32(buf + 1), v >> 32);
		check_eq(get_be24(buf + 1), v >> 40);
		check_eq(get_be16(buf + 1), v >> 48);
	}
}

RUN_TESTS(unit_test(stores_put_the_high_byte_first_at_any_alignment),
	  unit_test(be24_touches_three_bytes_and_drops_the_upper_eight_bits),
	  unit_test(loads_are_the_inverse_of_stores))
