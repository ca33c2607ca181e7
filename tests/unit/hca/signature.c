// SPDX-License-Identifier: MIT
/* Block signatures: streams of every kind against a model that lays out one block after the other,
 * in parts of any sizes; which damage is found, and what is said of it. */
#include "fixture.h"
#include "hca/mkey/signature.h"
#include "util/be.h"
#include "util/rand.h"

enum { BLOCKS = 3, ROOM = 4 * (SIG_BLOCK + SIG_FIELD), APP = 0xabcd };
#define REF 0xfffffffeU /* which counting carries round */

static const uint32_t sizes[] = { 512, 520, 4048, 4096, SIG_BLOCK };
static const enum checksum guards[] = { CHECKSUM_NONE,	CHECKSUM_CRC16,	 CHECKSUM_IP,
					CHECKSUM_CRC32, CHECKSUM_CRC32C, CHECKSUM_CRC64 };

static bool has_tags(enum checksum guard)
{
	return guard == CHECKSUM_CRC16 || guard == CHECKSUM_IP;
}

static struct sig_domain domain(enum checksum guard, uint32_t block, bool ones)
{
	bool half = guard == CHECKSUM_CRC32 || guard == CHECKSUM_CRC32C;

	if (guard == CHECKSUM_NONE)
		return (struct sig_domain){ 0 };
	return (struct sig_domain){ .guard = guard,
				    .ones = ones,
				    .block = block,
				    .field = half ? 4 : 8,
				    .app_tag = APP,
				    .ref_tag = REF,
				    .increment = ones };
}

/* --- the model --- */

static uint64_t guard_of(const struct sig_domain *d, const uint8_t *block)
{
	return checksum_end(d->guard,
			    checksum_more(d->guard, checksum_start(d->ones), block, d->block));
}

static size_t model_field(const struct sig_domain *d, uint64_t number, const uint8_t *block,
			  uint8_t *out)
{
	uint64_t guard = guard_of(d, block);

	if (has_tags(d->guard)) {
		put_be16(out, (uint16_t)guard);
		put_be16(out + 2, APP);
		put_be32(out + 4, REF + (d->increment ? (uint32_t)number : 0));
	} else {
		guard = htole64(guard);
		memcpy(out, &guard, d->field);
	}
	return d->field;
}

static size_t model_stream(const struct sig_domain *d, const uint8_t *data, size_t n, uint8_t *out)
{
	size_t at = 0, done = 0;

	for (; d->field && n - done >= d->block; done += d->block) {
		memcpy(out + at, data + done, d->block);
		at += d->block;
		at += model_field(d, done / d->block, data + done, out + at);
	}
	memcpy(out + at, data + done, n - done);
	return at + n - done;
}

/* --- what is tested, in parts --- */

struct world {
	struct rand r;
	struct signature s;
	size_t data_len, mem_len, wire_len;
	uint8_t data[ROOM], mem[ROOM], wire[ROOM];
	struct sig_error e;
	unsigned int parts; /* largest size; 0: any */
};

static struct world w;

static void make_world(const struct sig_domain *mem, const struct sig_domain *wire, uint64_t seed)
{
	memset(&w, 0, sizeof(w));
	rand_init(&w.r, seed);
	w.s = (struct signature){ *mem, *wire, 0xff, 0 };
	w.data_len = 1 + rand_below(&w.r, BLOCKS * SIG_BLOCK);
	if (mem->block && rand_below(&w.r, 2))
		w.data_len = w.data_len / mem->block * mem->block + mem->block;
	for (size_t i = 0; i < w.data_len; i++)
		w.data[i] = (uint8_t)rand_u64(&w.r);
	w.mem_len = model_stream(mem, w.data, w.data_len, w.mem);
	w.wire_len = model_stream(wire, w.data, w.data_len, w.wire);
}

static uint64_t next_len(uint64_t left)
{
	uint64_t n = 1 + rand_below(&w.r, w.parts ? w.parts : left);

	return n < left ? n : left;
}

static void send_part(uint64_t at, uint64_t n, uint8_t *to)
{
	struct sig_part p = sig_part(&w.s, w.mem_len, at, n, false);
	uint8_t *image = malloc(p.size + 1), *part = malloc(n); /* of the very sizes, for ASan */

	assert_non_null(image);
	assert_non_null(part);
	check_eq(p.load, p.size);
	check(p.image + p.size <= w.mem_len);
	memcpy(image, w.mem + p.image, p.load);
	sig_send(&w.s, &p, image, part, &w.e);
	memcpy(to, part, n);
	free(image);
	free(part);
}

