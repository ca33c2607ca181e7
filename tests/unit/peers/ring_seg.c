// SPDX-License-Identifier: MIT
#include <errno.h>
#include <string.h>
#include "peers/ring_seg.h"
#include "test.h"
#include "transport/request.h"
#include "util/rand.h"
#include "wire/opcode.h"

enum { ROUNDS = 200, PAYLOAD = 600 };

static uint8_t payload[PAYLOAD], grh[GRH_LEN];
static uint8_t by_ip4[GRH_LEN]; /* its first half is zero */
static struct piece pieces[RING_SEG_PIECES];
static struct av av;

/* Any field with any value, or zero. */
static uint32_t maybe(struct rand *r, uint32_t mask)
{
	return rand_chance(r, 0.5) ? (uint32_t)rand_u64(r) & mask : 0;
}

static uint64_t maybe64(struct rand *r)
{
	return rand_chance(r, 0.5) ? rand_u64(r) : 0;
}

static struct seg any_seg(struct rand *r, uint8_t op)
{
	struct seg s = { .op = op,
			 .flags = (uint16_t)maybe(r, 0xff & ~(SEG_BYREF | SEG_ARMING)),
			 .syndrome = (uint8_t)maybe(r, 0xff),
			 .pkey = (uint16_t)maybe(r, 0xffff),
			 .dqpn = maybe(r, 0xffffff),
			 .sqpn = maybe(r, 0xffffff),
			 .psn = maybe(r, 0xffffff),
			 .npsn = maybe(r, 0xffffff),
			 .msn = maybe(r, 0xffffff),
			 .ack_psn = maybe(r, 0xffffff),
			 .ack_msn = maybe(r, 0xffffff),
			 .imm = maybe(r, UINT32_MAX),
			 .qkey = maybe(r, UINT32_MAX),
			 .srqn = maybe(r, 0xffffff),
			 .marked = maybe(r, 1),
			 .damaged = maybe(r, 1),
			 .va = maybe64(r),
			 .rkey = maybe(r, UINT32_MAX),
			 .dma_len = maybe(r, UINT32_MAX),
			 .swap_add = maybe64(r),
			 .compare = maybe64(r),
			 .l3 = (uint8_t)maybe(r, 0xff),
			 .sport = (uint16_t)maybe(r, 0xffff),
			 .sl = (uint8_t)maybe(r, 15) };

	if (rand_chance(r, 0.3))
		s.flags |= opcode_service(op) == SVC_UD ? SEG_MCAST : SEG_ARMING;
	if (rand_chance(r, 0.3))
		s.grh = rand_chance(r, 0.5) ? grh : by_ip4;
	if (s.flags & SEG_MCAST)
		s.av = &av;
	return s;
}

static void same(const struct seg *a, const struct seg *b)
{
	check_eq(a->op, b->op);
	check_eq(a->syndrome, b->syndrome);
	check_eq(a->pkey, b->pkey);
	check_eq(a->dqpn, b->dqpn);
	check_eq(a->sqpn, b->sqpn);
	check_eq(a->psn, b->psn);
	check_eq(a->npsn, b->npsn);
	check_eq(a->msn, b->msn);
	check_eq(a->ack_psn, b->ack_psn);
	check_eq(a->ack_msn, b->ack_msn);
	check_eq(a->imm, b->imm);
	check_eq(a->qkey, b->qkey);
	check_eq(a->srqn, b->srqn);
	check_eq(a->marked, b->marked);
	check_eq(a->damaged, b->damaged);
	check_eq(a->va, b->va);
	check_eq(a->rkey, b->rkey);
	check_eq(a->dma_len, b->dma_len);
	check_eq(a->swap_add, b->swap_add);
	check_eq(a->compare, b->compare);
	check_eq(a->l3, b->l3);
	check_eq(a->sport, b->sport);
	check_eq(a->sl, b->sl);
	check_eq(a->len, b->len);
	check_eq(!a->grh, !b->grh);
	if (a->grh)
		check_mem(a->grh, b->grh, GRH_LEN);
	check_eq(!a->av, !b->av);
	if (a->av)
		check_mem(a->av, b->av, sizeof(av));
}

