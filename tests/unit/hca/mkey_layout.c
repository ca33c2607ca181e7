// SPDX-License-Identifier: MIT
/* Indirect keys: lists and interleaved patterns of other keys, nested, against a model that names
 * each byte's address; and what a key beneath may refuse. */
#include "fixture.h"
#include "hca/mkey/mkey_layout.h"
#include "util/quiesce.h"
#include "util/rand.h"

enum { PDN = 7, KEYS = 32, PARTS = 5, TIMES = 4, REGION = 0x1000, BASE = 0x700000 };
#define VA     0x40000UL /* the first address of the region and of each indirect key */
#define ALL    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define ATOMIC IBV_ACCESS_REMOTE_ATOMIC

/* A key and the address of each byte that it covers */
struct model {
	struct mkey_layout *layout; /* NULL: a flat region */
	uint32_t key, leaf; /* leaf: the region beneath all of it */
	uint64_t len;
	uint64_t *at;
};

static struct key_table *table(void)
{
	struct key_table *t;

	check_eq(fork_init(), 0);
	check_eq(key_table_create(NULL, KEYS, &t), 0);
	return t;
}

static uint32_t flat(struct key_table *t, uint32_t pdn, unsigned int access)
{
	struct key_entry e = { .pdn = pdn,
			       .access = access,
			       .flags = KEY_DIRECT,
			       .iova = VA,
			       .len = REGION,
			       .addr = BASE };
	uint32_t key;

	check_eq(key_add(t, &e, NULL, &key), 0);
	return key;
}

static uint32_t indirect(struct key_table *t, struct mkey_layout *l)
{
	struct key_entry e = { .pdn = PDN,
			       .access = ALL | ATOMIC,
			       .flags = KEY_INDIRECT,
			       .iova = VA,
			       .addr = (uintptr_t)l };
	uint32_t key;

	check(mkey_layout_seal(l, &e.len));
	check_eq(key_add(t, &e, NULL, &key), 0);
	return key;
}

static struct mkey_layout *blank(uint32_t n, uint64_t times)
{
	struct mkey_layout *l = calloc(1, sizeof(*l) + n * sizeof(l->part[0]));

	assert_non_null(l);
	l->n = n;
	l->times = times;
	return l;
}

/* One part of @key */
static struct mkey_layout *part_of(uint32_t key, uint64_t va, uint64_t len)
{
	struct mkey_layout *l = blank(1, 1);

	l->part[0] = (struct mkey_part){ .va = va, .len = len, .key = key };
	return l;
}

static void drop(struct key_table *t, uint32_t key, struct mkey_layout *l)
{
	key_remove(t, key);
	free(l);
}

static struct model region(struct key_table *t)
{
	struct model m = { .key = flat(t, PDN, ALL), .len = REGION };

	m.leaf = m.key;
	m.at = calloc(REGION, sizeof(*m.at));
	assert_non_null(m.at);
	for (uint64_t i = 0; i < REGION; i++)
		m.at[i] = BASE + i;
	return m;
}

/* A part that lies within @under however often it is taken */
static struct mkey_part any_part(struct rand *r, const struct model *under, uint64_t times)
{
	uint64_t room = under->len / times, stride = rand_below(r, room + 1);
	uint64_t len = rand_below(r, stride > 40 || !stride ? 40 : stride + 1);

	if (len > room)
		len = room;
	return (struct mkey_part){ .va = VA + rand_below(r, room - len + 1),
				   .len = len,
				   .stride = stride,
				   .key = under->key };
}

/* A list or a pattern of parts of @under */
static struct model above(struct key_table *t, struct rand *r, const struct model *under)
{
	uint32_t n = 1 + (uint32_t)rand_below(r, PARTS);
	struct model m = { .leaf = under->leaf, .layout = blank(n, 1 + rand_below(r, TIMES)) };
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < n; i++)
		bytes += (m.layout->part[i] = any_part(r, under, m.layout->times)).len;
	if (!bytes)
		m.layout->part[0] = (struct mkey_part){ .va = VA, .len = 1, .key = under->key };
	m.key = indirect(t, m.layout);
	m.at = calloc(m.layout->period * m.layout->times, sizeof(*m.at));
	assert_non_null(m.at);
	for (uint64_t time = 0; time < m.layout->times; time++)
		for (uint32_t i = 0; i < n; i++)
			for (uint64_t b = 0; b < m.layout->part[i].len; b++)
				m.at[m.len++] = under->at[m.layout->part[i].va - VA + b +
							  time * m.layout->part[i].stride];
	return m;
}

