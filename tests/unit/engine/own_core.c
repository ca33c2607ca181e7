// SPDX-License-Identifier: MIT
/* When the engine thread looks all the time for programs that write their rings themselves, and
 * when it leaves the core to others. */
#include "engine/idle/own_core.h"
#include "stand.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define S  UINT64_C(1000000000)

static struct own_core own;

static bool may(enum unrung_spin how, unsigned int cpus, unsigned int processes)
{
	return own_core_may(&own, how, cpus, processes, 5 * S);
}

TEST(by_itself_only_where_every_thread_has_a_core)
{
	own = (struct own_core){ 0 };
	check(may(UNRUNG_SPIN_IF_FREE, 2, 1));
	check(may(UNRUNG_SPIN_IF_FREE, 5, 2));
	check(may(UNRUNG_SPIN_IF_FREE, 64, 32));
	check(!may(UNRUNG_SPIN_IF_FREE, 1, 1));
	check(!may(UNRUNG_SPIN_IF_FREE, 3, 2));
	check(!may(UNRUNG_SPIN_IF_FREE, 64, 33));
}

TEST(whoever_asks_for_it_gets_it)
{
	own = (struct own_core){ 0 };
	check(may(UNRUNG_SPIN, 1, 1));
	check(may(UNRUNG_SPIN, 1, 100));
	check(!may(UNRUNG_SPIN_NEVER, 64, 1));
}

TEST(not_soon_behind_a_call)
{
	own = (struct own_core){ .not_before = 5 * S + 1 };
	check(!may(UNRUNG_SPIN_IF_FREE, 8, 1));
	check(!may(UNRUNG_SPIN, 8, 1));
	own.not_before--;
	check(may(UNRUNG_SPIN_IF_FREE, 8, 1) && may(UNRUNG_SPIN, 8, 1));
}

/* Looks from @now on, each with a yield of @yield ns, until it ends; but at most for 1 s. Returns
 * when it ended. */
static uint64_t looks(enum unrung_spin how, uint64_t now, uint64_t yield)
{
	uint64_t before, end = now + 1 * S;

	do {
		before = now + 3 * US;
		now = before + yield;
	} while (own_core_looked(&own, how, false, before, now) && now < end);
	return now;
}

TEST(it_ends_when_nothing_has_come_for_a_while)
{
	uint64_t end;

	own = (struct own_core){ .until = 5 * S };
	check(own_core_looked(&own, UNRUNG_SPIN_IF_FREE, true, 7 * S, 7 * S));
	end = looks(UNRUNG_SPIN_IF_FREE, 7 * S, 1 * US);
	check(end >= 7 * S + OWN_CORE_NS && end <= 7 * S + OWN_CORE_NS + 4 * US);
	own.until = 7 * S + OWN_CORE_NS;
	end = looks(UNRUNG_SPIN, 7 * S, 1 * US);
	check(end >= 7 * S + OWN_CORE_NS && end <= 7 * S + OWN_CORE_NS + 4 * US);
}

/* A yield that takes long gave the core to another thread. */
TEST(others_that_want_the_core_get_it)
{
	own = (struct own_core){ .until = 7 * S + OWN_CORE_NS };
	check_eq(looks(UNRUNG_SPIN_IF_FREE, 7 * S, 2 * VAIN_SHARED),
		 7 * S + 3 * US + 2 * VAIN_SHARED);
	check(!own_core_may(&own, UNRUNG_SPIN_IF_FREE, 64, 1, 7 * S + 100 * US));
	check(own_core_may(&own, UNRUNG_SPIN_IF_FREE, 64, 1, 7 * S + 10 * MS));
	check(own_core_may(&own, UNRUNG_SPIN, 64, 1, 7 * S + 100 * US));
}

TEST(not_where_it_was_asked_for)
{
	uint64_t end;

	own = (struct own_core){ .until = 7 * S + OWN_CORE_NS };
	end = looks(UNRUNG_SPIN, 7 * S, 2 * VAIN_SHARED);
	check(end >= 7 * S + OWN_CORE_NS && end < 7 * S + OWN_CORE_NS + 1 * MS);
}

RUN_TESTS(unit_test(by_itself_only_where_every_thread_has_a_core),
	  unit_test(whoever_asks_for_it_gets_it), unit_test(not_soon_behind_a_call),
	  unit_test(it_ends_when_nothing_has_come_for_a_while),
	  unit_test(others_that_want_the_core_get_it), unit_test(not_where_it_was_asked_for))
