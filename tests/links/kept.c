// SPDX-License-Identifier: MIT
/* What a process of another user keeps of contacts that have ended: neither memory of ours, nor
 * more descriptors on their way than its share. */
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "peers/contact_talk.h"
#include "peers/host_names.h"
#include "peers/host_state.h"
#include "station.h"
#include "util/sealed.h"

enum { STRANGER = 61007, CONTACTS = 200, FEW = 256 };

static void become(uid_t uid)
{
	if (setresgid(uid, uid, uid) || setresuid(uid, uid, uid))
		_exit(1);
}

static void start(struct child *c, int (*f)(int talk, void *arg), void *arg, struct station *st)
{
	*c = child_start(f, arg);
	child_tell(c->talk, station_number(st));
	child_hear(c->talk);
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

/* An honest process of that user, 0: ours. */
static int speaker(int talk, void *arg)
{
	uint32_t number = (uint32_t)child_hear(talk);
	struct station st = { 0 };
	struct seg s = { .op = 4, .pkey = 0xffff, .dqpn = number, .npsn = 1 };

	if (arg)
		become((uid_t)(uintptr_t)arg);
	station_open(&st);
	child_tell(talk, 0);
	s.sqpn = station_number(&st);
	return station_send(&st, station_dest(&st, number), &s);
}

static void hears(struct station *st, uid_t uid)
{
	uint64_t before = st->count;
	struct child c;

	start(&c, speaker, (void *)(uintptr_t)uid, st);
	station_until(st, &st->count, before + 1);
	check_eq(end(&c, st), 0);
}

/* Another user's process without a struct host. */
struct crook {
	unsigned int slot, mine; /* its victim's slot; its own */
	int page, ring; /* what it presents itself with */
	int fd[CONTACT_FDS]; /* what came with the victim's last message */
};

static int crook_open(struct crook *x, int talk)
{
	int name;
	void *map;

	x->slot = (unsigned int)child_hear(talk) >> 14;
	x->mine = (x->slot + NUMBER_SLOTS / 2) % NUMBER_SLOTS;
	become(STRANGER);
	child_tell(talk, 0);
	return host_name_bind(x->mine, &name) ||
	       sealed_make("page", HOST_PAGE_BYTES, SEALED_SPARSE, &x->page, &map) ||
	       sealed_make("ring", RING_CTL + RING_MIN, SEALED_SPARSE, &x->ring, &map);
}

/* As somebody new each time. */
static int crook_hello(const struct crook *x, uint64_t cookie)
{
	const struct contact_message m = { .kind = CONTACT_HELLO,
					   .slot = x->mine,
					   .cookie = cookie,
					   .gen = 1,
					   .n_keys = STATION_KEYS,
					   .key_bytes = STATION_KEYS * sizeof(struct station_key),
					   .ring_size = RING_MIN };
	int fd, fds[] = { x->page, x->ring };

	if (host_name_connect(x->slot, &fd))
		_exit(4);
	contact_talk_send(fd, &m, fds, 2); /* fails if the connection is refused */
	return fd;
}

static void crook_leave(int conn)
{
	const struct contact_message m = { .kind = CONTACT_YIELD };
	struct pollfd p = { .fd = conn };

	if (contact_talk_send(conn, &m, NULL, 0))
		_exit(5);
	while (poll(&p, 1, -1) == 1 && !(p.revents & POLLHUP))
		;
}

/* A message has come: false if it is the end. */
static bool crook_has_answer(int conn)
{
	struct pollfd p = { .fd = conn, .events = POLLIN };
	char byte;

	poll(&p, 1, -1);
	return recv(conn, &byte, 1, MSG_PEEK) == 1;
}

static void crook_hear(struct crook *x, int conn)
{
	struct contact_message m;
	unsigned int n = CONTACT_FDS;

	crook_has_answer(conn);
	if (contact_talk_receive(conn, &m, x->fd, &n, NULL) || m.kind != CONTACT_WELCOME || n != 2)
		_exit(6);
}

/* Keeps the rings of CONTACTS contacts: the pages are those of the process that made them. */
static int keeps_rings(int talk, void *arg)
{
	static int ring[CONTACTS];
	struct crook x;
	struct stat st;

	(void)arg;
	if (crook_open(&x, talk))
		return 2;
	for (int i = 0; i < CONTACTS; i++) {
		int conn = crook_hello(&x, (uint64_t)i + 1);

		crook_hear(&x, conn);
		ring[i] = x.fd[1];
		close(x.fd[0]);
		crook_leave(conn);
		close(conn);
	}
	for (int i = 0; i < CONTACTS; i++) {
		while (still(!fstat(ring[i], &st) && st.st_blocks))
			;
		if (st.st_size != RING_CTL + RING_MIN)
			return 3;
	}
	return 0;
}

TEST(a_stranger_pins_no_memory_of_ours_by_the_rings_it_keeps)
{
	struct station st = { 0 };
	struct child c;

	station_open(&st);
	start(&c, keeps_rings, NULL, &st);
	check_eq(end(&c, &st), 0);
	station_close(&st);
}

/* Has contacts, and leaves them with all their messages unread, until it is refused. */
static int reads_nothing(int talk, void *arg)
{
	int conn[FEW], n = 0;
	struct crook x;

	(void)arg;
	if (crook_open(&x, talk))
		return 2;
	while (n < FEW - 1) {
		conn[n] = crook_hello(&x, (uint64_t)n + 1);
		if (!crook_has_answer(conn[n++]))
			break;
		crook_leave(conn[n - 1]);
	}
	child_tell(talk, (uint64_t)n - 1);
	child_hear(talk);
	for (int i = 0; i < n - 1; i++)
		crook_hear(&x, conn[i]);
	child_tell(talk, 0);
	child_hear(talk);
	return 0;
}

TEST(what_a_stranger_leaves_unread_counts_as_contacts_of_its_user)
{
	const struct trust_limits most = station_limits(FEW);
	struct station st = { 0 };
	uint64_t before;
	struct child c;

	station_open(&st);
	before = station_descriptors();
	start(&c, reads_nothing, NULL, &st);
	while (still(look(&c) < 0))
		station_turn(&st);
	check_eq(child_hear(c.talk), most.each.contacts);
	check_eq(station_descriptors(), before + 1 + most.each.contacts);
	hears(&st, 0);
	child_tell(c.talk, 1);
	check_eq(child_hear(c.talk), 0);
	hears(&st, STRANGER); /* all has been read */
	child_tell(c.talk, 1);
	check_eq(end(&c, &st), 0);
	while (still(station_descriptors() != before)) /* the last contact ends */
		station_turn(&st);
	station_close(&st);
}

RUN_TESTS(unit_test(a_stranger_pins_no_memory_of_ours_by_the_rings_it_keeps),
	  unit_test(what_a_stranger_leaves_unread_counts_as_contacts_of_its_user))
