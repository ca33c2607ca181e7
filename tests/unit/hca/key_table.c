// SPDX-License-Identifier: MIT
#include "fixture.h"
#include <pthread.h>
#include <sched.h>
#include "util/barrier.h"
#include "util/quiesce.h"

#define RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static const struct key_entry entry = { .pdn = 7,
					.access = RIGHTS,
					.flags = KEY_DIRECT,
					.iova = 0x10000,
					.len = 4096,
					.addr = 0x700000 };

static struct key_table *table(uint32_t n)
{
	struct key_table *t;

	check_eq(fork_init(), 0);
	check_eq(key_table_create(NULL, n, &t), 0);
	return t;
}

static enum key_verdict ask(const struct key_table *t, uint32_t key, uint64_t va, uint64_t len,
			    uint64_t *addr)
{
	const struct key_ask a = { key, entry.pdn, va, len, IBV_ACCESS_REMOTE_WRITE };
	enum key_verdict v;

	quiesce_enter();
	v = key_check(t, &a, addr);
	quiesce_exit();
	return v;
}

TEST(only_the_exact_key_is_valid)
{
	struct key_table *t = table(64);
	uint64_t addr;

	for (int i = 0; i < 1000; i++) {
		uint32_t key;

		check_eq(key_add(t, &entry, NULL, &key), 0);
		check_ne(key, 0);
		check_ne(key & 0xff, 0);
		check_eq(ask(t, key, 0x10000, 1, &addr), KEY_OK);
		check_eq(addr, 0x700000);
		check_eq(ask(t, key + 1, 0x10000, 1, &addr), KEY_UNKNOWN);
		check_eq(ask(t, key - 1, 0x10000, 1, &addr), KEY_UNKNOWN);
		check_eq(ask(t, key + (64 << 8), 0x10000, 1, &addr), KEY_UNKNOWN);
		key_remove(t, key);
		check_eq(ask(t, key, 0x10000, 1, &addr), KEY_UNKNOWN);
	}
	check_eq(ask(t, 0, 0x10000, 1, &addr), KEY_UNKNOWN);
	check_eq(ask(t, UINT32_MAX, 0x10000, 1, &addr), KEY_UNKNOWN);
	key_table_destroy(t);
}

TEST(a_stale_key_stays_invalid_when_its_place_is_taken_again)
{
	struct key_table *t = table(1);
	uint32_t key, next;
	uint64_t addr;

	check_eq(key_add(t, &entry, NULL, &key), 0);
	for (int i = 0; i < 2000; i++) {
		key_remove(t, key);
		check_eq(key_add(t, &entry, NULL, &next), 0);
		check_ne(next, key);
		check_eq(ask(t, key, 0x10000, 1, &addr), KEY_UNKNOWN);
		key = next;
	}
	key_table_destroy(t);
}

TEST(ranges_are_exact_and_do_not_wrap)
{
	struct key_table *t = table(4);
	uint64_t addr;
	uint32_t key;

	check_eq(key_add(t, &entry, NULL, &key), 0);
	check_eq(ask(t, key, 0x10000, 4096, &addr), KEY_OK);
	check_eq(ask(t, key, 0x10fff, 1, &addr), KEY_OK);
	check_eq(addr, 0x700fff);
	check_eq(ask(t, key, 0x10000, 4097, &addr), KEY_RANGE);
	check_eq(ask(t, key, 0x11000, 1, &addr), KEY_RANGE);
	check_eq(ask(t, key, 0xffff, 1, &addr), KEY_RANGE);
	check_eq(ask(t, key, 0x10800, UINT64_MAX, &addr), KEY_RANGE);
	check_eq(ask(t, key, 0x10800, -0x800ULL, &addr), KEY_RANGE);
	check_eq(ask(t, key, UINT64_MAX, 0x10002, &addr), KEY_RANGE);
	check_eq(ask(t, key, 0, 0, &addr), KEY_OK);
	check_eq(ask(t, 0x1234, UINT64_MAX, 0, &addr), KEY_OK);
	key_table_destroy(t);
}

