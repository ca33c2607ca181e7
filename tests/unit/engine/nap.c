// SPDX-License-Identifier: MIT
/* How long the engine thread sleeps. */
#include "engine/idle/nap.h"
#include "test.h"

#define US 1000ULL
#define MS 1000000ULL

TEST(a_program_that_never_polls_gets_no_nap)
{
	struct nap p;

	nap_begin(&p, 5);
	check(!nap_goes_on(&p, 5));
	check(!nap_goes_on(&p, 5));
}

TEST(naps_grow_while_the_program_polls)
{
	static const uint64_t us[] = { 200, 400, 800, 1000, 1000 };
	struct nap p;

	nap_begin(&p, 0);
	for (uint32_t i = 0; i < sizeof(us) / sizeof(us[0]); i++) {
		check(nap_goes_on(&p, i + 1));
		check_eq(p.ns, us[i] * US);
	}
}

TEST(one_nap_without_a_poll_is_forgiven)
{
	struct nap p;

	nap_begin(&p, 0);
	check(nap_goes_on(&p, 1));
	check(nap_goes_on(&p, 2));
	check_eq(p.ns, 400 * US);
	check(nap_goes_on(&p, 2));
	check(nap_goes_on(&p, 3));
	check_eq(p.ns, 200 * US); /* it may be about to stop */
	check(nap_goes_on(&p, 3));
	check(!nap_goes_on(&p, 3));
}

TEST(a_nap_in_a_crowd_lasts_until_a_poll_may_have_come)
{
	struct nap p;

	nap_begin(&p, 0);
	check_eq(nap_length(&p, 0), 200 * US);
	check_eq(nap_length(&p, 30 * US), 200 * US);
	check_eq(nap_length(&p, 3 * MS), 6 * MS);
	check_eq(nap_length(&p, 20 * MS), 40 * MS);
	check_eq(nap_length(&p, 50 * MS), NAP_CROWDED);
	check_eq(nap_length(&p, UINT64_MAX / 2), NAP_CROWDED);
}

TEST(the_count_of_polls_may_wrap)
{
	struct nap p;

	nap_begin(&p, UINT32_MAX);
	check(nap_goes_on(&p, 0));
}

/* Behind a leader the program may poll, or lead again. */
TEST(the_end_of_a_leader_is_no_miss)
{
	struct nap p;

	nap_begin(&p, 0);
	nap_led(&p);
	check(nap_goes_on(&p, 0));
	check(!nap_goes_on(&p, 0));
}

TEST(naps_under_a_leader_grow_until_it_works)
{
	unsigned int ms = NAP_LED_FIRST;

	check_eq(nap_led_next(ms, true), 1);
	for (unsigned int want = 2; want <= 2 * NAP_LED_MOST; want *= 2) {
		ms = nap_led_next(ms, false);
		check_eq(ms, want);
	}
	check_eq(nap_led_next(ms, false), ms);
	check_eq(nap_led_next(ms, true), NAP_LED_FIRST);
}

TEST(a_nap_ends_when_something_is_due)
{
	check_eq(nap_led_limit(1, UINT64_MAX), MS);
	check_eq(nap_led_limit(1, 2 * MS), MS);
	check_eq(nap_led_limit(4, 2 * MS), 2 * MS);
	check_eq(nap_led_limit(4, 0), 0);
	check_eq(nap_led_limit(NAP_LED_MOST, UINT64_MAX), NAP_LED_MOST * MS);
	check_eq(nap_led_limit(2 * NAP_LED_MOST, UINT64_MAX), UINT64_MAX); /* no limit */
	check_eq(nap_led_limit(2 * NAP_LED_MOST, 9 * MS), 9 * MS);
}

RUN_TESTS(unit_test(a_program_that_never_polls_gets_no_nap),
	  unit_test(naps_grow_while_the_program_polls),
	  unit_test(one_nap_without_a_poll_is_forgiven),
	  unit_test(a_nap_in_a_crowd_lasts_until_a_poll_may_have_come),
	  unit_test(the_count_of_polls_may_wrap), unit_test(the_end_of_a_leader_is_no_miss),
	  unit_test(naps_under_a_leader_grow_until_it_works),
	  unit_test(a_nap_ends_when_something_is_due))
