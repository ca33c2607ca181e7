// SPDX-License-Identifier: MIT
/* When a peer that sleeps is rung, and what becomes of a ring that the kernel refuses. Its doorbell
 * is an eventfd; a descriptor that is none stands for one that cannot be rung. */
#include "peers/contact_ring.h"
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "peers/host_state.h"
#include "peers/ring_seg.h"
#include "test.h"
#include "wire/opcode.h"

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

static unsigned int delivered;

static void deliver(void *arg, const struct seg *s)
{
	(void)arg;
	check_eq(s->psn, delivered++);
}

static bool the_third_lacks(void *arg, const struct seg *s)
{
	(void)arg;
	return s->psn == 2;
}

static void put(struct ring *r, uint32_t psn)
{
	struct seg s = { .op = SVC_UD | OP_SEND_ONLY, .flags = SEG_SQPN, .psn = psn, .npsn = 1 };
	struct ring_plan plan;
	uint64_t word;
	uint8_t *rec;

	ring_seg_plan(&s, false, &plan);
	check_eq(ring_reserve(r, plan.bytes, &rec), 0);
	word = ring_seg_encode(&s, &plan, false, rec);
	ring_publish(r, word);
}

/* Nothing passes it, and nothing is lost. */
TEST(a_patient_thread_leaves_a_segment_that_lacks_a_receive)
{
	void *mem = aligned_alloc(4096, RING_CTL + RING_MIN);
	struct target home = { .slot = 1 };
	struct ring out;

	begin();
	memset(mem, 0, RING_CTL + RING_MIN);
	ring_init(&out, mem, RING_MIN);
	ring_init(&contact.in.ring, mem, RING_MIN);
	contact.home = &home;
	contact.deliver = deliver;
	host.cfg.lacks_receive = the_third_lacks;
	contact_watch_ring(&contact);
	delivered = 0;
	for (uint32_t i = 0; i < 5; i++)
		put(&out, i);
	host_patience(true);
	check_eq(contact_drain(&contact, 64), 2);
	check(host_has_left() && contact_readable(&contact));
	check_eq(contact_drain(&contact, 64), 0);
	check_eq(delivered, 2);
	host_patience(false);
	check_eq(contact_drain(&contact, 64), 3);
	check_eq(delivered, 5);
	free(mem);
	end();
}

RUN_TESTS(unit_test(a_peer_is_rung_once_for_each_time_it_falls_asleep),
	  unit_test(the_next_record_rings_where_the_last_could_not),
	  unit_test(without_another_record_it_is_rung_by_and_by),
	  unit_test(a_peer_that_has_not_looked_yet_need_not_be_rung),
	  unit_test(a_patient_thread_leaves_a_segment_that_lacks_a_receive))
