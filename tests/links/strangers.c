// SPDX-License-Identifier: MIT
/* Two users on one host: a child under another user id meets this process. Segments go both ways,
 * by value; neither gets anything that tells addresses, nor speaks for anybody but itself. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include "obs/explain.h"
#include "peers/contact_talk.h"
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

static void become(uid_t uid)
{
	if (setresgid(uid, uid, uid) || setresuid(uid, uid, uid))
		_exit(1);
}

/* A child's station, and the way from it to the test's. */
static struct dest *meet(struct station *st, int talk)
{
	station_open(st);
	child_tell(talk, station_number(st));
	return station_dest(st, (uint32_t)child_hear(talk));
}

static struct dest *meet_as_stranger(struct station *st, int talk)
{
	become(STRANGER);
	return meet(st, talk);
}

/* The other half: starts a child that meets @st; the number of its station. */
static uint32_t start(struct child *c, int (*f)(int talk, void *arg), void *arg, struct station *st)
{
	*c = child_start(f, arg);
	child_tell(c->talk, station_number(st));
	return (uint32_t)child_hear(c->talk);
}

/* 0: it has ended; below 0: it has said nothing. */
static ssize_t look(const struct child *c)
{
	return recv(c->talk, &(char){ 0 }, 1, MSG_DONTWAIT | MSG_PEEK);
}

/* Turns until the child has ended. */
static int end(struct child *c, struct station *st)
{
	while (look(c))
		station_turn(st);
	return child_wait(c);
}

static const struct contact *contact_of(struct dest *d)
{
	return to_target(d)->c;
}

/* Small and large payloads, answered one by one. */
static int partner(int talk, void *arg)
{
	struct station st = { 0 };
	struct dest *d = meet_as_stranger(&st, talk);
	struct seg s;

	(void)arg;
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
	struct station st = { 0 };
	struct child c;
	struct dest *d;

	station_open(&st);
	d = station_dest(&st, start(&c, partner, NULL, &st));
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
	struct dest *d = meet_as_stranger(&st, talk);
	struct seg s = to(&st, 0);

	(void)arg;
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
	uint32_t number = 0;
	struct station st = { .got = heard, .arg = &number };
	struct child c;

	station_open(&st);
	start(&c, liar, NULL, &st);
	station_until(&st, &st.count, 1);
	check_eq(number, 77);
	check_eq(st.count, 1);
	check_eq(child_wait(&c), 0);
	station_close(&st);
}

/* Asks until it is refused once, and then until its deadline. */
static bool is_refused(struct station *st, struct dest *d)
{
	const struct target *t = to_target(d);
	struct seg s = to(st, 0);

	while (t->state != TARGET_UP && (!t->retry || t->state != TARGET_WANTED))
		station_turn(st);
	st->ahead = HOST_CONTACT_NS;
	return station_send(st, d, &s) == ENETUNREACH;
}

/* Says that it has the slot of another process: what is for that one would come to it. */
static int thief(int talk, void *arg)
{
	struct station st = { 0 };
	struct dest *d = meet_as_stranger(&st, talk);

	st.h->listener[0].slot = (uint32_t)(uintptr_t)arg;
	return is_refused(&st, d) ? 0 : 2;
}

TEST(a_stranger_has_no_slot_but_its_own)
{
	struct station st = { 0 }, owner = { 0 };
	struct child c;

	station_open(&st);
	station_open(&owner);
	start(&c, thief, (void *)(uintptr_t)owner.slot, &st);
	check_eq(end(&c, &st), 0);
	check_eq(st.count, 0);
	check(!host_target_now(st.h, owner.slot));
	station_close(&owner);
	station_close(&st);
}

static int sender(int talk, void *arg)
{
	struct station st = { 0 };
	struct dest *d = meet_as_stranger(&st, talk);

	(void)arg;
	for (int i = 0; i < 2; i++) {
		struct seg s = to(&st, 0);

		if (station_send(&st, d, &s))
			return 1;
		child_hear(talk);
	}
	return 0;
}