static void send_all(uint8_t *to)
{
	check_eq(sig_wire_len(&w.s, w.mem_len), w.wire_len);
	for (uint64_t at = 0, n; at < w.wire_len; at += n) {
		n = next_len(w.wire_len - at);
		send_part(at, n, to + at);
	}
}

static void receive_all(uint8_t *to)
{
	struct sig_rest rest = { 0 };

	for (uint64_t at = 0, n; at < w.wire_len; at += n) {
		n = next_len(w.wire_len - at);
		struct sig_part p = sig_part(&w.s, w.mem_len, at, n, true);
		uint8_t *image = malloc(p.size + 1);

		assert_non_null(image);
		check(p.image + p.size <= w.mem_len);
		check_eq(p.load, p.skip);
		memcpy(image, to + p.image, p.load);
		sig_receive(&w.s, &p, w.wire + at, image, &rest, &w.e);
		memcpy(to + p.image + p.skip, image + p.skip, p.size - p.skip);
		free(image);
	}
}

static void try_both_ways(void)
{
	static uint8_t wire[ROOM], mem[ROOM];

	memset(wire, 0x55, sizeof(wire));
	memset(mem, 0x55, sizeof(mem));
	send_all(wire);
	assert_memory_equal(wire, w.wire, w.wire_len);
	receive_all(mem);
	assert_memory_equal(mem, w.mem, w.mem_len);
	check_eq(mem[w.mem_len], 0x55);
	check_eq(w.e.wrong, SIG_GOOD);
}

TEST(each_pair_of_domains_with_each_block_size_in_parts_of_any_size)
{
	uint64_t seed = 0;

	for (unsigned int i = 0; i < 6 * 6 * 25; i++) {
		struct sig_domain mem = domain(guards[i % 6], sizes[i / 36 % 5], i & 1);
		struct sig_domain wire = domain(guards[i / 6 % 6], sizes[i / 180], i & 2);

		for (unsigned int k = 0; k < 3; k++) {
			make_world(&mem, &wire, seed++);
			w.parts = k == 0 ? 0 : k == 1 ? 700 : 5000;
			w.s.copy = i & 4 && memcmp(&mem, &wire, sizeof(mem)) == 0 ? 0xff : 0;
			try_both_ways();
		}
	}
}

TEST(parts_that_cut_fields)
{
	for (unsigned int i = 0; i < 36; i++) {
		struct sig_domain mem = domain(guards[i % 6], 512, true);
		struct sig_domain wire = domain(guards[i / 6], 520, false);

		make_world(&mem, &wire, i);
		w.parts = 5;
		try_both_ways();
		wire.block = 512;
		make_world(&mem, &wire, i);
		w.parts = 5;
		try_both_ways();
	}
}

TEST(parts_that_are_sent_again_are_the_same)
{
	static uint8_t part[ROOM];

	for (uint64_t seed = 0; seed < 300; seed++) {
		struct sig_domain mem = domain(guards[seed % 6], sizes[seed % 5], true);
		struct sig_domain wire = domain(guards[seed / 6 % 6], sizes[seed / 5 % 5], true);

		make_world(&mem, &wire, seed);
		uint64_t at = rand_below(&w.r, w.wire_len), n = next_len(w.wire_len - at);

		send_part(at, n, part);
		assert_memory_equal(part, w.wire + at, n);
	}
}

/* --- damage --- */

static void damaged(uint8_t *stream, uint64_t at)
{
	static uint8_t out[ROOM];

	stream[at] ^= (uint8_t)(1U << rand_below(&w.r, 8));
	w.e = (struct sig_error){ 0 };
	if (stream == w.mem)
		send_all(out);
	else
		receive_all(out);
}

static void want_error(const struct sig_domain *d, bool on_wire, uint64_t block, uint64_t in)
{
	const uint8_t *stream = on_wire ? w.wire : w.mem;
	uint64_t start = block * (d->block + d->field);
	const uint8_t *field = stream + start + d->block;
	uint8_t want[SIG_FIELD];
	enum sig_wrong wrong = SIG_GUARD;

	model_field(d, block, stream + start, want);
	if (has_tags(d->guard) && in >= d->block + 2)
		wrong = in < d->block + 4 ? SIG_APP_TAG : SIG_REF_TAG;
	check_eq(w.e.wrong, wrong);
	check_eq(w.e.on_wire, on_wire);
	check_eq(w.e.offset, start);
	if (wrong == SIG_GUARD) {
		check_eq(w.e.actual, guard_of(d, stream + start));
		check_eq(w.e.expected, has_tags(d->guard) ? get_be16(field)
				       : d->field == 4	  ? le32toh(*(const uint32_t *)field)
							  : le64toh(*(const uint64_t *)field));
	} else if (wrong == SIG_APP_TAG) {
		check_eq(w.e.actual, APP);
		check_eq(w.e.expected, get_be16(field + 2));
	} else {
		check_eq(w.e.actual, get_be32(want + 4));
		check_eq(w.e.expected, get_be32(field + 4));
	}
}