static void fill(struct rand *r)
{
	for (unsigned int i = 0; i < PAYLOAD; i++)
		payload[i] = (uint8_t)rand_u64(r);
	for (unsigned int i = 0; i < GRH_LEN; i++)
		grh[i] = (uint8_t)rand_u64(r);
	memcpy(by_ip4 + GRH_LEN / 2, grh, GRH_LEN / 2);
	for (unsigned int i = 0; i < RING_SEG_PIECES; i++)
		pieces[i] = (struct piece){ rand_u64(r), (uint32_t)rand_below(r, 1 << 24),
					    (uint32_t)rand_u64(r) };
	for (unsigned int i = 0; i < sizeof(av); i++)
		((uint8_t *)&av)[i] = (uint8_t)rand_u64(r);
}

static void decoded(const struct seg *s, bool by_ref, uint8_t *rec, struct ring_got *got)
{
	struct ring_plan plan;
	uint64_t word;

	ring_seg_plan(s, by_ref, &plan);
	check(plan.bytes <= RING_RECORD_MAX && plan.bytes % RING_LINE == 0);
	word = ring_seg_encode(s, &plan, by_ref, rec);
	check_ne(word, 0);
	if (!by_ref)
		memcpy(rec + plan.head, s->data, s->len);
	check_eq(ring_seg_decode(word, rec, plan.bytes, got), 0);
}

TEST(every_field_of_every_opcode_comes_over_by_value)
{
	static uint8_t rec[2048] __attribute__((aligned(64)));
	struct ring_got got = { 0 };
	struct rand r;

	rand_init(&r, 11);
	fill(&r);
	for (int i = 0; i < 256 * ROUNDS; i++) {
		struct seg s = any_seg(&r, (uint8_t)i);

		s.data = payload;
		s.len = (uint32_t)rand_below(&r, PAYLOAD + 1);
		decoded(&s, false, rec, &got);
		same(&s, &got.seg);
		check_eq(got.seg.flags, s.flags);
		check_mem(got.seg.data, payload, s.len);
	}
}

TEST(every_field_of_every_opcode_comes_over_by_reference)
{
	static uint8_t rec[2048] __attribute__((aligned(64)));
	struct ring_got got = { 0 };
	struct rand r;

	rand_init(&r, 12);
	fill(&r);
	for (int i = 0; i < 256 * ROUNDS; i++) {
		struct seg s = any_seg(&r, (uint8_t)i);

		s.pieces = pieces;
		s.npieces = (uint16_t)(1 + rand_below(&r, RING_SEG_PIECES));
		for (int n = 0; n < s.npieces; n++)
			s.len += pieces[n].len;
		decoded(&s, true, rec, &got);
		same(&s, &got.seg);
		check_eq(got.seg.flags, s.flags | SEG_BYREF);
		check_eq(got.seg.npieces, s.npieces);
		check_mem(got.seg.pieces, pieces, s.npieces * sizeof(struct piece));
	}
}

/* Other builds on this host read the same records. */
TEST(the_flags_of_a_record_are_8_bits)
{
	static const struct {
		uint8_t op;
		uint16_t flags;
		uint8_t bits;
	} cases[] = { { SVC_RC | OP_SEND_ONLY, SEG_SQPN | SEG_ARMING, 0x60 },
		      { SVC_UC | OP_SEND_ONLY, SEG_SQPN | SEG_ARMING, 0x60 },
		      { SVC_UD | OP_SEND_ONLY, SEG_SQPN | SEG_MCAST, 0x60 },
		      { SVC_UD | OP_SEND_ONLY, SEG_NET | SEG_SQPN, 0xa0 } };
	uint8_t rec[256] __attribute__((aligned(64)));

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct seg s = { .op = cases[i].op, .flags = cases[i].flags };
		struct ring_plan plan;

		ring_seg_plan(&s, false, &plan);
		check_eq(ring_word_info(ring_seg_encode(&s, &plan, false, rec)) >> 8 & 0xff,
			 cases[i].bits);
	}
}