/* The bytes [@off, @off + @len), span by span */
static void walk(const struct key_table *t, const struct model *m, uint64_t off, uint64_t len)
{
	struct key_ask ask = { m->key, PDN, VA + off, len, IBV_ACCESS_REMOTE_WRITE, 0 };
	uint64_t addr;
	uint32_t key;
	struct span s;

	check_eq(key_check(t, &ask, &addr), m->layout ? KEY_APART : KEY_OK);
	while (ask.len) {
		check_eq(key_span(t, &ask, &s, &key), KEY_OK);
		check_eq(key, m->leaf);
		check(s.len && s.len <= ask.len);
		for (uint64_t i = 0; i < s.len; i++)
			check_eq(s.addr + i, m->at[ask.va - VA + i]);
		ask.va += s.len;
		ask.len -= s.len;
	}
}

static void try_tower(uint64_t seed)
{
	struct key_table *t = table();
	struct model m[1 + KEY_DEPTH];
	struct rand r;

	rand_init(&r, seed);
	m[0] = region(t);
	for (unsigned int i = 1; i <= KEY_DEPTH; i++)
		m[i] = above(t, &r, &m[i - 1]);
	quiesce_enter();
	for (unsigned int i = 1; i <= KEY_DEPTH; i++)
		for (unsigned int n = 0; n < 40; n++) {
			uint64_t off = rand_below(&r, m[i].len);

			walk(t, &m[i], off, 1 + rand_below(&r, m[i].len - off));
		}
	quiesce_exit();
	for (unsigned int i = 0; i <= KEY_DEPTH; i++) {
		drop(t, m[i].key, m[i].layout);
		free(m[i].at);
	}
	key_table_destroy(t);
}

TEST(every_byte_of_lists_and_patterns_is_found_however_they_are_nested)
{
	for (uint64_t seed = 0; seed < 100; seed++)
		try_tower(seed);
}

TEST(a_pattern_takes_the_next_place_each_time)
{
	struct mkey_layout *l = blank(2, 3);
	struct mkey_step s;
	uint64_t len;

	l->part[0] = (struct mkey_part){ .va = 1000, .len = 8, .stride = 10, .key = 1 };
	l->part[1] = (struct mkey_part){ .va = 5000, .len = 2, .stride = 0, .key = 2 };
	check(mkey_layout_seal(l, &len));
	check_eq(len, 30);
	s = mkey_layout_find(l, 23, 100);
	check_eq(s.va, 1000 + 2 * 10 + 3);
	check_eq(s.len, 5);
	check_eq(s.key, 1);
	s = mkey_layout_find(l, 29, 1);
	check_eq(s.va, 5001);
	check_eq(s.key, 2);
	free(l);
}

TEST(a_layout_without_bytes_or_with_too_many_is_none)
{
	struct mkey_layout *l = blank(2, 1);
	uint64_t len;

	check(!mkey_layout_seal(l, &len));
	l->part[1].len = 1;
	check(mkey_layout_seal(l, &len));
	check_eq(mkey_layout_find(l, 0, 1).len, 1);
	l->times = 0;
	check(!mkey_layout_seal(l, &len));
	l->times = 2;
	l->part[0].len = 1ULL << 63;
	check(!mkey_layout_seal(l, &len));
	l->times = 1;
	l->part[1].len = 1ULL << 63;
	check(!mkey_layout_seal(l, &len));
	free(l);
}

static enum key_verdict verdict(const struct key_table *t, uint32_t key, unsigned int need)
{
	struct key_ask ask = { key, PDN, VA, 16, need, 0 };
	enum key_verdict v;
	uint64_t addr;

	quiesce_enter();
	v = key_check(t, &ask, &addr);
	quiesce_exit();
	return v;
}

static enum key_verdict through(struct key_table *t, uint32_t key, uint64_t va, unsigned int need)
{
	struct mkey_layout *l = part_of(key, va, 16);
	uint32_t top = indirect(t, l);
	enum key_verdict v = verdict(t, top, need);

	drop(t, top, l);
	return v;
}