static void try_damage(uint64_t seed, bool on_wire)
{
	struct sig_domain d = domain(guards[1 + seed % 5], sizes[seed / 5 % 5], seed & 1);
	struct sig_domain other = domain(guards[seed / 7 % 6], sizes[seed % 5], seed & 2);
	uint64_t block, in, pitch = d.block + d.field;

	if (on_wire)
		make_world(&other, &d, seed);
	else
		make_world(&d, &other, seed);
	w.parts = seed & 4 ? 900 : 0;
	if ((on_wire ? w.wire_len : w.mem_len) < pitch)
		return;
	block = rand_below(&w.r, (on_wire ? w.wire_len : w.mem_len) / pitch);
	/* as often in the field as in the data */
	in = seed & 8 ? d.block + rand_below(&w.r, d.field) : rand_below(&w.r, d.block);
	damaged(on_wire ? w.wire : w.mem, block * pitch + in);
	want_error(&d, on_wire, block, in);
}

TEST(one_damaged_bit_is_found_in_its_block_with_its_values)
{
	for (uint64_t seed = 0; seed < 1500; seed++)
		try_damage(seed, seed / 16 % 2);
}

TEST(of_several_errors_the_first_in_the_order_of_guard_application_and_reference_tag)
{
	struct sig_domain d = domain(CHECKSUM_CRC16, 512, true), none = { 0 };

	do
		make_world(&d, &none, rand_u64(&w.r));
	while (w.data_len < 1024);
	memset(w.mem + 520 + 514, 0, 6); /* both tags of the second block */
	damaged(w.mem, 520 + 518);
	check_eq(w.e.wrong, SIG_APP_TAG);
	check_eq(w.e.offset, 520);
	damaged(w.mem, 520 + 3);
	check_eq(w.e.wrong, SIG_GUARD);
	damaged(w.mem, 519); /* an earlier block, of which only the last tag is wrong */
	check_eq(w.e.wrong, SIG_REF_TAG);
	check_eq(w.e.offset, 0);
}

TEST(only_bytes_of_the_check_mask_are_checked)
{
	struct sig_domain d = domain(CHECKSUM_CRC16, 512, true), none = { 0 };

	for (unsigned int i = 0; i < SIG_FIELD; i++) {
		do
			make_world(&none, &d, rand_u64(&w.r));
		while (w.data_len < 512);
		w.s.check = (uint8_t) ~(0x80U >> i);
		damaged(w.wire, 512 + i);
		check_eq(w.e.wrong, SIG_GOOD);
		w.s.check = (uint8_t)(0x80U >> i);
		damaged(w.wire, 512 + i);
		damaged(w.wire, 512 + i);
		damaged(w.wire, 512 + i);
		if (!w.e.wrong) /* the same bit twice */
			damaged(w.wire, 512 + i);
		check(w.e.wrong != SIG_GOOD);
	}
}

/* The tags of a field, whether each flag is set, whether it is checked nevertheless */
TEST(escapes)
{
	static const struct {
		uint16_t app;
		uint32_t ref;
		bool app_escape, ref_escape, checked;
	} rows[] = {
		{ 0xffff, REF, false, false, true },
		{ 0xffff, REF, true, false, false },
		{ 0xffff, REF, false, true, true },
		{ 0xffff, UINT32_MAX, false, true, false },
		{ 0xfffe, UINT32_MAX, true, true, true },
		{ 0xffff, UINT32_MAX, true, true, false },
		{ 0xffff, UINT32_MAX, false, false, true },
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct sig_domain d = domain(CHECKSUM_IP, 520, false), none = { 0 };

		d.app_escape = rows[i].app_escape;
		d.ref_escape = rows[i].ref_escape;
		do
			make_world(&d, &none, i + rand_u64(&w.r));
		while (w.data_len < 520);
		put_be16(w.mem + 522, rows[i].app);
		put_be32(w.mem + 524, rows[i].ref);
		damaged(w.mem, 0);
		check_eq(w.e.wrong, rows[i].checked ? SIG_GUARD : SIG_GOOD);
	}
}

