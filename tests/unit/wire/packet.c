// SPDX-License-Identifier: MIT
#include <errno.h>
#include "test.h"
#include "util/rand.h"
#include "wire/packet.h"

/* RC READ REQUEST to QP 0x000102, PSN 0x030405, 4096 B at 0x1122334455667788, rkey 0xa1a2a3a4. */
static const uint8_t read_req[] = {
	0x0c, 0x40, 0xff, 0xff, 0x00, 0x00, 0x01, 0x02, 0x80, 0x03, 0x04, 0x05, /* BTH */
	0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0xa1, 0xa2, 0xa3, 0xa4, /* RETH */
	0x00, 0x00, 0x10, 0x00, 0xde, 0xad, 0xbe, 0xef, /* and ICRC */
};

/* Random when the opcode has one of @headers, else 0. */
static uint64_t some(struct rand *r, const struct pkt *p, uint32_t headers, unsigned int bits)
{
	return p->op->flags & headers ? rand_u64(r) >> (64 - bits) : 0;
}

static void some_bth(struct rand *r, struct pkt *p)
{
	p->solicited = rand_chance(r, 0.5);
	p->migreq = rand_chance(r, 0.5);
	p->ackreq = rand_chance(r, 0.5);
	p->fecn = rand_chance(r, 0.5);
	p->becn = rand_chance(r, 0.5);
	p->pkey = (uint16_t)rand_u64(r);
	p->dqpn = (uint32_t)rand_below(r, 1 << 24);
	p->psn = (uint32_t)rand_below(r, 1 << 24);
}

/* A packet of any opcode: all its fields random, within their widths. */
static struct pkt some_packet(struct rand *r, const uint8_t *payload, size_t max)
{
	struct pkt p = { .opcode = 0 };

	do
		p.opcode = (uint8_t)rand_u64(r);
	while (!opcodes[p.opcode].name);
	p.op = &opcodes[p.opcode];
	some_bth(r, &p);
	p.va = some(r, &p, WIRE_RETH | WIRE_ATOMICETH, 64);
	p.rkey = (uint32_t)some(r, &p, WIRE_RETH | WIRE_ATOMICETH, 32);
	p.dma_len = (uint32_t)some(r, &p, WIRE_RETH, 32);
	p.swap_add = some(r, &p, WIRE_ATOMICETH, 64);
	p.compare = some(r, &p, WIRE_ATOMICETH, 64);
	p.syndrome = (uint8_t)some(r, &p, WIRE_AETH, 8);
	p.msn = (uint32_t)some(r, &p, WIRE_AETH, 24);
	p.orig = some(r, &p, WIRE_ATOMICACKETH, 64);
	p.qkey = (uint32_t)some(r, &p, WIRE_DETH, 32);
	p.sqpn = (uint32_t)some(r, &p, WIRE_DETH, 24);
	p.imm = (uint32_t)some(r, &p, WIRE_IMMDT, 32);
	p.inv_rkey = (uint32_t)some(r, &p, WIRE_IETH, 32);
	p.xrc_srqn = (uint32_t)some(r, &p, WIRE_XRCETH, 24);
	p.flush_type = (uint8_t)some(r, &p, WIRE_FETH, 4);
	p.flush_level = (uint8_t)some(r, &p, WIRE_FETH, 2);
	p.payload_len = p.op->flags & WIRE_PAYLOAD ? rand_below(r, max + 1) : 0;
	p.payload = payload;
	p.pad = (uint8_t)wire_pad(p.payload_len);
	return p;
}

static void check_same(const struct pkt *a, const struct pkt *b)
{
	check(a->op == b->op && a->opcode == b->opcode && a->solicited == b->solicited &&
	      a->migreq == b->migreq && a->ackreq == b->ackreq);
	check(a->fecn == b->fecn && a->becn == b->becn && a->pad == b->pad && a->pkey == b->pkey);
	check_eq(a->dqpn, b->dqpn);
	check_eq(a->psn, b->psn);
	check(a->va == b->va && a->rkey == b->rkey && a->dma_len == b->dma_len);
	check(a->swap_add == b->swap_add && a->compare == b->compare);
	check(a->syndrome == b->syndrome && a->msn == b->msn && a->orig == b->orig);
	check(a->qkey == b->qkey && a->sqpn == b->sqpn && a->imm == b->imm);
	check(a->inv_rkey == b->inv_rkey && a->xrc_srqn == b->xrc_srqn);
	check(a->flush_type == b->flush_type && a->flush_level == b->flush_level);
	check_eq(a->payload_len, b->payload_len);
	check_mem(a->payload, b->payload, a->payload_len);
}

TEST(parses_what_stands_there)
{
	struct pkt p;

	check_eq(wire_parse(read_req, sizeof(read_req), &p), 0);
	check(p.op == &opcodes[OP_READ_REQUEST]);
	check(p.ackreq && p.migreq && !p.solicited && !p.fecn && !p.becn);
	check_eq(p.pkey, 0xffff);
	check_eq(p.dqpn, 0x102);
	check_eq(p.psn, 0x30405);
	check_eq(p.va, UINT64_C(0x1122334455667788));
	check_eq(p.rkey, 0xa1a2a3a4);
	check_eq(p.dma_len, 4096);
	check_eq(p.payload_len, 0);
}

TEST(immediates_keep_their_bytes_and_keys_their_value)
{
	uint8_t buf[64];
	size_t len;
	struct pkt p = { .opcode = OP_SEND_ONLY_IMM };

	memcpy(&p.imm, "\x01\x02\x03\x04", 4);
	check_eq(wire_build(&p, buf, sizeof(buf), &len), 0);
	check_mem(buf + BTH_LEN, "\x01\x02\x03\x04", 4);
	p = (struct pkt){ .opcode = OP_SEND_ONLY_INV, .inv_rkey = 0x01020304 };
	check_eq(wire_build(&p, buf, sizeof(buf), &len), 0);
	check_mem(buf + BTH_LEN, "\x01\x02\x03\x04", 4);
}

