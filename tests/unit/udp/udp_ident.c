// SPDX-License-Identifier: MIT
#include "test.h"
#include "udp/udp_ident.h"

enum { ADDR = 0x0100090a, OTHER = 0x0200090a };
#define MS UINT64_C(1000000)

static struct udp_ident table;

static bool fits(uint16_t id, uint64_t ms)
{
	return udp_ident_fits(&table, ADDR, id, ms * MS);
}

static void fresh(void)
{
	memset(&table, 0, sizeof(table));
}

TEST(one_that_counts_is_followed_through_loss_and_reordering)
{
	fresh();
	check(fits(65500, 1));
	check(fits(65501, 1));
	check(fits(65530, 1));
	check(fits(65502, 1));
	check(fits(3, 1)); /* past 65535 */
	check(fits(65535, 1));
	check(fits(0, 1));
	check(fits(4, 1));
	check(!fits(1000, 1));
	check(fits(5, 1));
}

TEST(silence_lets_it_jump_a_tick_at_a_time)
{
	fresh();
	check(fits(100, 1));
	check(!fits(1100, 1));
	check(fits(1100, 1001));
	check(!fits(3300, 2001));
}

TEST(one_that_leaves_it_0_may_use_nothing_else)
{
	fresh();
	check(fits(0, 1));
	check(!fits(1, 60000));
	check(fits(0, 60001));
	check(!fits(7, 60002));
	check(!fits(700, 60003));
	check(fits(0, 60004));
}

TEST(two_in_a_row_convince_that_it_is_another_sender_now)
{
	fresh();
	check(fits(0, 1));
	check(!fits(4000, 2));
	check(fits(4001, 2));
	check(fits(4002, 2));
	check(!fits(0, 3));
	check(fits(0, 3));
	check(!fits(1, 4));
}

TEST(senders_do_not_vouch_for_each_other)
{
	fresh();
	check(fits(9, 1));
	check(udp_ident_fits(&table, OTHER, 30000, MS));
	check(!fits(30001, 1));
}

RUN_TESTS(unit_test(one_that_counts_is_followed_through_loss_and_reordering),
	  unit_test(silence_lets_it_jump_a_tick_at_a_time),
	  unit_test(one_that_leaves_it_0_may_use_nothing_else),
	  unit_test(two_in_a_row_convince_that_it_is_another_sender_now),
	  unit_test(senders_do_not_vouch_for_each_other))
