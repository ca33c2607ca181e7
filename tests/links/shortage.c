// SPDX-License-Identifier: MIT
/* A process that has no descriptor left: it does not enter a meeting without a look at its door; to
 * connections, which any user may make, it listens again when it may have some, and not before. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>
#include "peers/host_names.h"
#include "peers/host_state.h"
#include "peers/meeting.h"
#include "station.h"
#include "util/clock.h"

enum { FEW = 64 /* descriptors */, S = 1000000000 };

static char name[32];

static struct {
	struct rlimit was;
	int fd[FEW];
	unsigned int n;
} taken;

static void take_all(void)
{
	struct rlimit few;

	check_eq(getrlimit(RLIMIT_NOFILE, &taken.was), 0);
	few = (struct rlimit){ FEW, taken.was.rlim_max };
	check_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	while ((taken.fd[taken.n] = dup(0)) >= 0)
		taken.n++;
	check_eq(errno, EMFILE);
}

static void give_back(void)
{
	while (taken.n)
		close(taken.fd[--taken.n]);
	check_eq(setrlimit(RLIMIT_NOFILE, &taken.was), 0);
}

static bool readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

/* The engine thread, which sleeps on the one and until the other, would not wake at once. */
static void rests_for_a_while(struct station *st, uint64_t now)
{
	for (int i = 0; i < 2; i++) {
		host_control(st->h, now);
		check(!readable(host_control_fd(st->h)));
		check(host_deadline(st->h) > now);
		check(host_deadline(st->h) < now + S);
	}
}

TEST(a_contact_waits_until_there_is_a_descriptor)
{
	struct station st = { 0 };
	uint64_t now;
	int conn;

	station_open(&st);
	check_eq(host_name_connect(st.slot, &conn), 0);
	take_all();
	now = clock_now();
	rests_for_a_while(&st, now);
	rests_for_a_while(&st, host_deadline(st.h));
	give_back();
	host_control(st.h, host_deadline(st.h));
	check(st.h->pending);
	close(conn);
	station_close(&st);
}

/* A member, and a process that has connected to it. */
static struct meeting *be_asked(struct station *st, int *conn)
{
	struct meeting_other who;
	struct meeting *m;
	char member[64];
	int fd;

	station_open(st);
	check_eq(meeting_enter(st->h, name, &m, &fd, &who), 0);
	check_eq(meeting_begin(m, 0, &who), 0);
	snprintf(member, sizeof(member), "%s.%u", name, st->slot);
	check_eq(host_name_connect_any(st->h->uid, member, conn), 0);
	return m;
}

TEST(so_does_a_process_that_asks_a_member)
{
	struct station st = { 0 };
	struct meeting *m;
	int conn;

	m = be_asked(&st, &conn);
	take_all();
	rests_for_a_while(&st, clock_now());
	give_back();
	check(!readable(conn));
	host_control(st.h, host_deadline(st.h));
	check(readable(conn));
	close(conn);
	meeting_leave(m);
	station_close(&st);
}

/* Nothing of it is left where the engine looks. */
TEST(a_member_may_leave_while_it_rests)
{
	struct station st = { 0 };
	struct meeting *m;
	int conn;

	m = be_asked(&st, &conn);
	take_all();
	rests_for_a_while(&st, clock_now());
	meeting_leave(m);
	give_back();
	check(!st.h->resting);
	check(readable(conn)); /* its end */
	close(conn);
	station_close(&st);
}

TEST(nobody_enters_a_meeting_without_a_look_at_the_door)
{
	struct meeting_other who;
	struct station st = { 0 };
	struct meeting *m;
	int fd;

	station_open(&st);
	take_all();
	check_eq(meeting_enter(st.h, name, &m, &fd, &who), EMFILE);
	give_back();
	check_eq(meeting_enter(st.h, name, &m, &fd, &who), 0);
	meeting_leave(m);
	station_close(&st);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		unit_test(a_contact_waits_until_there_is_a_descriptor),
		unit_test(so_does_a_process_that_asks_a_member),
		unit_test(a_member_may_leave_while_it_rests),
		unit_test(nobody_enters_a_meeting_without_a_look_at_the_door),
	};

	snprintf(name, sizeof(name), "shortage.%d", (int)getpid());
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
