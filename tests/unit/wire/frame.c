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
	uint8_t out[160];
	struct rand r;
	struct frame f;

	rand_init(&r, 20);
	for (unsigned int i = 0; i < 100000; i++) {
		uint32_t len = (uint32_t)(rand_u64(&r) % 160);
		uint8_t *buf = malloc(len ? len : 1);
		struct frame_cut cut = { len, 1, 0, 2, 1 };
		struct frame_merged m;

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
		for (uint32_t k = 0; frame_merged(&f, f.outer.proto, 0, 1 + i % 9, &m); k++)
			if (!frame_of_merged(&m, k, out))
				break;
		frame_checksum_complete(buf, len, (uint32_t)rand_u64(&r) % 200, i % 200);
		frame_checksums_fill(buf, len, FRAME_L3_OK | FRAME_L4_OK);
		frame_segment(buf, &cut);
		free(buf);
	}
}

/* --- merged frames --- */

enum { IP_TCP = 6, IP_UDP = 17, TAG_LEN = 4, STEP = 100, BODY = 3 * STEP + 7, ROOM = 1024 };
enum { FIN = 1, PSH = 8, ACK = 16, CWR = 0x80 };

struct whole {
	uint8_t buf[ROOM];
	uint32_t len, ip, l4, head; /* head: offset of the payload */
};

static void put_ip(struct whole *w, uint8_t version, uint8_t proto, uint32_t len)
{
	uint8_t *ip = w->buf + w->ip;

	if (version == 4) {
		ip[0] = 0x45;
		put_be16(ip + 2, (uint16_t)(20 + len));
		put_be16(ip + 4, 0xfffe); /* the identification */
		ip[9] = proto;
	} else {
		ip[0] = 0x60;
		put_be16(ip + 4, (uint16_t)len);
		ip[6] = proto;
	}
	memset(ip + (version == 4 ? 12 : 8), 0x11 * version, version == 4 ? 8 : 32);
}

/* A merged frame of @body bytes of payload, with options of TCP and two more bytes as padding. */
static void make_whole(uint8_t version, uint8_t proto, bool tagged, uint32_t body, struct whole *w)
{
	uint8_t *l4;

	memset(w, 0, sizeof(*w));
	w->ip = FRAME_ETH_LEN + (tagged ? TAG_LEN : 0);
	w->l4 = w->ip + (version == 4 ? 20 : 40);
	w->head = w->l4 + (proto == IP_TCP ? 32 : 8);
	w->len = w->head + body + 2;
	if (tagged)
		put_be32(w->buf + 12, 0x81002005);
	put_be16(w->buf + w->ip - 2, version == 4 ? 0x0800 : 0x86dd);
	put_ip(w, version, proto, w->head - w->l4 + body);
	l4 = w->buf + w->l4;
	put_be32(l4, 0x12345678);
	if (proto == IP_TCP) {
		put_be32(l4 + 4, 0xffffff00);
		l4[12] = 0x80;
		l4[13] = CWR | ACK | PSH | FIN;
	} else {
		put_be16(l4 + 4, (uint16_t)(8 + body));
	}
	for (uint32_t i = 0; i < body; i++)
		w->buf[w->head + i] = (uint8_t)(i * 7);
}

static bool merged(const struct whole *w, uint8_t proto, uint32_t l4, uint32_t step,
		   struct frame_merged *m)
{
	struct frame f;

	frame_parse(w->buf, w->len, &f);
	return frame_merged(&f, proto, l4, step, m);
}

static void check_tcp(const uint8_t *tcp, uint32_t index, bool last)
{
	check_eq(get_be32(tcp + 4), (uint32_t)(0xffffff00 + index * STEP));
	check_eq(tcp[13], ACK | (index ? 0 : CWR) | (last ? PSH | FIN : 0));
}

static void check_cut(const struct whole *w, const struct frame_merged *m, uint32_t index)
{
	uint32_t n = index < 3 ? STEP : BODY - 3 * STEP;
	uint8_t *out = malloc(w->head + n); /* nothing is written behind the frame */
	struct frame f;

	check_eq(frame_of_merged(m, index, out), w->head + n);
	check_mem(out, w->buf, w->ip); /* MACs and tag */
	check_mem(out + w->head, w->buf + w->head + index * STEP, n);
	frame_parse(out, w->head + n, &f);
	check_eq(frame_checksums(&f.outer), FRAME_L3_OK | FRAME_L4_OK);
	check_eq(f.outer.l4_len, w->head - w->l4 + n);
	if (f.outer.l3 == FRAME_IP4)
		check_eq(get_be16(out + w->ip + 4), (uint16_t)(0xfffe + index));
	if (f.outer.l4 == FRAME_TCP)
		check_tcp(f.outer.l4_head, index, index == 3);
	else
		check_eq(get_be16(f.outer.l4_head + 4), 8 + n);
	free(out);
}