TEST(what_a_key_beneath_does_not_allow_is_refused)
{
	struct key_table *t = table();
	uint32_t all = flat(t, PDN, ALL), other = flat(t, PDN + 1, ALL), read = flat(t, PDN, 0);
	struct key_entry window = { .pdn = PDN,
				    .access = ALL,
				    .flags = KEY_WINDOW | KEY_BOUND,
				    .iova = VA,
				    .len = REGION,
				    .addr = BASE };
	uint32_t bound;

	check_eq(key_add(t, &window, NULL, &bound), 0);
	check_eq(through(t, all, VA, IBV_ACCESS_REMOTE_WRITE), KEY_APART);
	check_eq(through(t, all, VA + REGION - 16, 0), KEY_APART);
	check_eq(through(t, all, VA + REGION - 15, 0), KEY_BENEATH);
	check_eq(through(t, all, VA - 1, 0), KEY_BENEATH);
	check_eq(through(t, other, VA, 0), KEY_BENEATH);
	check_eq(through(t, bound, VA, IBV_ACCESS_REMOTE_READ), KEY_BENEATH);
	check_eq(through(t, all ^ 1, VA, 0), KEY_BENEATH);
	/* the rights of peers are the indirect key's; to store, the key beneath needs its own */
	check_eq(through(t, read, VA, IBV_ACCESS_REMOTE_READ), KEY_APART);
	check_eq(through(t, read, VA, 0), KEY_APART);
	check_eq(through(t, read, VA, IBV_ACCESS_REMOTE_WRITE), KEY_BENEATH);
	check_eq(through(t, read, VA, IBV_ACCESS_LOCAL_WRITE), KEY_BENEATH);
	check_eq(through(t, read, VA, ATOMIC), KEY_BENEATH);
	check_eq(through(t, all, VA, ATOMIC), KEY_OK);
	key_table_destroy(t);
}

TEST(a_region_that_went_away_is_refused_and_named)
{
	struct key_table *t = table();
	uint32_t below = flat(t, PDN, ALL);
	struct mkey_layout *l = part_of(below, VA, 16);
	struct key_ask ask = { indirect(t, l), PDN, VA, 16, 0, 0 };
	char text[200], want[20];

	check_eq(verdict(t, ask.key, 0), KEY_APART);
	key_remove(t, below);
	check_eq(verdict(t, ask.key, 0), KEY_BENEATH);
	quiesce_enter();
	key_describe(t, KEY_BENEATH, &ask, text, sizeof(text));
	quiesce_exit();
	snprintf(want, sizeof(want), "lkey 0x%x names", below);
	check(strstr(text, want) != NULL);
	drop(t, ask.key, l);
	key_table_destroy(t);
}

TEST(keys_are_followed_so_deep_and_no_deeper)
{
	struct key_table *t = table();
	struct mkey_layout *l[1 + KEY_DEPTH];
	uint32_t key[2 + KEY_DEPTH];

	key[0] = flat(t, PDN, ALL);
	for (unsigned int i = 0; i <= KEY_DEPTH; i++) {
		l[i] = part_of(key[i], VA, 16);
		key[i + 1] = indirect(t, l[i]);
		check_eq(verdict(t, key[i + 1], 0), i < KEY_DEPTH ? KEY_APART : KEY_DEPTHS);
	}
	l[0]->part[0].key = key[2]; /* a circle */
	check_eq(verdict(t, key[1], 0), KEY_DEPTHS);
	check_eq(verdict(t, key[2], 0), KEY_DEPTHS);
	for (unsigned int i = 0; i <= KEY_DEPTH; i++)
		drop(t, key[i + 1], l[i]);
	key_table_destroy(t);
}

TEST(what_an_indirect_key_covers_is_fleeting)
{
	struct key_table *t = table();
	uint32_t below = flat(t, PDN, ALL);
	struct mkey_layout *l = part_of(below, VA, 16);
	uint32_t top = indirect(t, l);

	quiesce_enter();
	check(key_is_fleeting(t, top));
	check(!key_is_fleeting(t, below));
	quiesce_exit();
	drop(t, top, l);
	key_table_destroy(t);
}

RUN_TESTS(unit_test(every_byte_of_lists_and_patterns_is_found_however_they_are_nested),
	  unit_test(a_pattern_takes_the_next_place_each_time),
	  unit_test(a_layout_without_bytes_or_with_too_many_is_none),
	  unit_test(what_a_key_beneath_does_not_allow_is_refused),
	  unit_test(a_region_that_went_away_is_refused_and_named),
	  unit_test(keys_are_followed_so_deep_and_no_deeper),
	  unit_test(what_an_indirect_key_covers_is_fleeting))
