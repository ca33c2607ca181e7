// SPDX-License-Identifier: MIT
/* Connections by initiator: each is found by address and number, walked once, and gone for good. */
#include "test.h"
#include <string.h>
#include "dc/dc_table.h"

enum { N = 1000 };

static struct dc_from nth(uint32_t i)
{
	struct dc_from from = { .qpn = i / 4 }; /* four hosts have the same numbers */

	from.gid[15] = (uint8_t)(i % 4);
	return from;
}

static void fill(struct dc_table *t, struct dc_entry *e)
{
	memset(t, 0, sizeof(*t));
	for (uint32_t i = 0; i < N; i++) {
		e[i].from = nth(i);
		dc_table_add(t, &e[i]);
	}
}

TEST(an_initiator_is_its_address_and_its_number)
{
	static struct dc_entry e[N];
	struct dc_table t;

	fill(&t, e);
	check_eq(t.count, N);
	for (uint32_t i = 0; i < N; i++)
		check(dc_table_find(&t, &(struct dc_from){ .qpn = nth(i).qpn,
							   .gid = { [15] = (uint8_t)(i % 4) } }) ==
		      &e[i]);
	check(!dc_table_find(&t, &(struct dc_from){ .qpn = N }));
	check(!dc_table_find(&t, &(struct dc_from){ .qpn = 1, .gid = { 1 } }));
}

TEST(a_walk_meets_each_entry_once)
{
	static struct dc_entry e[N];
	static bool met[N];
	struct dc_entry *at = NULL;
	struct dc_table t;
	uint32_t n = 0;

	fill(&t, e);
	while ((at = dc_table_next(&t, at))) {
		check(!met[at - e]);
		met[at - e] = true;
		n++;
	}
	check_eq(n, N);
	memset(&t, 0, sizeof(t));
	check(!dc_table_next(&t, NULL));
}

TEST(what_is_deleted_is_not_found)
{
	static struct dc_entry e[N];
	struct dc_table t;

	fill(&t, e);
	for (uint32_t i = 0; i < N; i += 2)
		dc_table_del(&t, &e[i]);
	check_eq(t.count, N / 2);
	for (uint32_t i = 0; i < N; i++) {
		struct dc_from from = nth(i);

		check(dc_table_find(&t, &from) == (i % 2 ? &e[i] : NULL));
	}
}

RUN_TESTS(unit_test(an_initiator_is_its_address_and_its_number),
	  unit_test(a_walk_meets_each_entry_once), unit_test(what_is_deleted_is_not_found))