TEST(merged_frames_are_cut_into_those_of_the_wire)
{
	uint8_t out[FRAME_MAX];
	struct frame_merged m;
	struct whole w;

	for (unsigned int i = 0; i < 8; i++) {
		uint8_t proto = i & 2 ? IP_TCP : IP_UDP;

		make_whole(i & 1 ? 4 : 6, proto, i & 4, BODY, &w);
		check(merged(&w, proto, w.l4, STEP, &m));
		for (uint32_t k = 0; k < 4; k++)
			check_cut(&w, &m, k);
		check_eq(frame_of_merged(&m, 4, out), 0);
	}
}

/* As many frames as the payload has steps, and one where there is none. */
TEST(a_merged_frame_has_no_empty_end)
{
	static const struct {
		uint32_t body, frames;
	} rows[] = { { 0, 1 }, { 1, 1 }, { STEP, 1 }, { STEP + 1, 2 }, { 2 * STEP, 2 } };
	uint8_t out[FRAME_MAX];
	struct frame_merged m;
	struct whole w;

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint32_t n = 0;

		make_whole(4, IP_TCP, false, rows[i].body, &w);
		check(merged(&w, IP_TCP, 0, STEP, &m));
		while (frame_of_merged(&m, n, out))
			n++;
		check_eq(n, rows[i].frames);
	}
}

TEST(what_the_kernel_says_of_a_merged_frame_is_checked)
{
	struct frame_merged m;
	struct whole w;

	make_whole(4, IP_TCP, false, BODY, &w);
	check(!merged(&w, IP_UDP, 0, STEP, &m));
	check(!merged(&w, IP_TCP, w.l4 + 50, STEP, &m)); /* TCP in a tunnel */
	check(!merged(&w, IP_TCP, 0, 0, &m));
	check(!merged(&w, IP_TCP, 0, FRAME_MAX - w.head + 1, &m));
	check(!merged(&w, IP_TCP, 0, UINT32_MAX, &m));
	check(merged(&w, IP_TCP, 0, FRAME_MAX - w.head, &m));
	w.buf[w.l4 + 12] = 0x40; /* a header shorter than TCP's */
	check(!merged(&w, IP_TCP, 0, STEP, &m));
	make_whole(4, IP_TCP, false, 0, &w);
	w.buf[w.l4 + 12] = 0xf0; /* longer than the packet */
	check(!merged(&w, IP_TCP, 0, STEP, &m));
	w.len = w.l4;
	check(!merged(&w, IP_TCP, 0, STEP, &m));
}

/* A sum of the pseudo header becomes the one that frame_checksums_fill() makes of nothing. */
TEST(a_partial_checksum_is_completed)
{
	struct whole w, other;

	for (unsigned int i = 0; i < 4; i++) {
		uint32_t offset = i & 2 ? 16 : 6, pseudo = i & 2 ? IP_TCP : IP_UDP;

		make_whole(i & 1 ? 4 : 6, (uint8_t)pseudo, i & 1, BODY, &w);
		w.len -= 2;
		other = w;
		frame_checksums_fill(other.buf, other.len, FRAME_L4_OK);
		pseudo += w.len - w.l4 + (i & 1 ? 4 * 0x4444 : 16 * 0x6666);
		put_be16(w.buf + w.l4 + offset, (uint16_t)((pseudo & 0xffff) + (pseudo >> 16)));
		check(frame_checksum_complete(w.buf, w.len, w.l4, offset));
		check_mem(w.buf, other.buf, sizeof(w.buf));
	}
}

TEST(a_checksum_beyond_the_frame_is_refused)
{
	static const uint32_t wrong[] = { 39, 40, 41, 65535, UINT32_MAX };
	uint8_t *buf = calloc(1, 40);

	for (unsigned int i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		check(!frame_checksum_complete(buf, 40, wrong[i], 0));
		check(!frame_checksum_complete(buf, 40, 0, wrong[i]));
		check(!frame_checksum_complete(buf, 40, 20, wrong[i] - 20));
	}
	check(!frame_checksum_complete(buf, 1, 0, 0));
	check(frame_checksum_complete(buf, 40, 38, 0));
	check_eq(get_be16(buf + 38), 0xffff);
	free(buf);
}

RUN_TESTS(unit_test(hashes_are_those_of_the_verification_suite),
	  unit_test(the_sum_of_a_frame_is_its_packets), unit_test(filled_in_checksums_are_right),
	  unit_test(no_frame_is_read_beyond_its_end),
	  unit_test(merged_frames_are_cut_into_those_of_the_wire),
	  unit_test(a_merged_frame_has_no_empty_end),
	  unit_test(what_the_kernel_says_of_a_merged_frame_is_checked),
	  unit_test(a_partial_checksum_is_completed),
	  unit_test(a_checksum_beyond_the_frame_is_refused))
