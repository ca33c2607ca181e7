// SPDX-License-Identifier: MIT
/* Every slot is taken. By another user, who may or may not listen, or lets nobody connect: our
 * processes meet under names of their own, until those are taken, too; then the open is refused,
 * and says who has them. By our own: it is refused. */
#include <errno.h>
#include <grp.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include "obs/explain.h"
#include "peers/host_names.h"
#include "station.h"

enum { TAKERS = 4, EACH = NUMBER_SLOTS / TAKERS, STRANGER = 65534, SOME = 3 };
enum { FILES = EACH * 2 * (HOST_NAMES_OWN + 2), QUEUE = 1024 };
enum manner { LISTENS, SILENT, FULL };

static const struct host_config config = { .n_keys = STATION_KEYS,
					   .key_bytes = STATION_KEYS * sizeof(struct station_key) };

/* As root it becomes another user, who may have many descriptors. */
static bool change_user(void)
{
	const struct rlimit many = { FILES, FILES };

	return geteuid() || (!setrlimit(RLIMIT_NOFILE, &many) && !setgroups(0, NULL) &&
			     !setgid(STRANGER) && !setuid(STRANGER));
}

/* Connects until nobody else can. */
static void fill(uint32_t uid, const char *name)
{
	int fd;

	while (!host_name_connect_any(uid, name, &fd))
		;
}

static bool took(uint32_t uid, const char *name, enum manner how)
{
	int fd;

	if (host_name_bind_any(uid, name, &fd) ||
	    (how != SILENT && listen(fd, how == FULL ? 0 : 8)))
		return false;
	if (how == FULL)
		fill(uid, name);
	return true;
}

/* Takes a part of the slots; then, for each of them, as many as it is told of the names that the
 * test's user has besides. */
static int taker(int talk, void *arg)
{
	unsigned int first = (unsigned int)child_hear(talk), k = 0, n;
	const enum manner *how = arg;
	uint32_t victim = geteuid();
	char name[32];

	if (!change_user())
		return 1;
	for (unsigned int i = 0; i < EACH; i++) {
		snprintf(name, sizeof(name), "slot.%u", first + i);
		if (!took(HOST_NAMES_ALL, name, *how))
			return 2;
	}
	child_tell(talk, 1);
	while ((n = (unsigned int)child_hear(talk))) {
		for (; k < n; k++) {
			for (unsigned int i = 0; i < EACH; i++) {
				snprintf(name, sizeof(name), "own.%u.%u", first + i, k);
				if (!took(victim, name, *how))
					return 3;
			}
		}
		child_tell(talk, 1);
	}
	return 0;
}

static void take_all(struct child *c, enum manner how)
{
	for (unsigned int i = 0; i < TAKERS; i++) {
		c[i] = child_start(taker, &how);
		child_tell(c[i].talk, (uint64_t)i * EACH);
		check_eq(child_hear(c[i].talk), 1);
	}
}

static void take_own(struct child *c, unsigned int n)
{
	for (int i = 0; i < TAKERS; i++) {
		child_tell(c[i].talk, n);
		check_eq(child_hear(c[i].talk), 1);
	}
}

static void give_all(struct child *c)
{
	struct host *h;

	for (int i = 0; i < TAKERS; i++) {
		child_tell(c[i].talk, 0);
		check_eq(child_wait(&c[i]), 0);
	}
	check_eq(host_create(&config, &h), 0); /* the names are free again */
	host_destroy(h);
}

static void is_refused(const char *want)
{
	char said[EXPLAIN_TEXT] = "";
	struct host *h;

	check_eq(host_create(&config, &h), EADDRINUSE);
	check_eq(explain_last(said, sizeof(said)), 0);
	check(!strncmp(said, want, strlen(want)));
}

/* One process after the other, and each reaches the other. */
static void all_meet(void)
{
	struct station st[3] = { 0 };
	struct dest *d;
	struct seg s;

	for (int i = 0; i < 3; i++)
		station_open(&st[i]);
	for (int i = 1; i < 3; i++)
		check(st[i].slot != st[0].slot);
	check(st[1].slot != st[2].slot);
	station_thread(&st[1]);
	d = station_dest(&st[0], station_number(&st[1]));
	s = (struct seg){ .op = 4, .pkey = 0xffff, .dqpn = station_number(&st[1]), .npsn = 1 };
	s.sqpn = station_number(&st[0]);
	check_eq(station_send(&st[0], d, &s), 0);
	while (!load_acquire(&st[1].count))
		station_turn(&st[0]);
	d->ops->put(d);
	for (int i = 0; i < 3; i++)
		station_close(&st[i]);
}

