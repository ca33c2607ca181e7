// SPDX-License-Identifier: MIT
/* What the engine does with its links: two networks that do what they are told, and no host. */
#include "engine/links.h"
#include <errno.h>
#include "stand.h"

struct net { /* a link of ours */
	struct link link; /* first */
	int open_err, dest_err, listen_err, join_err;
	unsigned int opened, asked, drained, drained_all, tended, joined, left;
	unsigned int has, held; /* segments; ports that others have */
	uint64_t at;
	struct dest dest;
};

static struct net host, one, two;

static struct net *of(struct link *l)
{
	return (struct net *)l;
}

static int open_net(struct link *l)
{
	of(l)->opened++;
	return of(l)->open_err;
}

static int dest(struct link *l, const struct link_path *to, struct dest **out)
{
	check_eq(to->rqpn, 9);
	of(l)->asked++;
	if (!of(l)->dest_err)
		*out = &of(l)->dest;
	return of(l)->dest_err;
}

static unsigned int drain(struct link *l, unsigned int budget, bool all)
{
	check(budget >= of(l)->has);
	of(l)->drained++;
	of(l)->drained_all += all;
	return of(l)->has;
}

static uint64_t deadline(struct link *l)
{
	return of(l)->at;
}

static void tend(struct link *l, uint64_t now)
{
	check_eq(now, 77);
	of(l)->tended++;
}

static int hear(struct link *l, const union ibv_gid *local, uint32_t ifindex)
{
	(void)local;
	(void)ifindex;
	return of(l)->listen_err;
}

static bool again(struct link *l)
{
	return of(l)->held;
}

static int join(struct link *l, const union ibv_gid *group, const void *owner, uint32_t ifindex)
{
	(void)group;
	(void)owner;
	(void)ifindex;
	of(l)->joined++;
	return of(l)->join_err;
}

static void leave(struct link *l)
{
	of(l)->left++;
}

static const struct link_net_ops net_ops = {
	.listen = hear, .again = again, .join = join, .leave = leave
};

static struct net fresh(void)
{
	return (struct net){ .link = { .name = "test",
				       .open = open_net,
				       .dest = dest,
				       .drain = drain,
				       .deadline = deadline,
				       .tend = tend,
				       .net = &net_ops },
			     .at = UINT64_MAX };
}

static void open_links(void)
{
	stand_open();
	host = one = two = fresh();
	host.link.open = NULL;
	host.link.net = NULL;
	links_add(&stand->n, &host.link);
	links_add(&stand->n, &one.link);
	links_add(&stand->n, &two.link);
}

TEST(networks_are_opened_by_the_first_path_that_needs_one)
{
	const struct link_path to = { .rqpn = 9 };
	struct dest *d = NULL;

	open_links();
	check_eq(links_poll(&stand->n, 0), 0);
	check_eq(one.opened + one.drained, 0);
	check_eq(links_dest(&stand->n, &to, &d), 0);
	check(d == &one.dest);
	check_eq(links_dest(&stand->n, &to, &d), 0);
	check_eq(one.opened, 1);
	check_eq(two.opened, 1);
	check_eq(host.asked, 0);
	stand_close();
}

TEST(the_first_network_that_knows_the_path_makes_the_destination)
{
	const struct link_path to = { .rqpn = 9 };
	struct dest *d = NULL;

	open_links();
	one.dest_err = EPROTONOSUPPORT;
	check_eq(links_dest(&stand->n, &to, &d), 0);
	check(d == &two.dest);
	two.dest_err = EPROTONOSUPPORT;
	check_eq(links_dest(&stand->n, &to, &d), EPROTONOSUPPORT);
	one.dest_err = EHOSTUNREACH; /* it knows the path, and that none leads there */
	two.dest_err = 0;
	check_eq(links_dest(&stand->n, &to, &d), EHOSTUNREACH);
	stand_close();
}

TEST(a_network_that_cannot_be_opened_is_tried_again)
{
	const struct link_path to = { .rqpn = 9 };
	struct dest *d = NULL;

	open_links();
	one.open_err = EMFILE;
	check_eq(links_dest(&stand->n, &to, &d), EMFILE);
	check_eq(two.opened + one.asked, 0);
	check_eq(links_poll(&stand->n, 0), 0);
	one.open_err = 0;
	check_eq(links_dest(&stand->n, &to, &d), 0);
	check_eq(one.opened, 2);
	stand_close();
}