TEST(a_short_send_with_an_acknowledgement_takes_one_line)
{
	struct seg s = { .op = 4,
			 .flags = SEG_ACK | SEG_SQPN,
			 .pkey = 0xffff,
			 .dqpn = 5,
			 .sqpn = 6,
			 .psn = 7,
			 .npsn = 1,
			 .ack_psn = 8,
			 .ack_msn = 9,
			 .len = 24 };
	struct ring_plan plan;

	ring_seg_plan(&s, false, &plan);
	check_eq(plan.bytes, RING_LINE);
}

/* The shorter way of a SEND makes the same record, from the members that it names alone. */
TEST(a_plain_record_is_that_of_the_same_segment)
{
	uint64_t ordinary[16] = { 0 }, plain[16] = { 0 };

	for (unsigned int i = 0; i < 64; i++) {
		struct seg s = { .op = OP_SEND_ONLY,
				 .flags = SEG_SQPN | SEG_ACKREQ | (i & 1 ? SEG_ACK : 0),
				 .pkey = 0xffff,
				 .dqpn = 0x123456,
				 .sqpn = 0xfedcba,
				 .psn = 0xffffff,
				 .npsn = 1,
				 .len = 1 + i };
		struct seg other = s;
		struct ring_plan a, b;

		other.va = other.swap_add = other.compare = 7;
		other.imm = other.qkey = other.srqn = other.msn = 7;
		other.grh = grh;
		other.marked = true;
		if (i & 1) {
			s.ack_psn = other.ack_psn = 0xfffffe;
			s.ack_msn = other.ack_msn = 5;
		}
		ring_seg_plan(&s, false, &a);
		ring_seg_plan_plain(&other, &b);
		check_eq(a.ext, b.ext);
		check_eq(a.head, b.head);
		check_eq(a.bytes, b.bytes);
		check_eq(ring_seg_encode(&s, &a, false, (uint8_t *)ordinary),
			 ring_seg_encode(&other, &b, false, (uint8_t *)plain));
		assert_memory_equal(ordinary, plain, sizeof(plain));
	}
}

static void ip4(uint8_t *area)
{
	memset(area, 0, GRH_LEN / 2);
}

TEST(a_short_datagram_by_ipv4_takes_one_line)
{
	struct seg s = { .op = SVC_UD | OP_SEND_ONLY, .qkey = 1, .l3 = 2, .grh = grh, .len = 8 };
	struct ring_plan plan;

	memset(grh, 0x45, sizeof(grh));
	ip4(grh);
	ring_seg_plan(&s, false, &plan);
	check_eq(plan.bytes, RING_LINE);
	s.len = 64;
	ring_seg_plan(&s, false, &plan);
	check_eq(plan.bytes, 2 * RING_LINE);
}