TEST(a_refusal_names_who_has_all_slots)
{
	char want[EXPLAIN_TEXT];
	struct child c[TAKERS];

	take_all(c, LISTENS);
	if (geteuid()) {
		snprintf(want, sizeof(want), "ibv_open_device: %d processes of this user",
			 NUMBER_SLOTS);
		is_refused(want);
		give_all(c);
		return;
	}
	all_meet();
	take_own(c, HOST_NAMES_OWN);
	snprintf(want, sizeof(want),
		 "ibv_open_device: other users, such as user id %d, have %d of the %d", STRANGER,
		 NUMBER_SLOTS, NUMBER_SLOTS);
	is_refused(want);
	give_all(c);
}

TEST(names_to_which_nobody_listens_are_passed_over)
{
	char want[EXPLAIN_TEXT];
	struct child c[TAKERS];

	if (geteuid())
		return; /* a user may not have so many descriptors */
	take_all(c, SILENT);
	all_meet();
	take_own(c, SOME);
	all_meet();
	take_own(c, HOST_NAMES_OWN);
	snprintf(want, sizeof(want),
		 "ibv_open_device: other users, who do not listen, have %d of the %d", NUMBER_SLOTS,
		 NUMBER_SLOTS);
	is_refused(want);
	give_all(c);
}

/* Whose they are the kernel tells. */
TEST(names_to_which_nobody_can_connect_are_passed_over)
{
	char want[EXPLAIN_TEXT];
	struct child c[TAKERS];

	if (geteuid())
		return;
	take_all(c, FULL);
	all_meet();
	take_own(c, SOME);
	all_meet();
	take_own(c, HOST_NAMES_OWN);
	snprintf(want, sizeof(want),
		 "ibv_open_device: other users, such as user id %d, have %d of the %d", STRANGER,
		 NUMBER_SLOTS, NUMBER_SLOTS);
	is_refused(want);
	give_all(c);
}

/* Takes a slot's name. */
static int holder(int talk, void *arg)
{
	char name[32];

	snprintf(name, sizeof(name), "slot.%u", *(unsigned int *)arg);
	if (!change_user() || !took(HOST_NAMES_ALL, name, LISTENS))
		return 1;
	child_tell(talk, 1);
	child_hear(talk);
	return 0;
}

/* Anybody may fill the queue of a process that is stopped: its slot is taken all the same, and what
 * is meant for it does not go to the other user. */
TEST(a_process_to_which_nobody_can_connect_has_its_slot)
{
	unsigned int slot = 7;
	struct rlimit many;
	struct child c;
	char name[32];
	int fd, second;

	if (geteuid())
		return;
	check_eq(getrlimit(RLIMIT_NOFILE, &many), 0);
	many.rlim_cur = QUEUE * 2;
	check_eq(setrlimit(RLIMIT_NOFILE, &many), 0);
	c = child_start(holder, &slot);
	check_eq(child_hear(c.talk), 1);
	check_eq(host_name_bind_own(slot, &fd), 0);
	snprintf(name, sizeof(name), "own.%u.0", slot);
	fill(geteuid(), name);
	check_eq(host_name_bind_own(slot, &second), EADDRINUSE);
	check_eq(host_name_connect(slot, &second), EAGAIN);
	child_tell(c.talk, 0);
	check_eq(child_wait(&c), 0);
	check_eq(host_name_bind(slot, &second), EADDRINUSE);
	close(fd);
	check_eq(host_name_bind(slot, &fd), 0);
	close(fd);
}

/* Alone it would reach nobody, and no sentence would say so later. */
TEST(without_a_descriptor_for_its_name_it_is_refused)
{
	struct rlimit was, few;
	struct host *h;
	int fd = dup(0), err;

	check(fd >= 0);
	close(fd);
	check_eq(getrlimit(RLIMIT_NOFILE, &was), 0);
	few = was;
	few.rlim_cur = (rlim_t)fd;
	do {
		check_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
		err = host_create(&config, &h);
		check(!err || err == EMFILE);
	} while (err && few.rlim_cur++ < was.rlim_cur);
	check_eq(err, 0);
	check(!host_is_alone(h));
	host_destroy(h);
	check_eq(setrlimit(RLIMIT_NOFILE, &was), 0);
}

RUN_TESTS(unit_test(a_refusal_names_who_has_all_slots),
	  unit_test(without_a_descriptor_for_its_name_it_is_refused),
	  unit_test(names_to_which_nobody_listens_are_passed_over),
	  unit_test(names_to_which_nobody_can_connect_are_passed_over),
	  unit_test(a_process_to_which_nobody_can_connect_has_its_slot))
