// SPDX-License-Identifier: MIT
/* A leader comes and goes: how it tells senders, and when it ends the engine thread's sleep. */
#include "engine/leader.h"
#include <sys/eventfd.h>
#include <unistd.h>
#include "stand.h"

static void open_node(void)
{
	stand_open();
	stand->n.kick_fd = eventfd(0, EFD_NONBLOCK);
}

static void close_node(void)
{
	close(stand->n.kick_fd);
	stand_close();
}

static bool kicked(void)
{
	uint64_t count;

	return read(stand->n.kick_fd, &count, sizeof(count)) == sizeof(count);
}

TEST(there_is_one_leader)
{
	open_node();
	check(!leader_is_me());
	check(leader_begin(&stand->n));
	check(leader_is_me());
	check(!leader_begin(&stand->n));
	leader_end(&stand->n);
	check(!leader_is_me());
	stand->n.led = 1; /* another thread leads */
	check(!leader_begin(&stand->n));
	check(!leader_is_me());
	close_node();
}

TEST(it_takes_over_from_an_engine_that_sleeps)
{
	static const struct {
		uint32_t asleep;
		bool kicks;
	} cases[] = {
		{ LOOP_AWAKE, false },
		{ LOOP_ARMED, true },
		{ LOOP_NAPPING, false },
		{ LOOP_UNDER_LEADER, false },
	};

	open_node();
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		stand->n.asleep = cases[i].asleep;
		check(leader_begin(&stand->n));
		check_eq(kicked(), cases[i].kicks);
		stand->n.asleep = LOOP_AWAKE;
		leader_end(&stand->n);
		check(!kicked());
	}
	close_node();
}

/* A nap under a leader is short; but threads that wait behind this leader need the engine now. */
TEST(its_end_is_told_to_an_engine_that_would_not_see_it)
{
	static const struct {
		uint32_t asleep, followers;
		bool kicks;
	} cases[] = {
		{ LOOP_AWAKE, 1, false },
		{ LOOP_NAPPING, 0, false },
		{ LOOP_NAPPING, 1, true },
		{ LOOP_UNDER_LEADER, 0, true },
	};

	open_node();
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		check(leader_begin(&stand->n));
		stand->n.asleep = cases[i].asleep;
		stand->n.followers = cases[i].followers;
		leader_end(&stand->n);
		check_eq(kicked(), cases[i].kicks);
		stand->n.asleep = LOOP_AWAKE;
	}
	close_node();
}

TEST(senders_need_not_ring_for_a_program_that_polls_again)
{
	open_node();
	check(leader_begin(&stand->n));
	host_set_mode(&stand->host, HOST_LED);
	leader_end(&stand->n);
	check_eq(stand->page.mode & HOST_MODE_MASK, HOST_POLLED);
	check_eq(stand->n.led_seq, 1);
	close_node();
}

RUN_TESTS(unit_test(there_is_one_leader), unit_test(it_takes_over_from_an_engine_that_sleeps),
	  unit_test(its_end_is_told_to_an_engine_that_would_not_see_it),
	  unit_test(senders_need_not_ring_for_a_program_that_polls_again))