TEST(a_plain_record_of_a_datagram_is_that_of_the_same_segment)
{
	struct ring_got got = { 0 };

	for (unsigned int i = 0; i < 64; i++) {
		uint64_t ordinary[24] = { 0 }, plain[24] = { 0 };
		struct seg s = { .op = SVC_UD | OP_SEND_ONLY,
				 .flags = SEG_SQPN | (i & 1 ? SEG_SOLICITED : 0),
				 .pkey = 0xffff,
				 .dqpn = 0x123456,
				 .sqpn = 0xfedcba,
				 .psn = 0xffffff,
				 .npsn = 1,
				 .qkey = i,
				 .l3 = 1,
				 .grh = grh,
				 .len = 1 + i };
		struct seg other = s;
		struct ring_plan a, b;

		memset(grh, (int)(0x60 | i), sizeof(grh));
		if (i & 2)
			ip4(grh);
		other.va = other.swap_add = other.compare = 7;
		other.imm = other.srqn = other.msn = other.ack_psn = other.ack_msn = 7;
		other.marked = true;
		other.av = &av;
		ring_seg_plan(&s, false, &a);
		ring_seg_plan_plain(&other, &b);
		check_eq(a.ext, b.ext);
		check_eq(a.head, b.head);
		check_eq(a.bytes, b.bytes);
		check_eq(ring_seg_encode(&s, &a, false, (uint8_t *)ordinary),
			 ring_seg_encode(&other, &b, false, (uint8_t *)plain));
		assert_memory_equal(ordinary, plain, sizeof(plain));
		s.data = payload;
		decoded(&s, false, (uint8_t *)ordinary, &got);
		same(&s, &got.seg);
	}
}

TEST(too_long_a_payload_is_never_planned_to_fit)
{
	static const uint32_t lens[] = { RING_RECORD_MAX, RING_RECORD_MAX + 1, 1U << 31,
					 UINT32_MAX };
	struct ring_plan plan;

	for (unsigned int i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		struct seg s = { .len = lens[i] };

		ring_seg_plan(&s, false, &plan);
		check(plan.bytes > RING_RECORD_MAX);
	}
}

/* What decodes at all stays within its record and its counts. */
TEST(random_records_decode_within_bounds_or_not_at_all)
{
	static uint8_t rec[2048] __attribute__((aligned(64)));
	struct ring_got got = { 0 };
	unsigned int accepted = 0;
	struct rand r;

	rand_init(&r, 13);
	for (int i = 0; i < 300000; i++) {
		uint32_t bytes = (uint32_t)(1 + rand_below(&r, 8)) * RING_LINE;
		uint64_t sum = 0;

		for (uint32_t n = 0; n < bytes; n += 8)
			*(uint64_t *)(rec + n) =
				rand_chance(&r, 0.5) ? rand_u64(&r) : rand_below(&r, 300);
		if (ring_seg_decode(rand_u64(&r), rec, bytes, &got))
			continue;
		accepted++;
		check(got.seg.npieces <= RING_SEG_PIECES);
		for (int n = 0; n < got.seg.npieces; n++)
			sum += got.seg.pieces[n].len;
		if (got.seg.flags & SEG_BYREF)
			check_eq(sum, got.seg.len);
		else
			check(got.seg.data + got.seg.len <= rec + bytes);
	}
	check(accepted > 100);
}

/* What a request leaves as it finds it comes from the stack, and a record carries what is not 0:
 * the peer would read it. */
TEST(a_request_carries_nothing_that_it_does_not_set)
{
	struct tqp q = { .qp.service = service_find(IBV_QPT_RC) };
	struct ring_plan p;
	struct seg s;

	memset(&s, 0xff, sizeof(s));
	request_blank(&s);
	request_fill(&q, &s, OP_SEND_ONLY);
	s.len = s.imm = s.rkey = s.dma_len = 0;
	s.va = 0;
	s.npieces = 0;
	ring_seg_plan(&s, false, &p);
	check_eq(p.ext, 0);
}

RUN_TESTS(unit_test(every_field_of_every_opcode_comes_over_by_value),
	  unit_test(every_field_of_every_opcode_comes_over_by_reference),
	  unit_test(the_flags_of_a_record_are_8_bits),
	  unit_test(a_short_send_with_an_acknowledgement_takes_one_line),
	  unit_test(a_plain_record_is_that_of_the_same_segment),
	  unit_test(a_short_datagram_by_ipv4_takes_one_line),
	  unit_test(a_plain_record_of_a_datagram_is_that_of_the_same_segment),
	  unit_test(too_long_a_payload_is_never_planned_to_fit),
	  unit_test(a_request_carries_nothing_that_it_does_not_set),
	  unit_test(random_records_decode_within_bounds_or_not_at_all))
