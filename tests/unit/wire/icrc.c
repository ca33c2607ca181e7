// SPDX-License-Identifier: MIT
#include <errno.h>
#include "test.h"
#include "util/be.h"
#include "util/rand.h"
#include "wire/icrc.h"

enum { PAYLOAD = 20, IP4 = 20, IP6 = 40, UDP = 8, BTH = 12 };

struct frame {
	uint8_t b[IP6 + UDP + BTH + PAYLOAD + 4];
	size_t ip, len;
};

/* A packet with random bytes wherever the lengths do not bind it. */
static struct frame some_frame(struct rand *r, bool v6)
{
	struct frame f = { .ip = v6 ? IP6 : IP4 };

	f.len = f.ip + UDP + BTH + PAYLOAD + 4;
	for (size_t i = 0; i < f.len; i++)
		f.b[i] = (uint8_t)rand_u64(r);
	f.b[0] = v6 ? 0x60 | (f.b[0] & 0xf) : 0x45;
	f.b[v6 ? 6 : 9] = 17;
	put_be16(f.b + (v6 ? 4 : 2), (uint16_t)(v6 ? f.len - IP6 : f.len));
	put_be16(f.b + f.ip + 4, (uint16_t)(f.len - f.ip));
	return f;
}

static uint32_t icrc_of(const struct frame *f)
{
	uint32_t crc = 0;

	check_eq(icrc_packet(f->b, f->len, &crc), 0);
	return crc;
}

/* Whether a router may change byte @i. */
static bool variant(const struct frame *f, size_t i)
{
	size_t udp = f->ip, bth = f->ip + UDP;

	if (i == udp + 6 || i == udp + 7 || i == bth + 4)
		return true;
	if (f->ip == IP4)
		return i == 1 || i == 8 || i == 10 || i == 11;
	return (i > 0 && i < 4) || i == 7;
}

static bool length_or_type(const struct frame *f, size_t i)
{
	if (i == 0 || i == f->ip + 4 || i == f->ip + 5)
		return true;
	return f->ip == IP4 ? i == 2 || i == 3 || i == 9 : i == 4 || i == 5 || i == 6;
}

TEST(covers_every_invariant_byte_and_no_other)
{
	struct rand r;

	rand_init(&r, 31);
	for (int round = 0; round < 50; round++) {
		struct frame f = some_frame(&r, round & 1);
		uint32_t crc = icrc_of(&f);

		for (size_t i = 0; i < f.len; i++) {
			struct frame g = f;

			if (length_or_type(&f, i))
				continue;
			g.b[i] ^= (uint8_t)(1 + rand_below(&r, 255));
			check_eq(icrc_of(&g) == crc, variant(&f, i) || i >= f.len - 4);
		}
	}
}

TEST(ipv6_traffic_class_in_byte_0_is_masked_and_the_version_is_not)
{
	struct frame f;
	struct rand r;

	rand_init(&r, 32);
	f = some_frame(&r, true);
	f.b[0] = 0x60;

	uint32_t crc = icrc_of(&f);

	f.b[0] = 0x6f;
	check_eq(icrc_of(&f), crc);
	f.b[0] = 0x50;
	check_eq(icrc_packet(f.b, f.len, &crc), EBADMSG);
}

/* The register after eight bytes of ones, a known constant, checks where the sum begins. */
TEST(begins_with_eight_bytes_of_ones)
{
	static const uint8_t ones[8] = { 255, 255, 255, 255, 255, 255, 255, 255 };
	struct frame f;
	struct rand r;
	uint32_t crc;

	check_eq(~crc_update(0, ones, 8), 0xdebb20e3);
	rand_init(&r, 33);
	f = some_frame(&r, false);
	f.b[1] = f.b[8] = f.b[10] = f.b[11] = f.b[IP4 + 6] = f.b[IP4 + 7] = 0xff;
	f.b[IP4 + UDP + 4] = 0xff;
	crc = crc_update(crc_update(0, ones, 8), f.b, f.len - 4);
	check_eq(icrc_of(&f), crc);
}

TEST(refuses_lengths_that_disagree)
{
	struct rand r;

	rand_init(&r, 34);
	for (int v6 = 0; v6 < 2; v6++) {
		struct frame f = some_frame(&r, v6), g = f;
		uint32_t crc;

		for (size_t n = 0; n < f.len; n++)
			check_eq(icrc_packet(f.b, n, &crc), EBADMSG);
		g.b[g.ip + 5]++;
		check_eq(icrc_packet(g.b, g.len, &crc), EBADMSG);
		g = f;
		g.b[v6 ? 6 : 9] = 6; /* TCP */
		check_eq(icrc_packet(g.b, g.len, &crc), EBADMSG);
	}
}

TEST(is_stored_least_significant_byte_first)
{
	uint8_t p[4];

	icrc_put(p, 0x04030201);
	check_mem(p, "\x01\x02\x03\x04", 4);
	check_eq(icrc_get(p), 0x04030201);
}

RUN_TESTS(unit_test(covers_every_invariant_byte_and_no_other),
	  unit_test(ipv6_traffic_class_in_byte_0_is_masked_and_the_version_is_not),
	  unit_test(begins_with_eight_bytes_of_ones), unit_test(refuses_lengths_that_disagree),
	  unit_test(is_stored_least_significant_byte_first))
