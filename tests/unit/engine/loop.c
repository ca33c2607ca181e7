// SPDX-License-Identifier: MIT
/* Where the engine's thread looks for packets, and for how long: one network, which brings what it
 * is told. And the thread itself, whose sleeps the test begins and ends. */
#include "engine/loop.h"
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include "engine/doorbell.h"
#include "engine/links.h"
#include "engine/node_self.h"
#include "peers/contact_ring.h"
#include "stand.h"
#include "util/clock.h"
#include "util/quiesce.h"

#define US 1000ULL

enum { ROUNDS = 8 };

static uint64_t now, tick; /* ns: instead of the real clock; what a look at it takes */

uint64_t clock_now(void)
{
	return now += tick;
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

/* --- the thread --- */

enum { POLL = 1, RING = 2, REQUEST = 4 }; /* what happens while it sleeps */

static struct {
	struct stand *in; /* stays, since the thread does */
	struct link link;
	sem_t sleeps, go;
	unsigned int what; /* of the enum */
	uint64_t limit; /* ns: of the last sleep; 0 if it had none */
	bool lacks; /* a segment waits in a ring for a receive */
	bool delivering; /* another thread has the network's packets in its hands */
	unsigned int yields; /* while senders saw that it looks */
} thread;

static enum host_mode mode(void)
{
	return (enum host_mode)(thread.in->page.mode & HOST_MODE_MASK);
}

static void wait_for(sem_t *s)
{
	while (sem_wait(s)) /* EINTR */
		;
}

int sched_yield(void)
{
	thread.yields += thread.in && mode() == HOST_WATCHED;
	return 0;
}

int epoll_pwait2(int fd, struct epoll_event *ev, int n, const struct timespec *limit,
		 const sigset_t *mask)
{
	(void)fd;
	(void)n;
	(void)mask;
	thread.limit = limit ? (uint64_t)limit->tv_sec * 1000000000 + (uint64_t)limit->tv_nsec : 0;
	sem_post(&thread.sleeps);
	wait_for(&thread.go);
	thread.in->n.poll_seq += thread.what & POLL ? 1 : 0;
	if (!(thread.what & RING))
		return 0;
	ev->data.fd = thread.in->host.bell;
	return eventfd_write(thread.in->host.bell, 1) ? -1 : 1;
}

static unsigned int drain_request(struct link *l, unsigned int budget, bool all)
{
	(void)l;
	(void)all;
	if (thread.lacks) /* the rings were drained before */
		contact_patience.left = contact_patience.on;
	if (!budget || !(thread.what & REQUEST))
		return 0;
	thread.what &= ~(unsigned int)REQUEST;
	thread.in->n.unasked++;
	return 1;
}

static int no_fd(struct link *l)
{
	(void)l;
	return -1;
}

static bool delivering(struct link *l)
{
	(void)l;
	return thread.delivering;
}

static bool catch_up(struct link *l)
{
	(void)l;
	return !thread.delivering;
}

/* @what ends the sleep; up to the next one. True: in between it has lingered. */
static bool lingers(unsigned int what)
{
	thread.what = what;
	thread.yields = 0;
	tick = 100;
	sem_post(&thread.go);
	wait_for(&thread.sleeps);
	tick = 0;
	return thread.yields > 0;
}

static void begin(void)
{
	static const struct link_net_ops ops = { .delivering = delivering, .catch_up = catch_up };

	stand_open();
	thread.in = stand;
	thread.link = (struct link){
		.name = "test", .open = open_net, .drain = drain_request, .fd = no_fd, .net = &ops
	};
	stand->host.bell = eventfd(0, EFD_CLOEXEC);
	stand->n.counts.due = UINT64_MAX;
	list_init(&stand->n.unrung.all);
	links_add(&stand->n, &host);
	links_add(&stand->n, &thread.link);
	check_eq(links_open(&stand->n), 0);
	check_eq(sem_init(&thread.sleeps, 0, 0), 0);
	check_eq(sem_init(&thread.go, 0, 0), 0);
	now = 1000 * US;
	stand->n.unrung.due = UINT64_MAX;
	check_eq(loop_start(&stand->n), 0);
	wait_for(&thread.sleeps);
}

/* It sleeps until it is rung. With @laid_open the program has rings that it reads itself. */
static void asleep(bool laid_open)
{
	if (!thread.in)
		begin();
	thread.in->n.unrung.due = laid_open ? now + 1000000 * US : UINT64_MAX;
	for (unsigned int naps = 0; mode() != HOST_ARMED; naps++) {
		check(naps < 8);
		lingers(0);
	}
}

/* The program polls, and the thread naps. */
static void napping(bool laid_open)
{
	asleep(laid_open);
	check(!lingers(POLL));
	check_eq(mode(), HOST_POLLED);
}

/* Such a program spins, and needs the core. Senders see ARMED again, so they ring for SENDs too,
 * each once more. The network's first, which lingers seldom when it did so in vain. */
TEST(a_program_that_reads_its_rings_itself_has_the_core)
{
	static const unsigned int wakes[] = { REQUEST, RING, RING | REQUEST };
	uint32_t word;

	for (size_t i = 0; i < sizeof(wakes) / sizeof(wakes[0]); i++) {
		asleep(true);
		word = thread.in->page.mode;
		check(!lingers(wakes[i]));
		check_eq(mode(), HOST_ARMED);
		check_ne(thread.in->page.mode, word);
	}
	napping(true);
	check(!lingers(RING));
}

TEST(else_it_lingers_behind_a_ring_and_a_request)
{
	asleep(false);
	check(lingers(REQUEST));
	asleep(false);
	check(lingers(RING));
	check_eq(mode(), HOST_ARMED);
	napping(false);
	check(lingers(RING));
}

/* A timer that is due waits until that thread has delivered the packets, among which may be what
 * the timer waits for. To ask again and again would take the core that the thread wants. */
static void sleeps_while_others_deliver(void)
{
	thread.in->n.next_timer = 1;
	thread.delivering = true;
	lingers(0);
	for (unsigned int i = 0; i < 4; i++) {
		lingers(0);
		check(thread.limit >= 100 * US && thread.limit <= 1000 * US);
		check(!thread.in->n.link[1].watched);
		check_eq(mode(), HOST_POLLED);
	}
	thread.in->n.next_timer = UINT64_MAX;
	thread.delivering = false;
}

TEST(a_thread_that_delivers_packets_is_not_disturbed)
{
	asleep(false);
	sleeps_while_others_deliver();
	asleep(false);
	thread.in->n.led = 1;
	sleeps_while_others_deliver();
	lingers(0);
	check(thread.in->n.link[1].watched);
	thread.in->n.led = 0;
	asleep(false);
}

/* The receive is soon posted by a program that polled just now; a program that polls no more loses
 * the segment. */
TEST(a_segment_that_lacks_a_receive_waits_for_a_program_that_polled_lately)
{
	napping(false);
	thread.lacks = true;
	for (unsigned int i = 0; i < 10; i++) {
		lingers(0);
		check_eq(mode(), HOST_POLLED);
	}
	lingers(RING);
	check_eq(mode(), HOST_POLLED);
	now += 20000 * US;
	for (unsigned int i = 0; mode() != HOST_ARMED; i++) {
		check(i < 4);
		lingers(0);
	}
	check(!lingers(0)); /* it waits no more */
	check_eq(mode(), HOST_ARMED);
	thread.lacks = false;
}

/* Unless it waits for an event, and then a long nap ends. */
TEST(in_a_crowd_a_nap_lasts_until_the_program_may_have_polled)
{
	struct node *n;
	eventfd_t kicks;

	napping(false);
	n = &thread.in->n;
	node_current = n;
	n->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	check(thread.limit <= 1000 * US);
	n->vain.turn = 3000 * US;
	n->vain.crowd_end = now + 1000000 * US;
	check(!lingers(POLL));
	check_eq(thread.limit, 6000 * US);
	check_eq(mode(), HOST_POLLED);
	doorbell_armed();
	check(!eventfd_read(n->kick_fd, &kicks));
	check(!lingers(POLL));
	check(thread.limit <= 1000 * US);
	doorbell_armed();
	check(eventfd_read(n->kick_fd, &kicks));
	node_current = NULL;
	asleep(false);
}

RUN_TESTS(unit_test(more_is_looked_for_where_some_has_come),
	  unit_test(bulk_traffic_at_one_address_hides_no_other),
	  unit_test(work_that_keeps_coming_ends_in_time_however_long_a_round_takes),
	  unit_test(a_program_that_reads_its_rings_itself_has_the_core),
	  unit_test(else_it_lingers_behind_a_ring_and_a_request),
	  unit_test(a_thread_that_delivers_packets_is_not_disturbed),
	  unit_test(a_segment_that_lacks_a_receive_waits_for_a_program_that_polled_lately),
	  unit_test(in_a_crowd_a_nap_lasts_until_the_program_may_have_polled))
