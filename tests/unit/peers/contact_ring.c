// SPDX-License-Identifier: MIT
/* When a peer that sleeps is rung, and what becomes of a ring that the kernel refuses. Its doorbell
 * is an eventfd; a descriptor that is none stands for one that cannot be rung. */
#include "peers/contact_ring.h"
#include <sys/eventfd.h>
#include <unistd.h>
#include "peers/host_state.h"
#include "test.h"

enum { NOW = 1000, REFUSES = 1 << 20 };

static struct host host;
static struct host_page page;
static struct contact contact;
static int bell;

static uint64_t rings(int fd)
{
	uint64_t n;

	return read(fd, &n, sizeof(n)) == sizeof(n) ? n : 0;
}

static void begin(void)
{
	bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	host = (struct host){ .bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC),
			      .deadline = UINT64_MAX };
	page = (struct host_page){ .mode = HOST_MODE_STEP | HOST_ARMED };
	contact = (struct contact){ .host = &host, .page = &page, .bell = bell };
}

static void end(void)
{
	close(host.bell);
	close(bell);
}

static void bell_works(bool yes)
{
	store_release(&contact.bell, yes ? bell : REFUSES);
}

TEST(a_peer_is_rung_once_for_each_time_it_falls_asleep)
{
	begin();
	for (int i = 0; i < 3; i++)
		contact_wake(&contact, false);
	check_eq(rings(bell), 1);
	page.mode += HOST_MODE_STEP;
	contact_wake(&contact, false);
	check_eq(rings(bell), 1);
	page.mode = HOST_POLLED;
	contact_wake(&contact, false);
	check_eq(rings(bell), 0);
	contact_wake(&contact, true);
	check_eq(rings(bell), 1);
	contact_ring_anew(&contact, NOW);
	check_eq(rings(bell), 0);
	check_eq(rings(host.bell), 0);
	end();
}

TEST(the_next_record_rings_where_the_last_could_not)
{
	begin();
	bell_works(false);
	contact_wake(&contact, false);
	bell_works(true);
	contact_wake(&contact, false);
	check_eq(rings(bell), 1);
	end();
}

TEST(without_another_record_it_is_rung_by_and_by)
{
	for (int polled = 0; polled < 2; polled++) {
		begin();
		if (polled)
			page.mode = HOST_POLLED;
		bell_works(false);
		contact_wake(&contact, polled);
		check_eq(rings(host.bell), 1); /* host_control() is to run now */
		check_eq(load_acquire(&host.chores), 1);
		store_release(&host.chores, 0);
		for (int i = 0; i < 3; i++) {
			host.deadline = UINT64_MAX;
			contact_ring_anew(&contact, NOW);
			check_eq(host.deadline, NOW + HOST_RETRY_NS);
			check_eq(rings(host.bell), 0); /* not before */
		}
		bell_works(true);
		host.deadline = UINT64_MAX;
		contact_ring_anew(&contact, NOW);
		check_eq(rings(bell), 1);
		check_eq(host.deadline, UINT64_MAX);
		contact_ring_anew(&contact, NOW);
		check_eq(rings(bell), 0);
		end();
	}
}

TEST(a_peer_that_has_not_looked_yet_need_not_be_rung)
{
	const uint64_t full = UINT64_MAX - 1;

	begin();
	check_eq(write(bell, &full, sizeof(full)), (long)sizeof(full));
	contact_wake(&contact, false);
	check_eq(rings(host.bell), 0);
	check_eq(load_acquire(&host.chores), 0);
	end();
}

RUN_TESTS(unit_test(a_peer_is_rung_once_for_each_time_it_falls_asleep),
	  unit_test(the_next_record_rings_where_the_last_could_not),
	  unit_test(without_another_record_it_is_rung_by_and_by),
	  unit_test(a_peer_that_has_not_looked_yet_need_not_be_rung))