TEST(a_region_up_to_the_last_byte_of_the_address_space)
{
	struct key_entry top = entry;
	struct key_table *t = table(4);
	uint64_t addr;
	uint32_t key;

	top.iova = -4096ULL;
	check_eq(key_add(t, &top, NULL, &key), 0);
	check_eq(ask(t, key, -4096ULL, 4096, &addr), KEY_OK);
	check_eq(ask(t, key, -1ULL, 1, &addr), KEY_OK);
	check_eq(ask(t, key, -1ULL, 2, &addr), KEY_RANGE);
	key_table_destroy(t);
}

TEST(checks_come_in_their_order)
{
	struct key_table *t = table(4);
	struct key_ask a = { 0, 8, 0, 1, IBV_ACCESS_REMOTE_READ };
	uint64_t addr;

	check_eq(key_add(t, &entry, NULL, &a.key), 0);
	quiesce_enter();
	check_eq(key_check(t, &a, &addr), KEY_WRONG_PD);
	a.pdn = entry.pdn;
	check_eq(key_check(t, &a, &addr), KEY_NO_RIGHT);
	a.need = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	check_eq(key_check(t, &a, &addr), KEY_NO_RIGHT);
	a.need = 0;
	check_eq(key_check(t, &a, &addr), KEY_RANGE);
	quiesce_exit();
	key_table_destroy(t);
}

TEST(all_entries_can_be_used)
{
	struct key_table *t = table(100);
	uint32_t key[100], more;

	for (int i = 0; i < 100; i++)
		check_eq(key_add(t, &entry, NULL, &key[i]), 0);
	check_eq(key_add(t, &entry, NULL, &more), ENOMEM);
	check_reason("100 keys");
	key_remove(t, key[50]);
	check_eq(key_add(t, &entry, NULL, &more), 0);
	key_table_destroy(t);
}

TEST(the_object_comes_with_the_key)
{
	struct key_table *t = table(4);
	uint32_t key;
	int obj;

	check_eq(key_add(t, &entry, &obj, &key), 0);
	quiesce_enter();
	check(key_lookup_region(t, key) == &obj);
	check(key_lookup_region(t, key + 1) == NULL);
	quiesce_exit();
	key_table_destroy(t);
}

static void note_revoked(void *arg, uint32_t key)
{
	struct key_table *t = ((void **)arg)[0];
	uint32_t *noted = ((void **)arg)[1];
	uint64_t addr;

	check_eq(ask(t, key, 0x10000, 1, &addr), KEY_UNKNOWN); /* it is unpublished already */
	*noted = key;
}

TEST(a_withdrawn_key_is_revoked_and_comes_back_with_another_range)
{
	struct key_table *t = table(4);
	uint32_t key, noted = 0;
	void *arg[] = { t, &noted };
	struct key_entry e = entry;
	uint64_t addr;
	int obj;

	key_table_set_hook(t, &(struct key_table_hook){ note_revoked, arg });
	check_eq(key_add(t, &entry, &obj, &key), 0);
	e.iova = 0x20000;
	check_eq(key_withdraw(t, key + 1), EINVAL);
	check_eq(key_withdraw(t, key), 0);
	check_eq(noted, key);
	check(!key_lookup_region(t, key));
	check(!key_lookup_index(t, key >> 8));
	check_eq(key_withdraw(t, key), EINVAL);
	key_rebind(t, key, &e);
	check(key_lookup_region(t, key) == &obj);
	check_eq(ask(t, key, 0x10000, 1, &addr), KEY_RANGE);
	check_eq(ask(t, key, 0x20000, 1, &addr), KEY_OK);
	noted = 0;
	key_remove(t, key);
	check_eq(noted, key);
	key_table_destroy(t);
}

TEST(a_peer_sees_published_entries_only)
{
	void *mem = calloc(1, key_table_size(4));
	struct key_entry got, *e = mem;
	struct key_table *t;
	uint64_t gen;
	uint32_t key;

	check_eq(fork_init(), 0);
	check_eq(key_table_create(mem, 4, &t), 0);
	check_eq(key_add(t, &entry, NULL, &key), 0);
	check(key_copy_foreign(mem, 4, key, &got));
	check_eq(got.addr, entry.addr);
	check_eq(got.gen & 1, 0);
	gen = got.gen;
	check(!key_copy_foreign(mem, key >> 8, key, &got));
	e[key >> 8].gen++; /* its owner is changing it */
	check(!key_copy_foreign(mem, 4, key, &got));
	e[key >> 8].gen--;
	check_eq(key_withdraw(t, key), 0);
	check(!key_copy_foreign(mem, 4, key, &got));
	key_rebind(t, key, &entry);
	check(key_copy_foreign(mem, 4, key, &got));
	check_ne(got.gen, gen);
	key_remove(t, key);
	check(!key_copy_foreign(mem, 4, key, &got));
	key_table_destroy(t);
	free(mem);
}

