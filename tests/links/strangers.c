// SPDX-License-Identifier: MIT
/* Two users on one host: a child under another user id meets this process. Segments go both ways,
 * by value; neither gets anything that tells addresses, nor speaks for anybody but itself. */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include "peers/host_names.h"
#include "peers/host_state.h"
#include "peers/host_target.h"
#include "station.h"
#include "wire/opcode.h"

enum { STRANGER = 61007, ROUNDS = 2000, LARGE = 16000 };

static struct seg to(const struct station *st, uint32_t number)
{
	return (struct seg){
		.op = 4, .pkey = 0xffff, .dqpn = number, .sqpn = station_number(st), .npsn = 1
	};
}

static bool becomes_stranger(void)
{
	return !setresgid(STRANGER, STRANGER, STRANGER) && !setresuid(STRANGER, STRANGER, STRANGER);
}

static const struct contact *contact_of(struct dest *d)
{
	return to_target(d)->c;
}

/* Small and large payloads, answered one by one. */
static int partner(int talk, void *arg)
{
	struct station st = { 0 };
	struct dest *d;
	struct seg s;

	(void)arg;
	if (!becomes_stranger())
		return 1;
	station_open(&st);
	child_tell(talk, station_number(&st));
	d = station_dest(&st, (uint32_t)child_hear(talk));
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		station_until(&st, &st.count, i);
		s = to(&st, 0);
		if (station_send(&st, d, &s))
			return 1;
	}
	child_hear(talk);
	if (contact_of(d)->tables || contact_of(d)->mail || contact_of(d)->remote ||
	    contact_of(d)->bell >= 0)
		return 2;
	return st.bytes == (uint64_t)ROUNDS / 2 * LARGE ? 0 : 3;
}

TEST(two_users_exchange_segments_and_nothing_else)
{
	static uint8_t payload[LARGE];
	struct child c = child_start(partner, NULL);
	struct station st = { 0 };
	struct dest *d;

	station_open(&st);
	d = station_dest(&st, (uint32_t)child_hear(c.talk));
	child_tell(c.talk, station_number(&st));
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		struct seg s = to(&st, 0);

		if (i % 2) {
			s.data = payload;
			s.len = sizeof(payload);
		}
		check_eq(station_send(&st, d, &s), 0);
		station_until(&st, &st.count, i);
	}
	check(contact_of(d)->name.stranger);
	check(!contact_of(d)->tables && !contact_of(d)->remote && contact_of(d)->bell < 0);
	check(!contact_of(d)->mail);
	check(!load_acquire(&contact_of(d)->mutual));
	check_eq(d->max_ref, 0);
	child_tell(c.talk, 1);
	check_eq(child_wait(&c), 0);
	d->ops->put(d);
	station_close(&st);
}

/* What claims to come from a network, or from a group, ends at the ring; what is its own passes. */
static int liar(int talk, void *arg)
{
	struct station st = { 0 };
	struct dest *d;
	struct seg s;

	(void)arg;
	if (!becomes_stranger())
		return 1;
	station_open(&st);
	d = station_dest(&st, (uint32_t)child_hear(talk));
	s = to(&st, 0);
	s.flags = SEG_NET;
	if (station_send(&st, d, &s))
		return 2;
	s.op = SVC_UD | OP_SEND_ONLY;
	s.flags = SEG_MCAST;
	if (station_send(&st, d, &s))
		return 3;
	s = to(&st, 77);
	return station_send(&st, d, &s);
}

static void heard(struct station *st, const struct seg *s)
{
	*(uint32_t *)st->arg = s->dqpn;
}

TEST(a_stranger_speaks_for_itself_alone)
{
	struct child c = child_start(liar, NULL);
	uint32_t number = 0;
	struct station st = { .got = heard, .arg = &number };

	station_open(&st);
	child_tell(c.talk, station_number(&st));
	station_until(&st, &st.count, 1);
	check_eq(number, 77);
	check_eq(st.count, 1);
	check_eq(child_wait(&c), 0);
	station_close(&st);
}