TEST(a_busy_poll_looks_at_networks_now_and_then)
{
	unsigned int polls = 0;

	open_links();
	check_eq(links_open(&stand->n), 0);
	one.has = 3;
	two.has = 4;
	check_eq(links_poll(&stand->n, 0), 7);
	check_eq(one.drained, 1);
	while (one.drained == 1 && polls++ < 1000)
		links_poll(&stand->n, 1);
	check_eq(polls, 65);
	check_eq(two.drained, 2);
	for (unsigned int i = 0; i < 60; i++)
		links_poll(&stand->n, 1);
	links_poll(&stand->n, 0); /* an idle one looks at once, and the count begins anew */
	check_eq(one.drained, 3);
	for (unsigned int i = 0; i < 64; i++)
		links_poll(&stand->n, 1);
	check_eq(one.drained, 3);
	check_eq(one.drained_all, 0);
	stand_close();
}

TEST(a_drain_takes_all_of_all_networks)
{
	open_links();
	check_eq(links_drain(&stand->n, LINKS_ALL), 0);
	check_eq(links_open(&stand->n), 0);
	one.has = 3;
	two.has = 4;
	check_eq(links_drain(&stand->n, LINKS_ALL), 7);
	check_eq(one.drained_all, 1);
	check_eq(links_drain(&stand->n, LINKS_POLLED), 7); /* a second look */
	check_eq(one.drained_all, 1);
	check_eq(host.drained, 0); /* by every poll itself */
	stand_close();
}

TEST(the_earliest_deadline_counts_of_links_that_are_open)
{
	open_links();
	check_eq(links_deadline(&stand->n), UINT64_MAX);
	host.at = 50;
	one.at = 30;
	two.at = 40;
	check_eq(links_deadline(&stand->n), 50);
	links_tend(&stand->n, 77);
	check_eq(host.tended, 1);
	check_eq(one.tended, 0);
	check_eq(links_open(&stand->n), 0);
	check_eq(links_deadline(&stand->n), 30);
	one.link.deadline = NULL;
	one.link.tend = NULL;
	check_eq(links_deadline(&stand->n), 40);
	links_tend(&stand->n, 77);
	check_eq(one.tended, 0);
	check_eq(two.tended, 1);
	check_eq(host.tended, 2);
	stand_close();
}

TEST(a_port_that_another_program_has_is_what_counts)
{
	union ibv_gid gid = { 0 };

	open_links();
	check_eq(links_listen(&stand->n, &gid, 0), 0); /* none is open */
	check(!links_again(&stand->n));
	check(!links_are_open(&stand->n));
	check_eq(links_open(&stand->n), 0);
	check(links_are_open(&stand->n));
	one.listen_err = EADDRNOTAVAIL;
	check_eq(links_listen(&stand->n, &gid, 0), EADDRNOTAVAIL);
	two.listen_err = EADDRINUSE;
	check_eq(links_listen(&stand->n, &gid, 0), EADDRINUSE);
	one.held = 1;
	check(links_again(&stand->n));
	one.held = 0;
	two.held = 1;
	check(links_again(&stand->n));
	two.held = 0;
	check(!links_again(&stand->n));
	stand_close();
}

TEST(every_network_is_joined_and_left)
{
	union ibv_gid gid = { 0 };

	open_links();
	links_leave(&stand->n);
	check_eq(one.left, 0);
	check_eq(links_open(&stand->n), 0);
	one.join_err = ENOBUFS;
	check_eq(links_join(&stand->n, &gid, &stand->hca, 1), ENOBUFS);
	check_eq(two.joined, 1);
	links_leave(&stand->n);
	check_eq(one.left, 1);
	check_eq(two.left, 1);
	check_eq(host.left, 0);
	stand_close();
}

RUN_TESTS(unit_test(networks_are_opened_by_the_first_path_that_needs_one),
	  unit_test(the_first_network_that_knows_the_path_makes_the_destination),
	  unit_test(a_network_that_cannot_be_opened_is_tried_again),
	  unit_test(a_busy_poll_looks_at_networks_now_and_then),
	  unit_test(a_drain_takes_all_of_all_networks),
	  unit_test(the_earliest_deadline_counts_of_links_that_are_open),
	  unit_test(a_port_that_another_program_has_is_what_counts),
	  unit_test(every_network_is_joined_and_left))
