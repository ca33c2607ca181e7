// SPDX-License-Identifier: MIT
/* A thread that polls in vain sleeps in the poll: what wakes it, and what keeps it awake. A test
 * that fails may sleep for an hour. */
#include "engine/idle/rest.h"
#include <sys/eventfd.h>
#include <unistd.h>
#include "engine/leader.h"
#include "stand.h"
#include "util/clock.h"

#define HOUR UINT64_C(3600000000000)

static uint64_t now = HOUR; /* instead of the real clock */

uint64_t clock_now(void)
{
	return now;
}

uint64_t clock_wall_offset(void)
{
	return 0;
}

static struct {
	struct link own, link;
	int fd; /* readable: packets wait */
	unsigned int drains;
	void (*during)(void); /* the sleep: something that another thread does */
} net;

static uint64_t take(int fd)
{
	uint64_t count = 0;

	return read(fd, &count, sizeof(count)) == sizeof(count) ? count : 0;
}

static void ring(int fd)
{
	const uint64_t one = 1;

	check_eq(write(fd, &one, sizeof(one)), (long)sizeof(one));
}

static unsigned int drain(struct link *l, unsigned int budget, bool all)
{
	check(l == &net.link && budget && all);
	net.drains++;
	return (unsigned int)take(net.fd);
}

/* Asked for right before the sleep. */
static int fd(struct link *l)
{
	check(l == &net.link);
	check_eq(stand->n.resting, 1);
	if (net.during)
		net.during();
	return net.fd;
}

static uint32_t mode(void)
{
	return stand->page.mode & HOST_MODE_MASK;
}

static void begin(void)
{
	stand_open();
	net.link = (struct link){ .name = "test", .fd = fd, .drain = drain };
	net.fd = eventfd(0, EFD_NONBLOCK);
	net.drains = 0;
	net.during = NULL;
	stand->host.bell = eventfd(0, EFD_NONBLOCK);
	stand->host.deadline = UINT64_MAX;
	stand->n.kick_fd = eventfd(0, EFD_NONBLOCK);
	stand->n.link[0] = (struct node_link){ .link = &net.own, .node = &stand->n };
	stand->n.link[1] = (struct node_link){ .link = &net.link, .node = &stand->n };
	stand->n.networks = 1;
	host_set_mode(stand->n.host, HOST_POLLED);
}

static void end(void)
{
	check_eq(mode(), HOST_POLLED);
	check_eq(stand->n.resting, 0);
	close(net.fd);
	close(stand->host.bell);
	close(stand->n.kick_fd);
	stand->host.bell = -1;
	stand_close();
}

static bool rest_for(uint64_t ns)
{
	return rest(&stand->n, now, ns);
}

TEST(packets_end_the_rest_and_are_taken)
{
	begin();
	ring(net.fd);
	check(rest_for(HOUR));
	check_eq(net.drains, 1);
	check_eq(rest_until(&stand->n), now + HOUR);
	end();
}

static void a_sender_rings(void)
{
	check_eq(mode(), HOST_ARMED); /* so that it does */
	ring(stand->host.bell);
}

/* For nothing, as it turns out: the thread yields instead. */
TEST(so_does_the_doorbell)
{
	begin();
	net.during = a_sender_rings;
	check(!rest_for(HOUR));
	check_eq(take(stand->host.bell), 0);
	end();
}

TEST(it_ends_when_a_timer_is_due)
{
	begin();
	stand->n.next_timer = now + 100000;
	check(rest_for(HOUR));
	check_eq(rest_until(&stand->n), stand->n.next_timer);
	check_eq(net.drains, 0);
	now = stand->n.next_timer;
	check(!rest_for(HOUR));
	end();
}

TEST(a_thread_that_has_work_does_not_rest)
{
	begin();
	stand->n.ready = stand_qp(); /* some QP is to go on */
	check(rest_for(HOUR));
	check_eq(net.drains, 0);
	free(stand->n.ready);
	end();
}

static void no_resume(struct waiter *w)
{
	(void)w;
}

/* Nobody tells when there is memory again. */
TEST(nor_does_one_while_a_sender_waits_for_memory)
{
	struct host_wait *waiters;
	struct waiter w = { .resume = no_resume };

	begin();
	waiters = &stand->host.own.waiters;
	list_init(&w.node);
	host_wait_add(waiters, &w);
	check(rest_for(HOUR));
	check_eq(net.drains, 0);
	host_wait_cancel(waiters, &w);
	end();
}

TEST(without_a_network_or_beside_a_leader_nobody_rests)
{
	begin();
	stand->n.networks = 0;
	check(!rest_for(HOUR));
	stand->n.networks = 1;
	stand->n.led = 1;
	check(!rest_for(HOUR));
	stand->n.led = 0;
	host_set_mode(stand->n.host, HOST_ARMED); /* the engine has not come back */
	check(!rest_for(HOUR));
	host_set_mode(stand->n.host, HOST_POLLED);
	end();
}

static void the_engine_falls_asleep(void)
{
	stand->n.asleep = LOOP_ARMED;
	check(!host_change_mode(stand->n.host, HOST_POLLED, HOST_ARMED));
	ring(net.fd);
}

/* It thinks that senders ring for it; they do not when the thread polls again. */
TEST(an_engine_that_fell_asleep_meanwhile_is_woken)
{
	begin();
	net.during = the_engine_falls_asleep;
	check(rest_for(HOUR));
	check_eq(take(stand->n.kick_fd), 1);
	stand->n.asleep = LOOP_AWAKE;
	net.during = NULL;
	ring(net.fd);
	check(rest_for(HOUR));
	check_eq(take(stand->n.kick_fd), 0);
	end();
}

RUN_TESTS(unit_test(packets_end_the_rest_and_are_taken), unit_test(so_does_the_doorbell),
	  unit_test(it_ends_when_a_timer_is_due), unit_test(a_thread_that_has_work_does_not_rest),
	  unit_test(nor_does_one_while_a_sender_waits_for_memory),
	  unit_test(without_a_network_or_beside_a_leader_nobody_rests),
	  unit_test(an_engine_that_fell_asleep_meanwhile_is_woken))
