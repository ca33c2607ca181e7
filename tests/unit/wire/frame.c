// SPDX-License-Identifier: MIT
#include "test.h"
#include "util/be.h"
#include "util/rand.h"
#include "wire/frame.h"

/* The verification suite of the hash: addresses and ports, and the two hashes of each. */
static const uint8_t key[FRAME_HASH_KEY] = { 0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2,
					     0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
					     0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4,
					     0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
					     0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa };

static const struct {
	uint8_t dst[4], src[4];
	uint16_t dport, sport;
	uint32_t addresses, ports;
} known[] = {
	{ { 161, 142, 100, 80 }, { 66, 9, 149, 187 }, 1766, 2794, 0x323e8fc2, 0x51ccc178 },
	{ { 65, 69, 140, 83 }, { 199, 92, 111, 2 }, 4739, 14230, 0xd718262a, 0xc626b0ea },
	{ { 12, 22, 207, 184 }, { 24, 19, 198, 95 }, 38024, 12898, 0xd2d0a5de, 0x5c2b394a },
	{ { 209, 142, 163, 6 }, { 38, 27, 205, 30 }, 2217, 48228, 0x82989176, 0xafc7327f },
	{ { 202, 188, 127, 2 }, { 153, 39, 163, 191 }, 1303, 44251, 0x5d1809c5, 0x10e828a2 },
};

enum { TCP4_LEN = 14 + 20 + 20 };

static void tcp4(uint8_t *p, unsigned int i)
{
	memset(p, 0, TCP4_LEN);
	put_be16(p + 12, 0x0800);
	p[14] = 0x45;
	put_be16(p + 16, 40);
	p[23] = 6;
	memcpy(p + 26, known[i].src, 4);
	memcpy(p + 30, known[i].dst, 4);
	put_be16(p + 34, known[i].sport);
	put_be16(p + 36, known[i].dport);
	p[46] = 0x50;
}

TEST(hashes_are_those_of_the_verification_suite)
{
	const uint64_t addresses = FRAME_HASH_SRC_IP4 | FRAME_HASH_DST_IP4;
	uint8_t buf[TCP4_LEN];
	struct frame f;

	for (unsigned int i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		tcp4(buf, i);
		frame_parse(buf, sizeof(buf), &f);
		check_eq(frame_hash(&f, addresses, key), known[i].addresses);
		check_eq(frame_hash(&f, addresses | FRAME_HASH_SRC_TCP | FRAME_HASH_DST_TCP, key),
			 known[i].ports);
		check_eq(frame_hash(&f, FRAME_HASH_SRC_IP6 | FRAME_HASH_SRC_UDP, key), 0);
	}
}

TEST(filled_in_checksums_are_right)
{
	uint8_t buf[TCP4_LEN];
	struct frame f;

	for (unsigned int i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		tcp4(buf, i);
		frame_parse(buf, sizeof(buf), &f);
		check_eq(frame_checksums(&f.outer), 0);
		frame_checksums_fill(buf, sizeof(buf), FRAME_L3_OK);
		check_eq(frame_checksums(&f.outer), FRAME_L3_OK);
		frame_checksums_fill(buf, sizeof(buf), FRAME_L4_OK);
		check_eq(frame_checksums(&f.outer), FRAME_L3_OK | FRAME_L4_OK);
	}
}

/* Of the IP packet, as its headers say: not of what pads the frame, nor of the Ethernet header. */
TEST(the_sum_of_a_frame_is_its_packets)
{
	uint8_t buf[TCP4_LEN + 9];
	struct frame f;

	for (unsigned int i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		uint32_t sum = 0;

		memset(buf, 0xee, sizeof(buf));
		tcp4(buf, i);
		for (unsigned int at = 14; at < TCP4_LEN; at += 2)
			sum += get_be16(buf + at);
		while (sum >> 16)
			sum = (sum & 0xffff) + (sum >> 16);
		frame_parse(buf, sizeof(buf), &f);
		check_eq(frame_sum(&f), sum);
	}
	memset(buf + 12, 0, 2);
	frame_parse(buf, sizeof(buf), &f);
	check_eq(frame_sum(&f), 0);
}

static bool inside(const uint8_t *p, uint32_t n, const uint8_t *buf, uint32_t len)
{
	return !p || (p >= buf && p + n <= buf + len);
}

static void check_layer(const struct frame_layer *l, const uint8_t *buf, uint32_t len)
{
	check(inside(l->eth, 14, buf, len));
	check(inside(l->vlan, 4, buf, len));
	check(!l->l3 || inside(l->ip, l->l3 == FRAME_IP4 ? (l->ip[0] & 15) * 4U : 40, buf, len));
	check(!l->l4 ||
	      (inside(l->l4_head, 8, buf, len) && inside(l->l4_head, l->l4_len, buf, len)));
}

/* Bytes that lead into every branch: each of them is often what a header needs to have there. */
static void hostile_frame(struct rand *r, uint8_t *buf, uint32_t len)
{
	static const uint16_t words[] = { 0x0800, 0x86dd, 0x8100, 0x88a8, 0x8847, 0x6558,
					  0x4500, 0x4f00, 0x6000, 4789,	  6635,	  0x0001 };
	static const uint8_t bytes[] = { 0, 4, 6, 17, 41, 43, 44, 47, 50, 60, 0x45, 0x60 };

	for (uint32_t i = 0; i < len; i++)
		buf[i] =
			rand_u64(r) & 1 ? bytes[rand_u64(r) % sizeof(bytes)] : (uint8_t)rand_u64(r);
	for (uint32_t i = 12; i + 2 <= len; i += 2)
		if (!(rand_u64(r) & 3))
			put_be16(buf + i, words[rand_u64(r) % 12]);
}

/* The frame ends where its memory does: a look behind it is found by the sanitizers, too. */
TEST(no_frame_is_read_beyond_its_end)
{
	struct rand r;
	struct frame f;

	rand_init(&r, 20);
	for (unsigned int i = 0; i < 100000; i++) {
		uint32_t len = (uint32_t)(rand_u64(&r) % 160);
		uint8_t *buf = malloc(len ? len : 1);
		struct frame_cut cut = { len, 1, 0, 2, 1 };

		hostile_frame(&r, buf, len);
		frame_parse(buf, len, &f);
		check_layer(&f.outer, buf, len);
		check_layer(&f.inner, buf, len);
		check(inside(f.vxlan, 8, buf, len));
		check(inside(f.gre, 4 + (f.gre && f.gre[0] & 0x20 ? 4 : 0), buf, len));
		check(inside(f.mpls, 4, buf, len));
		frame_checksums(&f.outer);
		frame_hash(&f, ~UINT64_C(0), key);
		frame_sum(&f);
		frame_checksums_fill(buf, len, FRAME_L3_OK | FRAME_L4_OK);
		frame_segment(buf, &cut);
		free(buf);
	}
}

RUN_TESTS(unit_test(hashes_are_those_of_the_verification_suite),
	  unit_test(the_sum_of_a_frame_is_its_packets), unit_test(filled_in_checksums_are_right),
	  unit_test(no_frame_is_read_beyond_its_end))
