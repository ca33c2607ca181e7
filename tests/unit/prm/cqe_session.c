// SPDX-License-Identifier: MIT
/* Compressed sessions, byte by byte: where title and arrays stand, what they leave as it was, and
 * that a session which is expanded is what single entries would have been. */
#include "prm/cqe_session.h"
#include "test.h"
#include "util/be.h"

enum { CNT = 128, HASH = MLX5DV_CQE_RES_FORMAT_HASH, CSUM = MLX5DV_CQE_RES_FORMAT_CSUM };
enum { STRIDX = MLX5DV_CQE_RES_FORMAT_CSUM_STRIDX };
enum { UNTOUCHED = 0x5a };

static uint8_t memory[CNT * 128], single[CNT * 128];

static struct cqe_ring ring_of(uint8_t *buf, uint32_t size)
{
	memset(buf, UNTOUCHED, CNT * 128);
	return (struct cqe_ring){ buf, CNT, size };
}

static uint8_t format_of(uint32_t n)
{
	return n % 3 == 2 ? STRIDX : n % 3 ? HASH : CSUM;
}

/* Completion @j of a run. */
static struct cqe nth(uint32_t j)
{
	return (struct cqe){ .opcode = MLX5_CQE_RESP_SEND,
			     .uidx = 0x123456,
			     .qpn = 0xabcdef,
			     .vlan = 0x0102,
			     .csum_ok = true,
			     .hash_type = CQE_HASH_IP4 | CQE_HASH_UDP,
			     .wqe_counter = (uint16_t)(0xfff0 + j),
			     .byte_cnt = 0x01020300 + j,
			     .brief = 0x8000 + j * 3 };
}

/* Completions @from to @from + @n - 1 at entry @i. */
static void write_run(const struct cqe_ring *r, uint8_t format, uint32_t i, uint32_t from,
		      uint32_t n)
{
	struct cqe_session s = { .format = format };

	for (uint32_t j = 0; j < n; j++) {
		struct cqe c = nth(from + j);

		check(cqe_session_takes(&s, &c));
		cqe_session_add(&s, &c);
	}
	cqe_session_write(&s, r, i);
	check_eq(s.n, 0);
}

static bool is_untouched(const struct mlx5_cqe64 *e)
{
	const uint8_t *p = (const uint8_t *)e;

	for (size_t k = 0; k < sizeof(*e); k++)
		if (p[k] != UNTOUCHED)
			return false;
	return true;
}

static void check_title(const struct mlx5_cqe64 *e, uint32_t i, uint32_t n)
{
	struct cqe first = nth(0), c;

	check(cqe_ours(e, i, CNT));
	check(!cqe_ours(e, i + CNT, CNT));
	check(cqe_is_title(e));
	check_eq(e->op_own >> 4, MLX5_CQE_RESP_SEND);
	check_eq(be32toh(e->byte_cnt), n);
	check_eq(be16toh(e->wqe_counter), first.wqe_counter);
	cqe_read(e, &c);
	check_eq(c.uidx, first.uidx);
	check_eq(c.qpn, first.qpn);
	check_eq(c.vlan, first.vlan);
	check(c.csum_ok);
	check_eq(((const uint8_t *)e)[16], CQE_HASH_IP4 | CQE_HASH_UDP);
}

static void check_mini(const uint8_t *p, uint8_t format, uint32_t j)
{
	struct cqe c = nth(j);

	check_eq(get_be32(p + 4), c.byte_cnt);
	if (format == HASH) {
		check_eq(get_be32(p), c.brief);
	} else {
		check_eq(get_be16(p), c.brief);
		check_eq(get_be16(p + 2), format == STRIDX ? c.wqe_counter : 0);
	}
}

/* Array 0 is entry 1, array k entry 8 k; the rest of n entries keeps what it had. */
static void check_layout(const struct cqe_ring *r, uint8_t format, uint32_t i, uint32_t n)
{
	check_title(cqe_ring_at(r, i), i, n);
	for (uint32_t k = 1; k < n; k++)
		if (k != 1 && k % CQE_MINIS)
			check(is_untouched(cqe_ring_at(r, i + k)));
	for (uint32_t j = 0; j < n; j++) {
		uint32_t array = j < CQE_MINIS ? 1 : j / CQE_MINIS * CQE_MINIS;
		const uint8_t *p = (const uint8_t *)cqe_ring_at(r, i + array);

		check_mini(p + j % CQE_MINIS * 8, format, j);
	}
	check(is_untouched(cqe_ring_at(r, i + n)));
}

