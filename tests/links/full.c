// SPDX-License-Identifier: MIT
/* Every slot is taken. By another user: our processes meet under names of their own, until those
 * are taken, too; then the open is refused, and says who has them. By our own: it is refused. */
#include <errno.h>
#include <grp.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>
#include "obs/explain.h"
#include "peers/host_names.h"
#include "station.h"

enum { TAKERS = 4, EACH = NUMBER_SLOTS / TAKERS, STRANGER = 65534 };

static const struct host_config config = { .n_keys = STATION_KEYS,
					   .key_bytes = STATION_KEYS * sizeof(struct station_key) };

/* As root it becomes another user, who may have many descriptors. */
static bool change_user(void)
{
	const struct rlimit many = { EACH * (HOST_NAMES_OWN + 2), EACH * (HOST_NAMES_OWN + 2) };

	return geteuid() || (!setrlimit(RLIMIT_NOFILE, &many) && !setgroups(0, NULL) &&
			     !setgid(STRANGER) && !setuid(STRANGER));
}

/* Takes a part of the slots; then, if it is told so, of the names that the test's user has
 * besides. */
static int taker(int talk, void *arg)
{
	unsigned int first = (unsigned int)child_hear(talk);
	uint32_t victim = geteuid();
	char name[32];
	int fd;

	(void)arg;
	if (!change_user())
		return 1;
	for (unsigned int i = 0; i < EACH; i++)
		if (host_name_bind(first + i, &fd))
			return 2;
	child_tell(talk, 1);
	if (!child_hear(talk))
		return 0;
	for (unsigned int i = 0; i < EACH * HOST_NAMES_OWN; i++) {
		snprintf(name, sizeof(name), "own.%u.%u", first + i / HOST_NAMES_OWN,
			 i % HOST_NAMES_OWN);
		if (host_name_bind_any(victim, name, &fd))
			return 3;
	}
	child_tell(talk, 1);
	child_hear(talk);
	return 0;
}

static void take_all(struct child *c)
{
	for (unsigned int i = 0; i < TAKERS; i++) {
		c[i] = child_start(taker, NULL);
		child_tell(c[i].talk, (uint64_t)i * EACH);
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

	take_all(c);
	if (geteuid()) {
		snprintf(want, sizeof(want), "ibv_open_device: %d processes of this user",
			 NUMBER_SLOTS);
		is_refused(want);
		give_all(c);
		return;
	}
	all_meet();
	for (int i = 0; i < TAKERS; i++) {
		child_tell(c[i].talk, 1);
		check_eq(child_hear(c[i].talk), 1);
	}
	snprintf(want, sizeof(want),
		 "ibv_open_device: other users, such as user id %d, have %d of the %d", STRANGER,
		 NUMBER_SLOTS, NUMBER_SLOTS);
	is_refused(want);
	give_all(c);
}

RUN_TESTS(unit_test(a_refusal_names_who_has_all_slots))
