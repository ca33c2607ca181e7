// SPDX-License-Identifier: MIT
/* How long the engine thread looks for the next request before it sleeps, and when it does not. */
#include "engine/idle/linger.h"
#include "stand.h"
#include "util/clock.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define S  UINT64_C(1000000000)

/* A requester whose next request comes @every ns behind the one before, and an engine thread. */
struct course {
	struct lingering l;
	uint64_t now, every;
	uint64_t look; /* ns that a look takes which finds nothing, with its yield */
	uint64_t spent; /* ns in such looks */
	unsigned int begun, wakes; /* times that it has lingered, and has slept before a request */
};

static struct course course(uint64_t every)
{
	return (struct course){ .now = 77 * MS, .every = every, .look = 1 * US };
}

/* A request has woken the engine, which lingers until it sleeps again. Each look that finds a
 * request takes 5 us. */
static void request(struct course *c)
{
	uint64_t next = c->now + c->every, before;
	bool found;

	c->wakes++;
	if (linger_begin(&c->l, c->now)) {
		c->begun++;
		do {
			before = c->now;
			found = c->now >= next;
			if (found)
				next += c->every;
			else
				c->spent += c->look;
			c->now += found ? 5 * US : c->look;
		} while (linger_looked(&c->l, found, before, c->now));
	}
	if (c->now < next)
		c->now = next;
}

TEST(the_next_request_is_found_without_a_wake)
{
	struct course c = course(20 * US);
	uint64_t begin = c.now;

	while (c.now < begin + 1 * S)
		request(&c);
	check(c.wakes <= 1 * S / LINGER_MOST + 1); /* of 50,000 requests */
}

TEST(it_ends_by_itself_soon_after_the_last_request)
{
	struct lingering l = { 0 };
	uint64_t begin = 5 * S, now = begin;

	check(linger_begin(&l, now));
	while (linger_looked(&l, now == begin + 10 * US, now, now + 1 * US))
		now += 1 * US;
	check(now - begin > 10 * US && now - begin <= 11 * US + LINGER_NS);
}

/* However much keeps coming in, descriptors have their turn. */
TEST(it_ends_under_any_load)
{
	struct lingering l = { 0 };
	uint64_t now = 5 * S;

	check(linger_begin(&l, now));
	do
		now += 30 * US;
	while (linger_looked(&l, true, now, now) && now < 6 * S);
	check(now <= 5 * S + LINGER_MOST + 30 * US);
	check(linger_begin(&l, now)); /* it has paid */
}

/* 1000 requests a second: 50 us for each would be a twentieth of a core. */
TEST(a_requester_that_comes_seldom_costs_next_to_nothing)
{
	struct course c = course(1 * MS);

	while (c.wakes < 10000)
		request(&c);
	check(c.begun <= 8 + 10000 / LINGER_LEFT_OUT);
	check(c.spent < 10000 * 1 * US);
}

TEST(when_it_comes_often_again_that_is_noticed)
{
	struct course c = course(1 * MS);
	uint64_t begin;

	while (c.wakes < 10000)
		request(&c);
	c.every = 20 * US;
	begin = c.now;
	while (c.now < begin + 1 * S)
		request(&c);
	check(c.wakes - 10000 <= LINGER_LEFT_OUT + 1 * S / LINGER_MOST + 2);
}

/* Others want the core, and get a slice by each yield. */
TEST(in_a_crowd_it_sleeps_at_once_and_soon_lingers_no_more)
{
	struct course c = course(100 * US);
	uint64_t begin = c.now;

	c.look = 3 * MS;
	request(&c);
	check_eq(c.begun, 1);
	check_eq(c.spent, c.look); /* one yield */
	check(!linger_begin(&c.l, c.now)); /* as long as the crowd is believed in */
	while (c.now < begin + 10 * S)
		request(&c);
	check(c.begun < 25);
}

static struct {
	struct link own, link;
	unsigned int drains;
	uint32_t mode; /* that senders saw at the last drain */
	void (*during)(void); /* a drain: something that another thread does */
} net;

static unsigned int drain(struct link *l, unsigned int budget, bool all)
{
	check(l == &net.link && budget && !all);
	net.mode = stand->page.mode & HOST_MODE_MASK;
	net.drains++;
	if (net.during)
		net.during();
	return 0;
}

static void begin(enum host_mode mode)
{
	stand_open();
	net.link = (struct link){ .name = "test", .drain = drain };
	net.drains = 0;
	net.during = NULL;
	stand->n.link[0] = (struct node_link){ .link = &net.own, .node = &stand->n };
	stand->n.link[1] = (struct node_link){ .link = &net.link, .node = &stand->n };
	stand->n.networks = 1;
	host_set_mode(stand->n.host, mode);
}

static void a_program_polls(void)
{
	stand->n.poll_seq++;
}

static void a_thread_leads(void)
{
	stand->n.led = 1;
	host_set_mode(stand->n.host, HOST_LED);
}

TEST(senders_see_that_it_looks)
{
	struct lingering l = { 0 };

	begin(HOST_POLLED);
	check(linger(&stand->n, &l));
	check(net.drains > 0);
	check_eq(net.mode, HOST_WATCHED);
	check_eq(stand->page.mode & HOST_MODE_MASK, HOST_POLLED);
	stand_close();
}

TEST(a_program_that_polls_takes_over)
{
	struct lingering l = { 0 };

	begin(HOST_POLLED);
	net.during = a_program_polls;
	check(linger(&stand->n, &l));
	check_eq(net.drains, 1);
	stand_close();
}

TEST(so_does_a_leader_whose_mode_stays)
{
	struct lingering l = { 0 };

	begin(HOST_POLLED);
	net.during = a_thread_leads;
	check(linger(&stand->n, &l));
	check_eq(net.drains, 1);
	check_eq(stand->page.mode & HOST_MODE_MASK, HOST_LED);
	check(!linger(&stand->n, &l));
	check_eq(net.drains, 1);
	stand_close();
}

RUN_TESTS(unit_test(the_next_request_is_found_without_a_wake),
	  unit_test(it_ends_by_itself_soon_after_the_last_request),
	  unit_test(it_ends_under_any_load),
	  unit_test(a_requester_that_comes_seldom_costs_next_to_nothing),
	  unit_test(when_it_comes_often_again_that_is_noticed),
	  unit_test(in_a_crowd_it_sleeps_at_once_and_soon_lingers_no_more),
	  unit_test(senders_see_that_it_looks), unit_test(a_program_that_polls_takes_over),
	  unit_test(so_does_a_leader_whose_mode_stays))