TEST(title_and_arrays_stand_where_mlx5_has_them)
{
	for (uint32_t size = 64; size <= 128; size += 64)
		for (uint32_t n = 2; n <= CQE_SESSION_MAX; n++)
			for (uint32_t i = CNT - 70; i < CNT + 2; i += 3) {
				struct cqe_ring r = ring_of(memory, size);

				write_run(&r, format_of(n), i, 0, n);
				check_layout(&r, format_of(n), i, n);
			}
}

/* Only the cqe64 of an entry is written, unless entries are padded. */
TEST(first_halves_are_written_for_padding_alone)
{
	for (int padded = 0; padded < 2; padded++) {
		struct cqe_ring r = ring_of(memory, 128);
		struct cqe_session s = { .format = HASH, .padded = padded };

		for (uint32_t j = 0; j < 9; j++)
			cqe_session_add(&s, &(struct cqe){ .opcode = MLX5_CQE_RESP_SEND });
		cqe_session_write(&s, &r, 0);
		for (uint32_t k = 0; k < 10; k++)
			for (uint32_t b = 0; b < 64; b++)
				check_eq(memory[k * 128 + b],
					 padded && (k < 2 || k == 8) ? 0 : UNTOUCHED);
	}
}

/* All entries from @i on, as the device would have written them one by one. */
static void check_singles(const struct cqe_ring *r, uint8_t format, uint32_t i, uint32_t n)
{
	struct cqe_ring other = ring_of(single, r->size);

	for (uint32_t j = 0; j < n; j++) {
		write_run(&other, format, i + j, j, 1);
		check(!memcmp(cqe_ring_at(r, i + j), cqe_ring_at(&other, i + j), 64));
		check(cqe_ours(cqe_ring_at(r, i + j), i + j, CNT));
		check(!cqe_is_title(cqe_ring_at(r, i + j)));
	}
	check(is_untouched(cqe_ring_at(r, i + n)));
}

TEST(an_expanded_session_is_as_if_it_had_never_been_compressed)
{
	for (uint32_t n = 2; n <= CQE_SESSION_MAX; n++)
		for (uint32_t i = CNT - 70; i < CNT + 2; i += 3) {
			struct cqe_ring r = ring_of(memory, n % 3 ? 64 : 128);

			write_run(&r, format_of(n), i, 0, n);
			cqe_session_expand(&r, i, format_of(n));
			check_singles(&r, format_of(n), i, n);
		}
}

TEST(sessions_between_other_entries_are_found)
{
	struct cqe_ring r = ring_of(memory, 64);

	write_run(&r, HASH, 120, 0, 3);
	write_run(&r, HASH, 123, 3, 1);
	write_run(&r, HASH, 124, 4, 20);
	write_run(&r, HASH, 144, 24, 2);
	cqe_session_expand_all(&r, 120, 146, HASH);
	check_singles(&r, HASH, 120, 26);
}

/* What the program has made of its own ring: nothing beyond the ring is touched. */
TEST(a_title_with_a_count_that_cannot_be_is_one_entry)
{
	static const uint32_t counts[] = { 0, 1, CQE_SESSION_MAX + 1, 0x80000000, UINT32_MAX };

	for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
		struct cqe_ring r = ring_of(memory, 64);

		write_run(&r, HASH, 5, 0, 2);
		cqe_ring_at(&r, 5)->byte_cnt = htobe32(counts[k]);
		cqe_session_expand(&r, 5, HASH);
		check(!cqe_is_title(cqe_ring_at(&r, 5)));
		check(is_untouched(cqe_ring_at(&r, 7)));
		check(is_untouched(cqe_ring_at(&r, 4)));
	}
	struct cqe_ring small = { memory, 2, 64 };

	memset(memory, UNTOUCHED, sizeof(memory));
	write_run(&small, HASH, 0, 0, 2);
	cqe_ring_at(&small, 0)->byte_cnt = htobe32(3);
	cqe_session_expand(&small, 0, HASH);
	check(is_untouched((const struct mlx5_cqe64 *)(memory + 128)));
}

