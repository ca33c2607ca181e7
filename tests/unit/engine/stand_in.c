// SPDX-License-Identifier: MIT
/* When a thread that polls does the engine's work, and what that is. */
#include "engine/idle/stand_in.h"
#include <stdlib.h>
#include "engine/timers.h"
#include "stand.h"

#define MS   UINT64_C(1000000)
#define LATE (20 * MS)

static unsigned int tended;

static void tend(struct link *l, uint64_t now)
{
	(void)l;
	(void)now;
	tended++;
}

static struct link link_here = { .tend = tend };

static void open_node(void)
{
	stand_open();
	stand->n.link[0].link = &link_here;
	tended = 0;
}

TEST(an_engine_that_looks_at_descriptors_is_let_alone)
{
	open_node();
	for (uint64_t now = MS; now < 10 * LATE; now += LATE / 2) {
		stand->n.rounds++;
		stand_in(&stand->n, now);
		stand_in(&stand->n, now + LATE / 2 - 1);
	}
	check_eq(tended, 0);
	stand_close();
}

TEST(one_that_sleeps_is_woken_by_what_comes)
{
	open_node();
	stand->n.asleep = LOOP_ARMED;
	for (uint64_t now = MS; now < 10 * LATE; now += LATE / 2)
		stand_in(&stand->n, now);
	check_eq(tended, 0);
	stand->n.asleep = LOOP_AWAKE; /* its time begins now */
	stand_in(&stand->n, 10 * LATE);
	check_eq(tended, 0);
	stand_close();
}

TEST(links_and_the_watchdog_have_their_turn_while_it_is_late)
{
	struct eqp *e;

	open_node();
	e = stand_qp();
	e->q.watch_at = MS;
	timers_watch(&e->q);
	stand->n.rounds = 7;
	stand_in(&stand->n, 1000 * MS);
	stand_in(&stand->n, 1000 * MS + LATE - 1);
	check_eq(tended, 0);
	check(timers_next_watch(&stand->n) != UINT64_MAX);
	stand_in(&stand->n, 1000 * MS + LATE);
	check_eq(tended, 1);
	check_eq(timers_next_watch(&stand->n), UINT64_MAX);
	stand_in(&stand->n, 1000 * MS + 2 * LATE - 1);
	check_eq(tended, 1);
	stand_in(&stand->n, 1000 * MS + 2 * LATE);
	check_eq(tended, 2);
	stand->n.rounds++;
	stand_in(&stand->n, 1000 * MS + 3 * LATE);
	check_eq(tended, 2);
	free(e);
	stand_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		unit_test(an_engine_that_looks_at_descriptors_is_let_alone),
		unit_test(one_that_sleeps_is_woken_by_what_comes),
		unit_test(links_and_the_watchdog_have_their_turn_while_it_is_late),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