TEST(descriptions_name_the_numbers_compared)
{
	static const struct {
		struct key_ask ask;
		enum key_verdict v;
		const char *text;
	} cases[] = {
		{ { 0, 7, 0x10000, 8192, RIGHTS },
		  KEY_RANGE,
		  " covers 0x10000+4096; the range 0x10000+8192 exceeds it by 4096" },
		{ { 0, 7, 0x10ff8, 16, RIGHTS }, KEY_RANGE, "exceeds it by 8" },
		{ { 0, 7, 0xfff0, 8, RIGHTS }, KEY_RANGE, "begins 16 B before it" },
		{ { 0, 7, 0x11004, 8, RIGHTS }, KEY_RANGE, "begins 4 B behind its end" },
		{ { 0, 9, 0x10000, 8, RIGHTS },
		  KEY_WRONG_PD,
		  "belongs to PD 0x7, the queue to PD 0x9" },
		{ { 0, 7, 0x10000, 8, IBV_ACCESS_REMOTE_READ },
		  KEY_NO_RIGHT,
		  "lacks REMOTE_READ; its rights are LOCAL_WRITE|REMOTE_WRITE" },
	};
	struct key_table *t = table(4);
	char buf[EXPLAIN_TEXT];
	uint32_t key;

	check_eq(key_add(t, &entry, NULL, &key), 0);
	quiesce_enter();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct key_ask a = cases[i].ask;
		uint64_t addr;

		a.key = key;
		check_eq(key_check(t, &a, &addr), cases[i].v);
		if (!strstr(key_describe(t, cases[i].v, &a, buf, sizeof(buf)), cases[i].text))
			fail_msg("'%s' is not in '%s'", cases[i].text, buf);
	}
	check(strstr(
		key_describe(t, KEY_UNKNOWN, &(struct key_ask){ .key = 0x1234 }, buf, sizeof(buf)),
		"lkey 0x1234 names no memory region"));
	quiesce_exit();
	key_table_destroy(t);
}

/* --- removal against concurrent use: a byte behind the key is 1 while the key may be used --- */

struct race {
	struct key_table *t;
	uint32_t key; /* the current one */
	uint8_t usable;
	bool stop;
	uint64_t uses, bad;
};

static void *user(void *arg)
{
	struct race *r = arg;
	uint64_t addr;

	while (!load_relaxed(&r->stop)) {
		struct key_ask a = { load_acquire(&r->key), 7, 0x10000, 1, 0 };

		quiesce_enter();
		if (key_check(r->t, &a, &addr) == KEY_OK) {
			for (int i = 0; i < 200; i++)
				r->bad += !load_relaxed((uint8_t *)addr);
			r->uses++;
		}
		quiesce_exit();
	}
	return NULL;
}

TEST(nobody_uses_what_was_removed)
{
	struct race r = { .t = table(8) };
	struct key_entry e = entry;
	pthread_t thread;

	e.addr = (uintptr_t)&r.usable;
	check_eq(pthread_create(&thread, NULL, user, &r), 0);
	for (int i = 0; i < 20000 || (load_relaxed(&r.uses) < 100 && i < 5000000); i++) {
		uint32_t key;

		store_relaxed(&r.usable, 1);
		check_eq(key_add(r.t, &e, NULL, &key), 0);
		store_release(&r.key, key);
		for (int n = 0; n < 300; n++)
			cpu_relax();
		key_remove(r.t, key);
		store_relaxed(&r.usable, 0);
	}
	store_relaxed(&r.stop, true);
	pthread_join(thread, NULL);
	check(r.uses >= 100);
	check_eq(r.bad, 0);
	key_table_destroy(r.t);
}

struct removal {
	struct key_table *t;
	uint32_t key;
	bool done;
};

static void *remover(void *arg)
{
	struct removal *r = arg;

	key_remove(r->t, r->key);
	store_release(&r->done, true);
	return NULL;
}

