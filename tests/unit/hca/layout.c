// SPDX-License-Identifier: MIT
/* Layouts: every offset and length of a key, against a model that names each byte's address. */
#include "fixture.h"
#include "util/quiesce.h"

enum { BYTES = 24, IOVA = 0x1000 };
#define LW IBV_ACCESS_LOCAL_WRITE
#define RW IBV_ACCESS_REMOTE_WRITE

/* Three spans, one of a single byte, the last lower than the others */
static const struct span list[] = { { 0x5000, 7 }, { 0x9000, 1 }, { 0x100, 16 } };

static uint64_t list_address(uint64_t off)
{
	return off < 7 ? 0x5000 + off : off < 8 ? 0x9000 : 0x100 + off - 8;
}

static uint64_t flat_address(uint64_t off)
{
	return 0x700000 + off;
}

static uint64_t sink_address(uint64_t off)
{
	(void)off;
	return 0xbbb000;
}

static const struct layout_case {
	const char *name;
	struct key_entry e;
	uint64_t (*address)(uint64_t off); /* of each span's first byte */
	unsigned int need, spans; /* of the whole */
} cases[] = {
	{ "flat", { 7, 7, LW, KEY_DIRECT, IOVA, BYTES, 0x700000 }, flat_address, LW, 1 },
	{ "zero based", { 7, 7, LW, KEY_DIRECT, 0, BYTES, 0x700000 }, flat_address, LW, 1 },
	{ "window",
	  { 7, 7, RW, KEY_WINDOW | KEY_BOUND, IOVA, BYTES, 0x700000 },
	  flat_address,
	  RW,
	  1 },
	{ "null", { 7, 7, LW, KEY_NULL, 0xbbb000, BYTES, 0xaaa000 }, sink_address, LW, 1 },
	{ "list", { 7, 7, LW, KEY_LIST, IOVA, BYTES, 0 }, list_address, LW, 3 },
};

/* The spans of [@off, @off + @len), each compared; their number. */
static unsigned int walk(const struct key_table *t, const struct layout_case *c, uint32_t key,
			 uint64_t off, uint64_t len)
{
	struct key_ask ask = { key, 7, c->e.iova + off, len, c->need };
	unsigned int n = 0;
	uint64_t addr;
	uint32_t under;
	struct span s;

	for (; ask.len; ask.va += s.len, ask.len -= s.len, n++) {
		uint64_t at = ask.va - c->e.iova;
		enum key_verdict v = key_check(t, &ask, &addr);

		s = (struct span){ addr, ask.len };
		if (v == KEY_APART) {
			check_eq(key_span(t, &ask, &s, &under), KEY_OK);
			check_eq(under, key);
		}
		check(v == KEY_OK || (v == KEY_APART && s.len < ask.len));
		check(s.len > 0);
		check_eq(s.addr, addr);
		check_eq(s.addr, c->address(at));
		if (c->address != sink_address)
			check_eq(s.addr + s.len - 1, c->address(at + s.len - 1));
	}
	return n;
}

static void try_all(const struct layout_case *c)
{
	struct key_entry e = c->e;
	struct key_table *t;
	uint32_t key;

	check_eq(fork_init(), 0);
	check_eq(key_table_create(NULL, 4, &t), 0);
	if (layout_of(e.flags) == LAYOUT_LIST)
		e.addr = (uintptr_t)list;
	check_eq(key_add(t, &e, NULL, &key), 0);
	quiesce_enter();
	for (uint64_t off = 0; off < BYTES; off++)
		for (uint64_t len = 1; off + len <= BYTES; len++)
			check(walk(t, c, key, off, len) <= c->spans);
	check_eq(walk(t, c, key, 0, BYTES), c->spans);
	quiesce_exit();
	key_remove(t, key);
	key_table_destroy(t);
}

TEST(every_part_of_every_layout_is_found)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		try_all(&cases[i]);
}

TEST(a_list_ends_where_its_entry_says)
{
	struct key_entry e = { .pdn = 7,
			       .access = LW,
			       .flags = KEY_LIST,
			       .iova = IOVA,
			       .len = BYTES,
			       .addr = (uintptr_t)list };
	struct key_ask ask = { .pdn = 7, .need = LW };
	struct key_table *t;
	uint64_t addr;

	check_eq(fork_init(), 0);
	check_eq(key_table_create(NULL, 4, &t), 0);
	check_eq(key_add(t, &e, NULL, &ask.key), 0);
	quiesce_enter();
	ask.va = IOVA + BYTES - 1;
	ask.len = 2;
	check_eq(key_check(t, &ask, &addr), KEY_RANGE);
	ask.va = IOVA - 1;
	check_eq(key_check(t, &ask, &addr), KEY_RANGE);
	ask.va = IOVA;
	ask.need = RW;
	check_eq(key_check(t, &ask, &addr), KEY_NO_RIGHT);
	quiesce_exit();
	key_table_destroy(t);
}

TEST(the_null_layout_reads_at_one_place_and_writes_at_another)
{
	struct key_entry e = { .flags = KEY_NULL, .iova = 0xbbb000, .len = 64, .addr = 0xaaa000 };

	check_eq(layout_span(&e, 1234, 64, false).addr, 0xaaa000);
	check_eq(layout_span(&e, 1234, 64, true).addr, 0xbbb000);
}

RUN_TESTS(unit_test(every_part_of_every_layout_is_found),
	  unit_test(a_list_ends_where_its_entry_says),
	  unit_test(the_null_layout_reads_at_one_place_and_writes_at_another))