/* It has no doorbell of ours, which it could fill so that others hang: it sends a message. */
TEST(a_stranger_rings_by_a_message)
{
	struct station st = { 0 };
	struct pollfd bell, control;
	struct child c;

	station_open(&st);
	start(&c, sender, NULL, &st);
	bell = (struct pollfd){ .fd = host_doorbell_fd(st.h), .events = POLLIN };
	control = (struct pollfd){ .fd = host_control_fd(st.h), .events = POLLIN };
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
		start(&c[i], sender, NULL, &st);
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

static void heard_from(struct station *st, const struct seg *s)
{
	((uint32_t *)st->arg)[s->dqpn]++;
}

/* Sends one, and when it is told to another one, or as many as there is room for. */
static int one_of_many(int talk, void *arg)
{
	struct station st = { 0 };
	struct dest *d = meet_as_stranger(&st, talk);
	struct seg s = to(&st, (uint32_t)(uintptr_t)arg);

	if (station_send(&st, d, &s))
		return 1;
	child_hear(talk);
	while (!dest_send(d, &s, NULL) && !arg)
		;
	child_tell(talk, 1);
	child_hear(talk);
	return 0;
}

TEST(one_of_many_that_never_ceases_does_not_keep_the_others_unheard)
{
	enum { N = HOST_DIRECT_PEERS + 2, BUDGET = 64, CALLS = 3 };
	struct child c[N];
	uint32_t from[N] = { 0 };
	struct station st = { .got = heard_from, .arg = from };

	station_open(&st);
	for (uintptr_t i = 0; i < N; i++) {
		start(&c[i], one_of_many, (void *)i, &st);
		station_until(&st, &st.count, i + 1);
	}
	for (int i = 0; i < N; i++) {
		child_tell(c[i].talk, 1);
		check_eq(child_hear(c[i].talk), 1);
	}
	for (int i = 0; i < CALLS; i++)
		check(host_drain(st.h, BUDGET));
	check(from[0] <= 1 + CALLS * BUDGET);
	for (int i = 1; i < N; i++)
		check_eq(from[i], 2);
	for (int i = 0; i < N; i++) {
		child_tell(c[i].talk, 1);
		check_eq(child_wait(&c[i]), 0);
	}
	station_close(&st);
}

/* --- what strangers can take --- */

enum { FEW = 256, FLOOD = 10, CROWD_OF_USERS = 6 };

/* Becomes the user @arg, and connects without a word. */
static int silent(int talk, void *arg)
{
	unsigned int slot = (unsigned int)child_hear(talk) >> 14;
	int fd;

	become((uid_t)(uintptr_t)arg);
	for (int i = 0; i < FLOOD; i++)
		if (host_name_connect(slot, &fd))
			return 2;
	child_tell(talk, 0);
	child_hear(talk);
	return 0;
}

static int speaker(int talk, void *arg)
{
	struct station st = { 0 };
	struct seg s;
	struct dest *d;

	if (arg)
		become((uid_t)(uintptr_t)arg);
	d = meet(&st, talk);
	s = to(&st, 0);
	return station_send(&st, d, &s);
}

/* A process of that user, 0 for ours, is heard. */
static void hears(struct station *st, uid_t uid)
{
	uint64_t before = st->count;
	struct child c;

	start(&c, speaker, (void *)(uintptr_t)uid, st);
	station_until(st, &st->count, before + 1);
	check_eq(end(&c, st), 0);
}

static uint64_t pending(const struct station *st)
{
	uint64_t n = 0;

	for (const struct contact *c = st->h->pending; c; c = c->next)
		n++;
	return n;
}

/* @users other users connect without a word: @held connections of theirs are kept, until their
 * deadline, and our own processes come through meanwhile. */
static void stands_flood(unsigned int users, uint64_t held)
{
	struct child c[CROWD_OF_USERS];
	struct station st = { 0 };
	uint64_t before;

	station_open(&st);
	before = station_descriptors();
	for (unsigned int i = 0; i < users; i++) {
		start(&c[i], silent, (void *)(uintptr_t)(STRANGER + i), &st);
		before++; /* its talk */
	}
	while (still(st.h->turned_away + pending(&st) < users * FLOOD))
		station_turn(&st);
	check_eq(pending(&st), held);
	check_eq(station_descriptors(), before + 2 * held);
	hears(&st, 0);
	st.ahead = HOST_CONTACT_NS;
	while (still(st.h->pending))
		station_turn(&st);
	check_eq(station_descriptors(), before);
	hears(&st, STRANGER);
	for (unsigned int i = 0; i < users; i++) {
		child_tell(c[i].talk, 1);
		check_eq(child_wait(&c[i]), 0);
	}
	station_close(&st);
}

TEST(a_user_who_says_nothing_has_few_connections)
{
	const struct trust_limits most = station_limits(FEW);
	char said[EXPLAIN_TEXT] = "";

	stands_flood(1, most.each.pending);
	check_eq(explain_last(said, sizeof(said)), 0);
	check(strstr(said, "user id 61007 refused"));
}

TEST(many_users_who_say_nothing_have_few_connections_together)
{
	const struct trust_limits most = station_limits(FEW);

	check(most.all.pending < CROWD_OF_USERS * most.each.pending);
	stands_flood(CROWD_OF_USERS, most.all.pending);
}

/* One process with a cookie after the other: makes all the contacts that it can get, and then as
 * many as arg says are too many. */
/* Says HELLO with a socket, which might linger, and comes again. */
static int lingers(int talk, void *arg)
{
	unsigned int slot = (unsigned int)child_hear(talk) >> 14;
	const struct contact_message m = { .kind = CONTACT_HELLO };
	char byte;
	int fd;

	become((uid_t)(uintptr_t)arg);
	child_tell(talk, 0);
	for (int i = 0; i < 2; i++) {
		if (host_name_connect(slot, &fd) || (!i && contact_talk_send(fd, &m, &fd, 1)))
			return 2;
		if (fcntl(fd, F_SETFL, 0) || recv(fd, &byte, 1, 0) > 0) /* it is ended at once */
			return 3;
	}
	child_tell(talk, 0);
	child_hear(talk);
	return 0;
}

TEST(a_user_who_sends_what_may_wait_is_not_heard_again)
{
	struct station st = { 0 };
	uint64_t before;
	struct child c;

	station_open(&st);
	before = station_descriptors();
	start(&c, lingers, (void *)(uintptr_t)STRANGER, &st);
	while (still(!st.h->n_barred))
		station_turn(&st);
	while (still(look(&c) < 0))
		station_turn(&st);
	check_eq(child_hear(c.talk), 0);
	check(!st.h->pending && st.h->n_barred == 1 && st.h->barred[0] == STRANGER);
	hears(&st, STRANGER + 1);
	child_tell(c.talk, 1);
	check_eq(child_wait(&c), 0);
	while (still(station_descriptors() != before)) /* a thread closes the socket that it sent */
		station_turn(&st);
	station_close(&st);
}

static int greedy(int talk, void *arg)
{
	static struct station st[FEW];
	uint64_t number, n = 0;
	struct dest *d;

	become(STRANGER);
	child_tell(talk, 0);
	number = child_hear(talk);
	for (; n < (uintptr_t)arg; n++) {
		struct seg s;

		station_open(&st[n]);
		d = station_dest(&st[n], (uint32_t)number);
		s = to(&st[n], 0);
		if (station_send(&st[n], d, &s))
			return 2;
	}
	station_open(&st[n]);
	d = station_dest(&st[n], (uint32_t)number);
	if (!is_refused(&st[n], d))
		return 3;
	child_tell(talk, 1);
	child_hear(talk);
	return 0;
}

TEST(a_user_has_a_part_of_the_contacts)
{
	const struct trust_limits most = station_limits(FEW);
	struct station st = { 0 };
	uint64_t before;
	struct child c;

	station_open(&st);
	before = station_descriptors();
	start(&c, greedy, (void *)(uintptr_t)most.each.contacts, &st);
	while (still(look(&c) < 0))
		station_turn(&st);
	check_eq(child_hear(c.talk), 1);
	station_until(&st, &st.count, most.each.contacts); /* the last is still on its way */
	check_eq(st.count, most.each.contacts);
	check_eq(station_descriptors(), before + 1 + 2 * most.each.contacts);
	hears(&st, 0);
	hears(&st, STRANGER + 1);
	child_tell(c.talk, 1);
	check_eq(end(&c, &st), 0);
	while (still(st.h->ups))
		station_turn(&st);
	check_eq(station_descriptors(), before);
	hears(&st, STRANGER);
	station_close(&st);
}

/* --- users that look alike --- */

enum { NOBODY = 65534, FORBIDDEN = 77 };

/* A user namespace in which we are nobody, as everybody else is. */
static bool among_nobodies(void)
{
	char map[32];
	int fd, n = snprintf(map, sizeof(map), "%d %d 1", NOBODY, STRANGER);
	bool done;

	become(STRANGER);
	if (prctl(PR_SET_DUMPABLE, 1) || unshare(CLONE_NEWUSER))
		return false;
	fd = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
	done = fd >= 0 && write(fd, map, (size_t)n) == n;
	if (fd >= 0)
		close(fd);
	return done;
}

/* Two in that namespace see that they are of one user, if Linux can tell. */
static int fellow(int talk, void *arg)
{
	struct station st = { 0 };
	struct dest *d = meet(&st, talk);
	struct seg s = to(&st, 0);

	(void)arg;
	if (station_send(&st, d, &s))
		return 1;
	child_hear(talk);
	return 0;
}

static bool tells_processes_apart(void)
{
	enum { PEERPIDFD = 77 };
	int pair[2], fd = -1;
	socklen_t len = sizeof(fd);
	bool can;

	check_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	can = !getsockopt(pair[0], SOL_SOCKET, PEERPIDFD, &fd, &len);
	if (can)
		close(fd);
	close(pair[0]);
	close(pair[1]);
	return can;
}

static bool has_a_fellow(struct station *st)
{
	struct child c;
	struct dest *d = station_dest(st, start(&c, fellow, NULL, st));
	bool stranger;

	station_until(st, &st->count, 1);
	stranger = contact_of(d)->name.stranger;
	child_tell(c.talk, 1);
	d->ops->put(d);
	return !child_wait(&c) && stranger != tells_processes_apart();
}

static int nobody(int talk, void *arg)
{
	struct station st = { 0 };
	struct dest *d;
	struct seg s;
	bool fellow;

	(void)arg;
	if (!among_nobodies()) {
		child_hear(talk); /* left unread it would be an error of the other end's socket */
		child_tell(talk, FORBIDDEN);
		return FORBIDDEN;
	}
	d = meet(&st, talk);
	s = to(&st, 0);
	if (station_send(&st, d, &s))
		return 1;
	if (contact_of(d)->name.uid != NOBODY || !contact_of(d)->name.stranger ||
	    contact_of(d)->tables)
		return 2;
	fellow = has_a_fellow(&st);
	child_hear(talk); /* what was sent has come */
	return fellow ? 0 : 3;
}

/* The process of @uid meets one that does not know whose it is: it gets nothing. */
static int of_user(int talk, void *arg)
{
	struct station st = { 0 };
	struct child c;
	uint32_t number;
	int status;

	(void)talk;
	if (arg)
		become((uid_t)(uintptr_t)arg);
	station_open(&st);
	number = start(&c, nobody, NULL, &st);
	if (number != FORBIDDEN) {
		struct dest *d = station_dest(&st, number);

		while (!st.count && look(&c))
			station_turn(&st);
		if (!st.count || !contact_of(d)->name.stranger || contact_of(d)->tables)
			return 4;
		child_tell(c.talk, 1);
	}
	status = end(&c, &st);
	return status == FORBIDDEN ? 0 : status;
}

TEST(one_of_many_nobodies_is_a_stranger)
{
	struct child c = child_start(of_user, NULL);

	check_eq(child_wait(&c), 0);
}

TEST(a_nobody_and_its_own_user_outside_meet_as_strangers)
{
	struct child c = child_start(of_user, (void *)(uintptr_t)STRANGER);

	check_eq(child_wait(&c), 0);
}

RUN_TESTS(unit_test(two_users_exchange_segments_and_nothing_else),
	  unit_test(a_stranger_speaks_for_itself_alone),
	  unit_test(a_stranger_has_no_slot_but_its_own), unit_test(a_stranger_rings_by_a_message),
	  unit_test(many_strangers_are_all_heard),
	  unit_test(one_of_many_that_never_ceases_does_not_keep_the_others_unheard),
	  unit_test(a_user_who_says_nothing_has_few_connections),
	  unit_test(many_users_who_say_nothing_have_few_connections_together),
	  unit_test(a_user_who_sends_what_may_wait_is_not_heard_again),
	  unit_test(a_user_has_a_part_of_the_contacts),
	  unit_test(one_of_many_nobodies_is_a_stranger),
	  unit_test(a_nobody_and_its_own_user_outside_meet_as_strangers))