TEST(removal_waits_for_an_access_that_has_begun)
{
	struct removal r = { .t = table(8) };
	struct key_entry e = entry;
	uint8_t byte = 0;
	uint64_t addr;
	pthread_t thread;

	e.addr = (uintptr_t)&byte;
	check_eq(key_add(r.t, &e, NULL, &r.key), 0);
	struct key_ask a = { r.key, 7, 0x10000, 1, 0 };

	quiesce_enter();
	check_eq(key_check(r.t, &a, &addr), KEY_OK);
	check_eq(pthread_create(&thread, NULL, remover, &r), 0);
	while (key_check(r.t, &a, &addr) == KEY_OK)
		sched_yield();
	for (int i = 0; i < 10000; i++) { /* the remover has every chance to return */
		sched_yield();
		check(!load_acquire(&r.done));
	}
	quiesce_exit();
	pthread_join(thread, NULL);
	check(r.done);
	key_table_destroy(r.t);
}

/* As another thread sees an mkey or a window whose entry is being replaced */
TEST(a_key_that_is_being_rebound_is_fleeting)
{
	static const uint32_t flags[] = { KEY_WINDOW, KEY_INDIRECT };

	for (unsigned int i = 0; i < 2; i++) {
		struct key_entry mem[2] = { 0 }, e = entry;
		struct key_table *t;
		uint32_t key;
		bool fleeting;

		e.flags = flags[i];
		check_eq(key_table_create(mem, 2, &t), 0);
		check_eq(key_add(t, &e, NULL, &key), 0);
		quiesce_enter();
		mem[key >> 8].key = 0;
		fleeting = key_is_fleeting(t, key);
		mem[key >> 8].key = key;
		quiesce_exit();
		check(fleeting);
		key_remove(t, key);
		key_table_destroy(t);
	}
}

/* The only index of a table goes from windows to mkeys to regions and back, while a thread looks
 * each kind up by it. */
struct reuse {
	struct key_table *t;
	uint32_t flags[3];
	bool end, mixed; /* @mixed: a lookup returned an object of another kind */
};

static void *look_up_all(void *arg)
{
	struct reuse *r = arg;

	while (!load_acquire(&r->end)) {
		void *w, *m;

		quiesce_enter();
		w = key_lookup_window(r->t, 0x101);
		quiesce_exit();
		quiesce_enter();
		m = key_lookup_mkey(r->t, 0x101);
		quiesce_exit();
		if ((w && w != &r->flags[0]) || (m && m != &r->flags[1]))
			r->mixed = true;
	}
	return arg;
}

TEST(an_index_that_is_used_again_does_not_mix_kinds)
{
	struct reuse r = { .t = table(2), .flags = { KEY_WINDOW, KEY_INDIRECT, KEY_DIRECT } };
	struct key_entry e = entry;
	uint32_t key, first;
	pthread_t thread;

	check_eq(key_add(r.t, &entry, NULL, &first), 0); /* index 0 is no window's */
	check_eq(pthread_create(&thread, NULL, look_up_all, &r), 0);
	for (unsigned int i = 0; i < 60000; i++) {
		e.flags = r.flags[i % 3];
		check_eq(key_add(r.t, &e, &r.flags[i % 3], &key), 0);
		check_eq(key >> 8, 1);
		key_remove(r.t, key);
	}
	store_release(&r.end, true);
	pthread_join(thread, NULL);
	check(!r.mixed);
	key_remove(r.t, first);
	key_table_destroy(r.t);
}

RUN_TESTS(unit_test(a_key_that_is_being_rebound_is_fleeting),
	  unit_test(an_index_that_is_used_again_does_not_mix_kinds),
	  unit_test(only_the_exact_key_is_valid),
	  unit_test(a_stale_key_stays_invalid_when_its_place_is_taken_again),
	  unit_test(ranges_are_exact_and_do_not_wrap),
	  unit_test(a_region_up_to_the_last_byte_of_the_address_space),
	  unit_test(checks_come_in_their_order), unit_test(all_entries_can_be_used),
	  unit_test(the_object_comes_with_the_key),
	  unit_test(a_withdrawn_key_is_revoked_and_comes_back_with_another_range),
	  unit_test(a_peer_sees_published_entries_only),
	  unit_test(descriptions_name_the_numbers_compared),
	  unit_test(nobody_uses_what_was_removed),
	  unit_test(removal_waits_for_an_access_that_has_begun))
