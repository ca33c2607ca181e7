// SPDX-License-Identifier: MIT
/* Where the engine's thread looks for packets: one network, which brings what it is told. */
#include "engine/loop.h"
#include "engine/links.h"
#include "stand.h"
#include "util/quiesce.h"

enum { ROUNDS = 8 };

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

RUN_TESTS(unit_test(more_is_looked_for_where_some_has_come),
	  unit_test(bulk_traffic_at_one_address_hides_no_other))
