// SPDX-License-Identifier: MIT
/* Every slot is taken: the open is refused, and says whether it was another user. */
#include <errno.h>
#include <grp.h>
#include <stdlib.h>
#include <unistd.h>
#include "obs/explain.h"
#include "peers/host_names.h"
#include "station.h"

enum { TAKERS = 4, STRANGER = 65534 };

/* Takes a part of the slots; as root it becomes another user before. */
static int taker(int talk, void *arg)
{
	unsigned int first = (unsigned int)child_hear(talk);
	int fd;

	(void)arg;
	if (!geteuid() && (setgroups(0, NULL) || setgid(STRANGER) || setuid(STRANGER)))
		return 1;
	for (unsigned int i = 0; i < NUMBER_SLOTS / TAKERS; i++)
		if (host_name_bind(first + i, &fd))
			return 2;
	child_tell(talk, 1);
	child_hear(talk);
	return 0;
}

TEST(a_refusal_names_who_has_all_slots)
{
	char want[EXPLAIN_TEXT], said[EXPLAIN_TEXT] = "";
	const struct host_config cfg = { .n_keys = STATION_KEYS,
					 .key_bytes = STATION_KEYS * sizeof(struct station_key) };
	struct child c[TAKERS];
	struct host *h;

	for (int i = 0; i < TAKERS; i++) {
		c[i] = child_start(taker, NULL);
		child_tell(c[i].talk, (uint64_t)i * NUMBER_SLOTS / TAKERS);
		check_eq(child_hear(c[i].talk), 1);
	}
	check_eq(host_create(&cfg, &h), EADDRINUSE);
	if (geteuid())
		snprintf(want, sizeof(want), "ibv_open_device: %d processes of this user",
			 NUMBER_SLOTS);
	else
		snprintf(want, sizeof(want),
			 "ibv_open_device: other users, such as user id %d, have %d of the %d",
			 STRANGER, NUMBER_SLOTS, NUMBER_SLOTS);
	check_eq(explain_last(said, sizeof(said)), 0);
	check(!strncmp(said, want, strlen(want)));
	for (int i = 0; i < TAKERS; i++) {
		child_tell(c[i].talk, 1);
		check_eq(child_wait(&c[i]), 0);
	}
	check_eq(host_create(&cfg, &h), 0); /* the names are free again */
	host_destroy(h);
}

RUN_TESTS(unit_test(a_refusal_names_who_has_all_slots))
