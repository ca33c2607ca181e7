// SPDX-License-Identifier: MIT
/* Where the engine's thread looks for packets, and for how long: one network, which brings what it
 * is told. */
#include "engine/loop.h"
#include "engine/links.h"
#include "stand.h"
#include "util/clock.h"
#include "util/quiesce.h"

#define US 1000ULL

enum { ROUNDS = 8 };

static uint64_t now; /* instead of the real clock */

uint64_t clock_now(void)
{
	return now;
}

uint64_t clock_wall_offset(void)
{
	return 0;
}

static struct {
	struct link link; /* first */
	unsigned int brings[ROUNDS]; /* segments, in each drain */
	unsigned int drains, of_all;
} net;
static struct link host;

static int open_net(struct link *l)
{
	(void)l;
	return 0;
}

static unsigned int drain(struct link *l, unsigned int budget, bool all)
{
	(void)l;
	check(net.drains < ROUNDS && net.brings[net.drains] <= budget);
	net.of_all += all;
	return net.brings[net.drains++];
}

/* The drains that it takes until there are no more. */
static unsigned int drains(unsigned int first, unsigned int second, unsigned int third)
{
	unsigned int n;

	stand_open();
	memset(&net, 0, sizeof(net));
	net.link = (struct link){ .name = "test", .open = open_net, .drain = drain };
	net.brings[0] = first;
	net.brings[1] = second;
	net.brings[2] = third;
	links_add(&stand->n, &host);
	links_add(&stand->n, &net.link);
	check(!loop_network(&stand->n)); /* it is not open */
	check_eq(links_open(&stand->n), 0);
	check_eq(loop_network(&stand->n), first != 0);
	n = net.drains;
	stand_close();
	return n;
}

TEST(more_is_looked_for_where_some_has_come)
{
	check_eq(drains(0, 0, 0), 1);
	check_eq(net.of_all, 1);
	check_eq(drains(1, 2, 3), 4);
	check_eq(net.of_all, 1);
}

/* An address may have brought all of it, and the others were not looked at. */
TEST(bulk_traffic_at_one_address_hides_no_other)
{
	check_eq(drains(LINKS_BUDGET, LINKS_BUDGET, 1), 4);
	check_eq(net.of_all, 3);
	check_eq(drains(LINKS_BUDGET, 1, LINKS_BUDGET), 4);
	check_eq(net.of_all, 2);
}

/* --- work that does not end --- */

static struct {
	unsigned int rounds;
	uint64_t takes; /* ns: each round */
} flood;

static unsigned int drain_flood(struct link *l, unsigned int budget, bool all)
{
	(void)l;
	(void)all;
	check(budget);
	flood.rounds++;
	now += flood.takes;
	return 1;
}

static unsigned int rounds_of(uint64_t takes)
{
	struct link l = { .name = "test", .open = open_net, .drain = drain_flood };

	stand_open();
	flood.rounds = 0;
	flood.takes = takes;
	links_add(&stand->n, &host);
	links_add(&stand->n, &l);
	check_eq(links_open(&stand->n), 0);
	loop_work(&stand->n);
	stand_close();
	return flood.rounds;
}

/* Processes that have ended and handshakes wait for the end of it. */
TEST(work_that_keeps_coming_ends_in_time_however_long_a_round_takes)
{
	check(rounds_of(0) >= 1000);
	check(rounds_of(1 * US) >= 1000);
	check(rounds_of(100 * US) <= 30);
	check(rounds_of(1000 * US) <= 8);
}

RUN_TESTS(unit_test(more_is_looked_for_where_some_has_come),
	  unit_test(bulk_traffic_at_one_address_hides_no_other),
	  unit_test(work_that_keeps_coming_ends_in_time_however_long_a_round_takes))
