// SPDX-License-Identifier: MIT
/* The checksums of data blocks: values that the standards print, and the definitions by bits. */
#include "test.h"
#include <string.h>
#include "util/checksum.h"
#include "util/rand.h"

static const struct kind {
	enum checksum kind;
	int bits;
	uint64_t polynomial;
	bool reflected, inverted;
} kinds[] = { { CHECKSUM_CRC16, 16, 0x8bb7, false, false },
	      { CHECKSUM_CRC32, 32, 0x04c11db7, true, true },
	      { CHECKSUM_CRC32C, 32, 0x1edc6f41, true, true },
	      { CHECKSUM_CRC64, 64, 0xad93d23594c93659, true, true } };

static uint64_t of(enum checksum kind, bool ones, const void *buf, size_t len)
{
	return checksum_end(kind, checksum_more(kind, checksum_start(ones), buf, len));
}

static bool bit_of(const uint8_t *p, size_t bit, bool reflected)
{
	return p[bit / 8] >> (reflected ? bit % 8 : 7 - bit % 8) & 1;
}

/* The remainder of a division of polynomials */
static uint64_t by_definition(const struct kind *k, bool ones, const uint8_t *p, size_t n)
{
	uint64_t all = UINT64_MAX >> (64 - k->bits), top = 1ULL << (k->bits - 1), turned = 0;
	uint64_t reg = ones ? all : 0;

	for (size_t bit = 0; bit < n * 8; bit++) {
		bool carry = !!(reg & top) ^ bit_of(p, bit, k->reflected);

		reg = (reg << 1 & all) ^ (carry ? k->polynomial : 0);
	}
	for (int i = 0; i < k->bits; i++)
		turned |= (reg >> i & 1) << (k->bits - 1 - i);
	return (k->reflected ? turned : reg) ^ (k->inverted ? all : 0);
}

TEST(the_check_values_of_the_standards)
{
	check_eq(of(CHECKSUM_CRC16, false, "123456789", 9), 0xd0db);
	check_eq(of(CHECKSUM_CRC32, true, "123456789", 9), 0xcbf43926);
	check_eq(of(CHECKSUM_CRC32C, true, "123456789", 9), 0xe3069283);
	check_eq(of(CHECKSUM_CRC64, true, "123456789", 9), 0xae8b14860a799888);
}

/* RFC 3720, B.4; the NVM command set's appendix; RFC 1071, 3 */
TEST(the_examples_of_the_standards)
{
	static const uint8_t words[] = { 0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7 };
	uint8_t buf[4096] = { 0 };

	check_eq(of(CHECKSUM_CRC32C, true, buf, 32), 0x8a9136aa);
	check_eq(of(CHECKSUM_CRC64, true, buf, 4096), 0x6482d367eb22b64e);
	memset(buf, 0xff, sizeof(buf));
	check_eq(of(CHECKSUM_CRC32C, true, buf, 32), 0x62a8ab43);
	check_eq(of(CHECKSUM_CRC64, true, buf, 4096), 0xc0ddba7302eca3ac);
	for (unsigned int i = 0; i < 32; i++)
		buf[i] = (uint8_t)i;
	check_eq(of(CHECKSUM_CRC32C, true, buf, 32), 0x46dd794e);
	check_eq(of(CHECKSUM_IP, false, words, sizeof(words)), (uint16_t)~0xddf2);
	check_eq(of(CHECKSUM_IP, false, "", 0), 0xffff);
	check_eq(of(CHECKSUM_IP, true, "", 0), 0);
}

TEST(agree_with_the_definitions_whole_and_in_parts)
{
	uint8_t buf[700];
	struct rand r;

	rand_init(&r, 5);
	for (size_t i = 0; i < sizeof(buf); i++)
		buf[i] = (uint8_t)rand_u64(&r);
	for (int i = 0; i < 2000; i++) {
		const struct kind *k = &kinds[i % 4];
		size_t at = rand_below(&r, 16), n = rand_below(&r, sizeof(buf) - at);
		size_t cut = rand_below(&r, n + 1);
		bool ones = rand_below(&r, 2);
		uint64_t s = checksum_more(k->kind, checksum_start(ones), buf + at, cut);

		s = checksum_more(k->kind, s, buf + at + cut, n - cut);
		check_eq(checksum_end(k->kind, s), by_definition(k, ones, buf + at, n));
	}
}

TEST(the_internet_checksum_is_the_same_in_parts_of_whole_words)
{
	uint8_t buf[520];
	struct rand r;

	rand_init(&r, 6);
	for (int i = 0; i < 500; i++) {
		size_t cut = rand_below(&r, sizeof(buf) / 2) * 2;
		uint32_t want = 0;
		uint64_t s;

		for (size_t j = 0; j < sizeof(buf); j++) {
			buf[j] = (uint8_t)rand_u64(&r);
			want += (uint32_t)buf[j] << (j % 2 ? 0 : 8);
		}
		s = checksum_more(CHECKSUM_IP, checksum_start(false), buf, cut);
		s = checksum_more(CHECKSUM_IP, s, buf + cut, sizeof(buf) - cut);
		want = (want & 0xffff) + (want >> 16);
		want = (want & 0xffff) + (want >> 16);
		check_eq(checksum_end(CHECKSUM_IP, s), (uint16_t)~want);
	}
}

RUN_TESTS(unit_test(the_check_values_of_the_standards), unit_test(the_examples_of_the_standards),
	  unit_test(agree_with_the_definitions_whole_and_in_parts),
	  unit_test(the_internet_checksum_is_the_same_in_parts_of_whole_words))
