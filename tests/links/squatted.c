// SPDX-License-Identifier: MIT
/* Another user has bound, and listens to, the names by which our processes find each other: that of
 * a process for messages of connection management, and doors of a meeting. Ours find each other
 * all the same, and one at a time goes through a door. */
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include "engine/gsi/gsi_names.h"
#include "peers/host_names.h"
#include "peers/meeting.h"
#include "station.h"

enum { STRANGER = 65534, SQUATTED = 3, VISITORS = 4, VISITS = 20 };

static const char meeting_name[] = "squatted";

static void take(uint32_t uid, const char *name)
{
	int fd;

	if (host_name_bind_any(uid, name, &fd) || listen(fd, 8))
		exit(2);
}

/* Another user takes the names of the test's user, and of slot @arg. */
static int squat(int talk, void *arg)
{
	uint32_t victim = geteuid();
	char name[64];

	if (setgroups(0, NULL) || setgid(STRANGER) || setuid(STRANGER))
		return 1;
	snprintf(name, sizeof(name), "cm.process.%u", *(unsigned int *)arg);
	take(HOST_NAMES_ALL, name);
	for (unsigned int k = 0; k < SQUATTED; k++) {
		snprintf(name, sizeof(name), "cm.process.%u.%u", *(unsigned int *)arg, k);
		take(victim, name);
		snprintf(name, sizeof(name), "%s.new.%u", meeting_name, k);
		take(victim, name);
	}
	child_tell(talk, 1);
	child_hear(talk);
	return 0;
}

TEST(a_process_is_found_though_another_user_has_its_name)
{
	struct station st = { 0 };
	unsigned int slot;
	struct child c;
	int fd, conn;

	station_open(&st);
	slot = st.slot;
	c = child_start(squat, &slot);
	check_eq(child_hear(c.talk), 1);
	check_eq(gsi_process_connect(slot, &conn), ECONNREFUSED);
	check_eq(gsi_process_bind(slot, &fd), 0);
	check_eq(gsi_process_connect(slot, &conn), 0);
	close(conn);
	close(fd);
	child_tell(c.talk, 0);
	check_eq(child_wait(&c), 0);
	station_close(&st);
}

static int has_not_its_parents(int talk, void *arg)
{
	int fd;

	(void)talk;
	return gsi_process_way(*(unsigned int *)arg, &fd) == ECONNREFUSED ? 0 : 1;
}

TEST(a_process_needs_no_name_for_what_it_has_read_for_itself)
{
	struct station st = { 0 };
	unsigned int slot;
	struct child c;
	char got = 0;
	int in, fd;

	station_open(&st);
	slot = st.slot;
	check_eq(gsi_process_way(slot, &fd), ECONNREFUSED);
	check_eq(gsi_own_open(slot, &in), 0);
	check_eq(gsi_process_way(slot, &fd), 0);
	check_eq(send(fd, "m", 1, 0), 1);
	check_eq(recv(in, &got, 1, MSG_DONTWAIT), 1);
	check_eq(got, 'm');
	close(fd);
	check_eq(gsi_process_way(slot + 1, &fd), ECONNREFUSED);
	c = child_start(has_not_its_parents, &slot);
	check_eq(child_wait(&c), 0);
	gsi_own_close();
	check_eq(gsi_process_way(slot, &fd), ECONNREFUSED);
	close(in);
	station_close(&st);
}

/* Goes in and out; @arg counts who is inside. */
static int visit(int talk, void *arg)
{
	unsigned int *inside = arg;
	struct station st = { 0 };
	struct meeting *m;
	int fd, bad = 0;

	station_open(&st);
	for (int i = 0; i < VISITS; i++) {
		if (meeting_enter(st.h, meeting_name, &m, &fd))
			return 1;
		bad += __atomic_add_fetch(inside, 1, __ATOMIC_SEQ_CST) != 1;
		usleep(100);
		__atomic_sub_fetch(inside, 1, __ATOMIC_SEQ_CST);
		meeting_leave(m);
	}
	station_close(&st);
	child_tell(talk, 1);
	return bad ? 2 : 0;
}

TEST(one_process_at_a_time_is_at_the_doors_of_which_another_user_has_some)
{
	unsigned int *inside = mmap(NULL, sizeof(*inside), PROT_READ | PROT_WRITE,
				    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned int slot = NUMBER_SLOTS - 1;
	struct child squatter, v[VISITORS];

	squatter = child_start(squat, &slot);
	check_eq(child_hear(squatter.talk), 1);
	for (int i = 0; i < VISITORS; i++)
		v[i] = child_start(visit, inside);
	child_tell(squatter.talk, 0); /* it leaves while they come and go */
	check_eq(child_wait(&squatter), 0);
	for (int i = 0; i < VISITORS; i++)
		check_eq(child_wait(&v[i]), 0);
	munmap(inside, sizeof(*inside));
}

RUN_TESTS(unit_test(a_process_is_found_though_another_user_has_its_name),
	  unit_test(a_process_needs_no_name_for_what_it_has_read_for_itself),
	  unit_test(one_process_at_a_time_is_at_the_doors_of_which_another_user_has_some))