TEST(bytes_of_the_copy_mask_are_taken_over_and_the_others_computed)
{
	struct sig_domain d = domain(CHECKSUM_CRC16, 512, true), other = d;
	static uint8_t out[ROOM];

	other.app_tag = 0x1234;
	for (unsigned int copy = 0; copy < 256; copy += 15) {
		do
			make_world(&d, &other, copy + rand_u64(&w.r));
		while (w.data_len < 512);
		w.s.copy = (uint8_t)copy;
		w.s.check = 0;
		w.parts = 300;
		memset(w.mem + 512, 0x77, 8);
		send_all(out);
		for (unsigned int i = 0; i < 8; i++) {
			uint8_t made = i == 2 ? 0x12 : i == 3 ? 0x34 : w.wire[512 + i];

			check_eq(out[512 + i], copy & 0x80U >> i ? 0x77 : made);
		}
		memset(w.wire + 512, 0x66, 8);
		make_world(&d, &other, 99);
		w.s.copy = (uint8_t)copy;
		memset(w.wire + 512, 0x66, 8);
		receive_all(out);
		for (unsigned int i = 0; w.data_len >= 512 && i < 8; i++)
			check_eq(out[512 + i], copy & 0x80U >> i ? 0x66 : w.mem[512 + i]);
	}
}

/* Memory that ends within a field */
TEST(a_field_that_memory_cuts_is_none)
{
	struct sig_domain d = domain(CHECKSUM_CRC64, 512, true);
	struct sig_domain wires[] = { { 0 }, domain(CHECKSUM_CRC32, 520, true), d };
	static uint8_t mem[ROOM], wire[ROOM];

	for (unsigned int i = 0; i < 3; i++)
		for (unsigned int cut = 1; cut < 8; cut++) {
			make_world(&d, &wires[i], cut);
			w.data_len = 1024;
			w.mem_len = model_stream(&d, w.data, 1024, w.mem) - cut;
			w.wire_len = model_stream(&wires[i], w.data, 1024, w.wire);
			w.parts = 600;
			send_all(wire);
			assert_memory_equal(wire, w.wire, w.wire_len);
			memset(mem, 0x55, sizeof(mem));
			receive_all(mem);
			assert_memory_equal(mem, w.mem, 520 + 512);
			check_eq(mem[w.mem_len], 0x55);
			check_eq(w.e.wrong, SIG_GOOD);
		}
}

static void parts_need_little(const struct signature *s, uint64_t mem, bool store)
{
	uint64_t wire = sig_wire_len(s, mem);

	for (uint64_t at = 0; at < wire; at++)
		for (uint64_t n = 1; n < 12 && at + n <= wire; n++) {
			struct sig_part p = sig_part(s, mem, at, n, store);

			check(p.skip <= p.size && p.load <= p.size);
			check(p.size <= 512 + 2 * SIG_FIELD + n);
			check(p.image + p.size <= mem);
		}
}

/* Whatever part is asked for, alone: it never needs more than a block and its fields beside it. */
TEST(parts_at_the_end_of_memory_need_little)
{
	static const enum checksum some[] = { CHECKSUM_NONE, CHECKSUM_CRC16, CHECKSUM_CRC32 };
	struct signature s = { 0 };

	for (unsigned int k = 0; k < 9; k++) {
		s.mem = domain(some[k / 3], 512, true);
		s.wire = domain(some[k % 3], 512, false);
		for (uint64_t mem = 500; mem < 532; mem++) {
			parts_need_little(&s, mem, true);
			parts_need_little(&s, mem, false);
		}
	}
}

RUN_TESTS(
	unit_test(each_pair_of_domains_with_each_block_size_in_parts_of_any_size),
	unit_test(parts_that_cut_fields), unit_test(parts_that_are_sent_again_are_the_same),
	unit_test(one_damaged_bit_is_found_in_its_block_with_its_values),
	unit_test(of_several_errors_the_first_in_the_order_of_guard_application_and_reference_tag),
	unit_test(only_bytes_of_the_check_mask_are_checked), unit_test(escapes),
	unit_test(bytes_of_the_copy_mask_are_taken_over_and_the_others_computed),
	unit_test(a_field_that_memory_cuts_is_none),
	unit_test(parts_at_the_end_of_memory_need_little))