/* A session takes what differs in byte count, hash or checksum, and time, and nothing else. */
TEST(what_minis_do_not_carry_must_be_the_same)
{
	struct cqe_session s = { .format = HASH };
	struct cqe c = nth(0), next = nth(1), other;

	cqe_session_add(&s, &c);
	next.timestamp = 99;
	check(cqe_session_takes(&s, &next));
#define REFUSES(field, value)                                                                      \
	do {                                                                                       \
		other = next;                                                                      \
		other.field = value;                                                               \
		check(!cqe_session_takes(&s, &other));                                             \
	} while (0)
	REFUSES(opcode, MLX5_CQE_RESP_SEND_IMM);
	REFUSES(opcode, MLX5_CQE_RESP_ERR);
	REFUSES(uidx, 1);
	REFUSES(qpn, 1);
	REFUSES(src_qp, 1);
	REFUSES(imm, 1);
	REFUSES(vlan, 1);
	REFUSES(solicited, true);
	REFUSES(grh, true);
	REFUSES(l3, 2);
	REFUSES(csum_ok, false);
	REFUSES(hash_type, 0);
	REFUSES(app_op, 2);
	REFUSES(wqe_counter, c.wqe_counter);
	REFUSES(wqe_counter, c.wqe_counter + 2);
}

TEST(receives_without_error_alone_begin_a_session)
{
	struct cqe_session s = { .format = HASH };

	for (uint8_t op = 0; op < 16; op++) {
		struct cqe c = { .opcode = op };

		check_eq(cqe_session_takes(&s, &c), op >= 1 && op <= 4);
		c.app_op = 1;
		check(!cqe_session_takes(&s, &c));
	}
}

TEST(a_session_ends_at_its_limit)
{
	struct cqe_session s = { .format = HASH };
	struct cqe c = nth(0);

	for (uint32_t j = 0; j < CQE_SESSION_MAX; j++) {
		c = nth(j);
		check(cqe_session_takes(&s, &c));
		cqe_session_add(&s, &c);
	}
	c = nth(CQE_SESSION_MAX);
	check(!cqe_session_takes(&s, &c));
}

/* What says its WQE counter itself need not be the next. */
TEST(receives_that_are_apart_join_where_minis_tell_them)
{
	struct cqe_ring r = ring_of(memory, 64);
	struct cqe_session s = { .format = STRIDX };
	struct cqe c = nth(0);

	for (uint16_t j = 0; j < 5; j++) {
		c.wqe_counter = (uint16_t)(j * 7);
		check(cqe_session_takes(&s, &c));
		cqe_session_add(&s, &c);
	}
	cqe_session_write(&s, &r, 0);
	cqe_session_expand(&r, 0, STRIDX);
	for (uint32_t j = 0; j < 5; j++)
		check_eq(be16toh(cqe_ring_at(&r, j)->wqe_counter), j * 7);
}

/* Frames of one WQE of a striding queue, whose strides minis tell. */
TEST(strides_of_one_wqe_join_where_minis_tell_them)
{
	struct cqe_ring r = ring_of(memory, 64);
	struct cqe_session s = { .format = HASH };
	struct cqe c = nth(0), next, other, got;

	c.app_op = CQE_STRIDED;
	check(!cqe_session_takes(&s, &c));
	s.format = CSUM;
	check(!cqe_session_takes(&s, &c));
	s.format = STRIDX;
	for (uint16_t j = 0; j < 3; j++) {
		c.wqe_id = 0x77;
		c.wqe_counter = (uint16_t)(j * 2);
		c.byte_cnt = 100U + j + (2 << CQE_STRIDES_SHIFT);
		check(cqe_session_takes(&s, &c));
		cqe_session_add(&s, &c);
	}
	next = c;
	REFUSES(wqe_id, 0x78);
	REFUSES(app_op, 0);
	cqe_session_write(&s, &r, 0);
	cqe_session_expand(&r, 0, STRIDX);
	for (uint32_t j = 0; j < 3; j++) {
		cqe_read(cqe_ring_at(&r, j), &got);
		check_eq(cqe_wqe_id(cqe_ring_at(&r, j)), 0x77);
		check_eq(got.wqe_counter, j * 2);
		check_eq(got.byte_cnt, 100 + j + (2 << CQE_STRIDES_SHIFT));
		check_eq(got.app_op, 0);
	}
}

RUN_TESTS(unit_test(strides_of_one_wqe_join_where_minis_tell_them),
	  unit_test(receives_that_are_apart_join_where_minis_tell_them),
	  unit_test(title_and_arrays_stand_where_mlx5_has_them),
	  unit_test(first_halves_are_written_for_padding_alone),
	  unit_test(an_expanded_session_is_as_if_it_had_never_been_compressed),
	  unit_test(sessions_between_other_entries_are_found),
	  unit_test(a_title_with_a_count_that_cannot_be_is_one_entry),
	  unit_test(what_minis_do_not_carry_must_be_the_same),
	  unit_test(receives_without_error_alone_begin_a_session),
	  unit_test(a_session_ends_at_its_limit))