TEST(build_then_parse_is_the_identity)
{
	uint8_t payload[300], buf[400], again[400];
	size_t len, len2;
	struct rand r;
	struct pkt back;

	rand_init(&r, 21);
	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)rand_u64(&r);
	for (int i = 0; i < 20000; i++) {
		struct pkt p = some_packet(&r, payload, sizeof(payload));

		check_eq(wire_build(&p, buf, sizeof(buf), &len), 0);
		check_eq(len % 4, 0);
		check_eq(wire_parse(buf, len, &back), 0);
		check_same(&p, &back);
		check_eq(wire_build(&back, again, sizeof(again), &len2), 0);
		check_eq(len, len2);
		check_mem(buf, again, len);
	}
}

/* Headers cut anywhere, or a payload cut off a word boundary. A whole word of payload less is for
 * the ICRC to notice. */
TEST(parse_rejects_every_truncation)
{
	uint8_t payload[37] = { 0 }, buf[128];
	struct rand r;
	struct pkt out;
	size_t len;

	rand_init(&r, 22);
	for (int i = 0; i < 3000; i++) {
		struct pkt p = some_packet(&r, payload, sizeof(payload));
		size_t least = (size_t)BTH_LEN + p.op->ext_len + p.pad + ICRC_LEN;

		check_eq(wire_build(&p, buf, sizeof(buf), &len), 0);
		for (size_t n = 0; n < len; n++)
			check_eq(wire_parse(buf, n, &out), n >= least && !(n % 4) ? 0 : EBADMSG);
	}
}

TEST(parse_rejects_what_no_opcode_allows)
{
	uint8_t buf[sizeof(read_req) + 4] = { 0 };
	struct pkt p;

	memcpy(buf, read_req, sizeof(read_req));
	check_eq(wire_parse(buf, sizeof(buf), &p), EBADMSG); /* payload on a READ request */
	for (int tver = 1; tver < 16; tver++) {
		buf[1] = (uint8_t)tver;
		check_eq(wire_parse(buf, sizeof(read_req), &p), EBADMSG);
	}
	buf[1] = 0x10; /* a pad where there is no payload */
	check_eq(wire_parse(buf, sizeof(read_req), &p), EBADMSG);
	buf[1] = 0;
	for (int op = 0; op < 256; op++) {
		buf[0] = (uint8_t)op;
		if (!opcodes[op].name)
			check_eq(wire_parse(buf, sizeof(read_req), &p), EBADMSG);
	}
}

TEST(parse_ignores_reserved_bits_and_build_clears_them)
{
	uint8_t in[sizeof(read_req)], out[64];
	struct pkt p;
	size_t len;

	memcpy(in, read_req, sizeof(in));
	in[4] |= 0x3f;
	in[8] |= 0x7f;
	check_eq(wire_parse(in, sizeof(in), &p), 0);
	check_eq(wire_build(&p, out, sizeof(out), &len), 0);
	check_eq(len, sizeof(read_req));
	check_mem(out, read_req, sizeof(read_req) - ICRC_LEN);
}

TEST(build_needs_all_its_room_and_writes_no_more)
{
	uint8_t payload[11] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 }, buf[130];
	struct rand r;
	size_t len, n;

	rand_init(&r, 23);
	for (int i = 0; i < 2000; i++) {
		struct pkt p = some_packet(&r, payload, sizeof(payload));

		check_eq(wire_build(&p, buf, sizeof(buf), &len), 0);
		for (size_t cap = 0; cap < len; cap++)
			check_eq(wire_build(&p, buf, cap, &n), ENOBUFS);
		memset(buf, 0xee, sizeof(buf));
		check_eq(wire_build(&p, buf, len, &n), 0);
		for (size_t k = len; k < sizeof(buf); k++)
			check_eq(buf[k], 0xee);
	}
}

TEST(build_refuses_unknown_opcodes_and_misplaced_payload)
{
	uint8_t buf[64];
	size_t len = 99;

	check_eq(wire_build(&(struct pkt){ .opcode = 0x15 }, buf, sizeof(buf), &len), EINVAL);
	check_eq(wire_build(&(struct pkt){ .opcode = OP_ACKNOWLEDGE, .payload_len = 4 }, buf,
			    sizeof(buf), &len),
		 EINVAL);
	check_eq(len, 99);
}

TEST(without_payload_its_place_is_left)
{
	uint8_t buf[64];
	struct pkt p = { .opcode = OP_SEND_ONLY, .payload_len = 5 };
	size_t len;

	memset(buf, 0xee, sizeof(buf));
	check_eq(wire_build(&p, buf, sizeof(buf), &len), 0);
	check_eq(len, BTH_LEN + 5 + 3 + ICRC_LEN);
	check_mem(buf + BTH_LEN, "\xee\xee\xee\xee\xee\0\0\0\0\0\0\0", 12);
}

RUN_TESTS(unit_test(parses_what_stands_there),
	  unit_test(immediates_keep_their_bytes_and_keys_their_value),
	  unit_test(build_then_parse_is_the_identity), unit_test(parse_rejects_every_truncation),
	  unit_test(parse_rejects_what_no_opcode_allows),
	  unit_test(parse_ignores_reserved_bits_and_build_clears_them),
	  unit_test(build_needs_all_its_room_and_writes_no_more),
	  unit_test(build_refuses_unknown_opcodes_and_misplaced_payload),
	  unit_test(without_payload_its_place_is_left))
