// SPDX-License-Identifier: MIT
#include <arpa/inet.h>
#include <errno.h>
#include "test.h"
#include "util/be.h"
#include "util/rand.h"
#include "wire/grh.h"

static struct grh some_grh(struct rand *r, bool ipv4, uint8_t next_hdr)
{
	struct grh g = { .next_hdr = next_hdr };

	for (int i = 0; i < 16; i++) {
		g.sgid[i] = (uint8_t)rand_u64(r);
		g.dgid[i] = (uint8_t)rand_u64(r);
	}
	if (ipv4) {
		memcpy(g.sgid, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12);
		memcpy(g.dgid, g.sgid, 12);
	}
	g.tclass = (uint8_t)rand_u64(r);
	g.hop_limit = (uint8_t)rand_u64(r);
	g.flow_label = ipv4 && next_hdr == GRH_NEXT_UDP ? 0 : (uint32_t)rand_below(r, 1 << 20);
	g.payload_len = (uint16_t)rand_below(r, 5000);
	return g;
}

static void check_same(const struct grh *a, const struct grh *b)
{
	check_mem(a->sgid, b->sgid, 16);
	check_mem(a->dgid, b->dgid, 16);
	check_eq(a->tclass, b->tclass);
	check_eq(a->hop_limit, b->hop_limit);
	check_eq(a->next_hdr, b->next_hdr);
	check_eq(a->flow_label, b->flow_label);
	check_eq(a->payload_len, b->payload_len);
}

TEST(ipv4_fills_the_second_half_with_a_valid_header)
{
	uint8_t area[GRH_LEN], zero[20] = { 0 };
	struct grh g = {
		.tclass = 8, .hop_limit = 64, .next_hdr = GRH_NEXT_UDP, .payload_len = 100
	};

	check_eq(inet_pton(AF_INET6, "::ffff:10.1.2.3", g.sgid), 1);
	check_eq(inet_pton(AF_INET6, "::ffff:10.1.2.4", g.dgid), 1);
	memset(area, 0xee, sizeof(area));
	grh_build(&g, area);
	check_mem(area, zero, 20);
	check_mem(area + 20,
		  "\x45\x08\x00\x78\x00\x00\x40\x00\x40\x11\x22\x65\x0a\x01\x02\x03"
		  "\x0a\x01\x02\x04",
		  20);
}

TEST(the_checksum_makes_the_sum_of_all_words_ones)
{
	struct rand r;

	rand_init(&r, 41);
	for (int i = 0; i < 2000; i++) {
		uint8_t ip[20];
		uint32_t sum = 0;

		for (int k = 0; k < 20; k++)
			ip[k] = (uint8_t)(i & 1 ? rand_u64(&r) : rand_u64(&r) | 0xfc);
		put_be16(ip + 10, grh_ipv4_checksum(ip));
		for (int k = 0; k < 20; k += 2)
			sum += get_be16(ip + k);
		while (sum >> 16)
			sum = (sum & 0xffff) + (sum >> 16);
		check_eq(sum, 0xffff);
	}
}

TEST(the_checksum_folds_a_carry_that_folding_makes)
{
	uint8_t ip[20] = { 0xff, 0xff, 0xff, 0xff, 0x00, 0x01 }; /* sum 0x1ffff, folded 0x10000 */

	check_eq(grh_ipv4_checksum(ip), 0xfffe);
}

TEST(ipv6_is_the_header_as_it_is)
{
	uint8_t area[GRH_LEN];
	struct grh g = { .tclass = 0xab,
			 .hop_limit = 7,
			 .next_hdr = GRH_NEXT_UDP,
			 .flow_label = 0x12345,
			 .payload_len = 0x678 };

	check_eq(inet_pton(AF_INET6, "fd77::11", g.sgid), 1);
	check_eq(inet_pton(AF_INET6, "fd77::12", g.dgid), 1);
	grh_build(&g, area);
	check_mem(area, "\x6a\xb1\x23\x45\x06\x78\x11\x07", 8);
	check_mem(area + 8, g.sgid, 16);
	check_mem(area + 24, g.dgid, 16);
	check_eq(grh_version(area), GRH_IPV6);
}

TEST(parse_is_the_inverse_of_build)
{
	uint8_t area[GRH_LEN];
	struct grh back;
	struct rand r;

	rand_init(&r, 42);
	for (int i = 0; i < 5000; i++) {
		bool ipv4 = i & 1;
		struct grh g = some_grh(&r, ipv4, GRH_NEXT_UDP);

		grh_build(&g, area);
		check_eq(grh_version(area), ipv4 ? GRH_IPV4 : GRH_IPV6);
		check_eq(grh_parse(area, &back), 0);
		check_same(&g, &back);
	}
}

TEST(a_resized_header_is_as_if_it_had_been_built_so)
{
	uint8_t area[GRH_LEN], again[GRH_LEN];
	struct rand r;

	rand_init(&r, 9);
	for (int i = 0; i < 2000; i++) {
		struct grh g = some_grh(&r, i & 1, i & 2 ? GRH_NEXT_UDP : GRH_NEXT_BTH);

		grh_build(&g, area);
		g.payload_len = (uint16_t)rand_below(&r, 5000);
		grh_build(&g, again);
		grh_resize(area, g.payload_len);
		check_mem(area, again, GRH_LEN);
	}
}

TEST(rocev1_keeps_the_whole_header_even_between_ipv4_gids)
{
	uint8_t area[GRH_LEN];
	struct grh g, back;
	struct rand r;

	rand_init(&r, 43);
	g = some_grh(&r, true, GRH_NEXT_BTH);
	grh_build(&g, area);
	check_eq(grh_version(area), GRH_IPV6);
	check_eq(grh_parse(area, &back), 0);
	check_same(&g, &back);
}

/* The first 20 bytes of an IPv4 receive may be what was in the buffer before. */
TEST(an_ipv4_header_behind_a_leftover_6_is_known_by_its_checksum)
{
	uint8_t area[GRH_LEN];
	struct rand r;
	struct grh g;

	rand_init(&r, 44);
	g = some_grh(&r, true, GRH_NEXT_UDP);
	grh_build(&g, area);
	area[0] = 0x60;
	check_eq(grh_version(area), GRH_IPV4);
	area[30] ^= 1;
	check_eq(grh_version(area), GRH_IPV6);
	area[0] = 0;
	check_eq(grh_version(area), GRH_IPV4);
	area[20] = 0x50;
	check_eq(grh_version(area), GRH_NONE);
	check_eq(grh_parse(area, &g), EBADMSG);
}

RUN_TESTS(unit_test(a_resized_header_is_as_if_it_had_been_built_so),
	  unit_test(ipv4_fills_the_second_half_with_a_valid_header),
	  unit_test(the_checksum_makes_the_sum_of_all_words_ones),
	  unit_test(the_checksum_folds_a_carry_that_folding_makes),
	  unit_test(ipv6_is_the_header_as_it_is), unit_test(parse_is_the_inverse_of_build),
	  unit_test(rocev1_keeps_the_whole_header_even_between_ipv4_gids),
	  unit_test(an_ipv4_header_behind_a_leftover_6_is_known_by_its_checksum))
