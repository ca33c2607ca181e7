// SPDX-License-Identifier: MIT
#include "test.h"
#include "util/crc.h"
#include "util/rand.h"

/* The definition, bit by bit. */
static uint32_t by_definition(const uint8_t *p, size_t n)
{
	uint32_t crc = UINT32_MAX;

	for (size_t i = 0; i < n; i++) {
		crc ^= p[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	return ~crc;
}

TEST(the_check_value_of_the_standard)
{
	check_eq(crc_update(0, "123456789", 9), 0xcbf43926);
	check_eq(crc_update(0, "", 0), 0);
}

TEST(agrees_with_the_definition_whole_and_in_two_parts)
{
	uint8_t buf[700];
	struct rand r;

	rand_init(&r, 5);
	for (size_t i = 0; i < sizeof(buf); i++)
		buf[i] = (uint8_t)rand_u64(&r);
	for (int i = 0; i < 500; i++) {
		size_t at = rand_below(&r, 16), n = rand_below(&r, sizeof(buf) - at);
		size_t cut = rand_below(&r, n + 1);
		uint32_t want = by_definition(buf + at, n);

		check_eq(crc_update(0, buf + at, n), want);
		check_eq(crc_update(crc_update(0, buf + at, cut), buf + at + cut, n - cut), want);
	}
}

RUN_TESTS(unit_test(the_check_value_of_the_standard),
	  unit_test(agrees_with_the_definition_whole_and_in_two_parts))
