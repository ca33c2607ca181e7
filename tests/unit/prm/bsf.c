// SPDX-License-Identifier: MIT
/* Signatures in mlx5's format: what is written reads back, and what cannot be right is refused. */
#include "prm/bsf.h"
#include <string.h>
#include "test.h"
#include "util/be.h"
#include "util/rand.h"

static const uint32_t sizes[] = { 512, 520, 4048, 4096, 4160 };

static struct sig_domain domain(struct rand *r)
{
	struct sig_domain d = { .guard = (enum checksum)rand_below(r, 6),
				.block = sizes[rand_below(r, 5)] };

	d.field = bsf_field(d.guard);
	if (d.guard == CHECKSUM_NONE)
		return (struct sig_domain){ 0 };
	d.ones = rand_below(r, 2);
	if (!sig_has_tags(&d))
		return d;
	d.app_tag = (uint16_t)rand_u64(r);
	d.ref_tag = (uint32_t)rand_u64(r);
	d.increment = rand_below(r, 2);
	d.app_escape = rand_below(r, 2);
	d.ref_escape = rand_below(r, 2);
	return d;
}

static void same_domain(const struct sig_domain *a, const struct sig_domain *b)
{
	check_eq(a->guard, b->guard);
	check_eq(a->ones, b->ones);
	check_eq(a->block, b->block);
	check_eq(a->field, b->field);
	check_eq(a->app_tag, b->app_tag);
	check_eq(a->ref_tag, b->ref_tag);
	check_eq(a->increment, b->increment);
	check_eq(a->app_escape, b->app_escape);
	check_eq(a->ref_escape, b->ref_escape);
}

TEST(what_is_written_reads_back)
{
	uint8_t buf[BSF_LEN];
	struct signature out;
	struct rand r;

	rand_init(&r, 3);
	for (unsigned int i = 0; i < 2000; i++) {
		struct signature s = { .mem = domain(&r), .wire = domain(&r) };

		s.check = (uint8_t)rand_u64(&r);
		if (sig_same_places(&s))
			s.copy = (uint8_t)rand_u64(&r);
		bsf_write(buf, &s);
		check(bsf_parse(buf, &out) == NULL);
		same_domain(&out.mem, &s.mem);
		same_domain(&out.wire, &s.wire);
		check_eq(out.check, s.check);
		check_eq(out.copy, s.copy);
	}
}

/* The bytes of an adapter's format: CRC32C of 512 B blocks in memory, T10-DIF of 4096 B on the
 * wire */
TEST(the_bytes_are_those_of_the_format)
{
	struct signature s = {
		.mem = { .guard = CHECKSUM_CRC32C, .block = 512, .field = 4, .ones = true },
		.wire = { .guard = CHECKSUM_IP,
			  .block = 4096,
			  .field = 8,
			  .app_tag = 0x1234,
			  .ref_tag = 0x89abcdef,
			  .increment = true,
			  .ref_escape = true },
		.check = 0xf0,
	};
	uint8_t want[BSF_LEN] = { 0x80, 0xf0, 3, 1, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0x42 };
	static const uint8_t dif[16] = { 0xc0, 0,    0x12, 0x34, 0x89, 0xab, 0xcd, 0xef,
					 2,    0x80, 0,	   0,	 0,    0x42, 0xff, 0xff };
	uint8_t buf[BSF_LEN];

	memcpy(want + 32, dif, sizeof(dif));
	bsf_write(buf, &s);
	assert_memory_equal(buf, want, BSF_LEN);
}

TEST(what_is_not_built_or_cannot_be_is_refused)
{
	static const struct {
		unsigned int at;
		uint8_t value;
	} rows[] = {
		{ 0, 0 }, /* another size */
		{ 0, 0x90 }, /* the same places, but the domains differ */
		{ 2, 0 }, /* block selectors */
		{ 2, 5 },     { 3, 7 },	 { 12, 0x40 }, /* a CRC of the whole message */
		{ 12, 0x62 }, /* a format that is none */
		{ 40, 0 }, /* the kind of T10-DIF's guard */
		{ 40, 3 },    { 41, 0 }, /* T10-DIF of the whole message */
		{ 47, 0xfe }, /* a mask of the application tag's bits */
	};
	struct signature out, s = {
		.mem = { .guard = CHECKSUM_CRC32C, .block = 512, .field = 4 },
		.wire = { .guard = CHECKSUM_CRC16, .block = 520, .field = 8 },
	};
	uint8_t buf[BSF_LEN];

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		bsf_write(buf, &s);
		check(bsf_parse(buf, &out) == NULL);
		buf[rows[i].at] = rows[i].value;
		check(bsf_parse(buf, &out) != NULL);
	}
}

TEST(garbage_names_block_sizes_of_the_format)
{
	uint8_t buf[BSF_LEN];
	struct signature out;
	struct rand r;

	rand_init(&r, 8);
	for (unsigned int i = 0, good = 0; i < 20000 || !good; i++) {
		for (unsigned int k = 0; k < BSF_LEN; k++)
			buf[k] = (uint8_t)(rand_u64(&r) & rand_u64(&r));
		buf[0] = 0x80;
		if (bsf_parse(buf, &out))
			continue;
		good++;
		check(!out.mem.field || out.mem.block >= 512);
		check(!out.wire.field || (out.wire.block >= 512 && out.wire.block <= 4160));
	}
}

RUN_TESTS(unit_test(what_is_written_reads_back), unit_test(the_bytes_are_those_of_the_format),
	  unit_test(what_is_not_built_or_cannot_be_is_refused),
	  unit_test(garbage_names_block_sizes_of_the_format))