/* Says that it has the slot of another process: what is for that one would come to it. */
static int thief(int talk, void *arg)
{
	uint32_t theirs = (uint32_t)(uintptr_t)arg;
	struct station st = { 0 };
	struct dest *d;
	struct seg s;

	if (!becomes_stranger())
		return 1;
	station_open(&st);
	st.h->listener[0].slot = theirs;
	d = station_dest(&st, (uint32_t)child_hear(talk));
	s = to(&st, 0);
	return station_send(&st, d, &s) == ENETUNREACH ? 0 : 2;
}

TEST(a_stranger_has_no_slot_but_its_own)
{
	struct station st = { 0 }, owner = { 0 };
	struct child c;

	station_open(&st);
	station_open(&owner);
	c = child_start(thief, (void *)(uintptr_t)owner.slot);
	child_tell(c.talk, station_number(&st));
	while (recv(c.talk, &(char){ 0 }, 1, MSG_DONTWAIT | MSG_PEEK) != 0)
		station_turn(&st);
	check_eq(child_wait(&c), 0);
	check_eq(st.count, 0);
	check(!host_target_now(st.h, owner.slot));
	station_close(&owner);
	station_close(&st);
}

static int sender(int talk, void *arg)
{
	struct station st = { 0 };
	struct dest *d;
	struct seg s;

	(void)arg;
	if (!becomes_stranger())
		return 1;
	station_open(&st);
	d = station_dest(&st, (uint32_t)child_hear(talk));
	for (int i = 0; i < 2; i++) {
		s = to(&st, 0);
		if (station_send(&st, d, &s))
			return 1;
		child_hear(talk);
	}
	return 0;
}

/* It has no doorbell of ours, which it could fill so that others hang: it sends a message. */
TEST(a_stranger_rings_by_a_message)
{
	struct child c = child_start(sender, NULL);
	struct station st = { 0 };
	struct pollfd bell, control;

	station_open(&st);
	bell = (struct pollfd){ .fd = host_doorbell_fd(st.h), .events = POLLIN };
	control = (struct pollfd){ .fd = host_control_fd(st.h), .events = POLLIN };
	child_tell(c.talk, station_number(&st));
	station_until(&st, &st.count, 1);
	while (poll(&bell, 1, 0)) {
		uint64_t n;

		check_eq(read(bell.fd, &n, sizeof(n)), sizeof(n));
	}
	host_set_mode(st.h, HOST_LED); /* a thread sleeps in the doorbell */
	child_tell(c.talk, 1);
	check_eq(poll(&control, 1, -1), 1);
	while (!poll(&bell, 1, 0))
		host_control(st.h, 0);
	child_tell(c.talk, 1);
	station_until(&st, &st.count, 2);
	check_eq(child_wait(&c), 0);
	station_close(&st);
}

/* More than HOST_DIRECT_PEERS: rings are found by mail then, and strangers have none. */
TEST(many_strangers_are_all_heard)
{
	struct child c[HOST_DIRECT_PEERS + 2];
	struct station st = { 0 };
	const uint64_t n = sizeof(c) / sizeof(*c);

	station_open(&st);
	for (uint64_t i = 0; i < n; i++) {
		c[i] = child_start(sender, NULL);
		child_tell(c[i].talk, station_number(&st));
		station_until(&st, &st.count, i + 1);
	}
	check(load_relaxed(&st.h->page->mode) & HOST_MODE_MAIL);
	for (uint64_t i = 0; i < n; i++)
		child_tell(c[i].talk, 1);
	station_until(&st, &st.count, 2 * n);
	for (uint64_t i = 0; i < n; i++) {
		child_tell(c[i].talk, 1);
		check_eq(child_wait(&c[i]), 0);
	}
	station_close(&st);
}

RUN_TESTS(unit_test(two_users_exchange_segments_and_nothing_else),
	  unit_test(a_stranger_speaks_for_itself_alone),
	  unit_test(a_stranger_has_no_slot_but_its_own), unit_test(a_stranger_rings_by_a_message),
	  unit_test(many_strangers_are_all_heard))
