// SPDX-License-Identifier: MIT
/* Another user has bound, and listens to, the names by which our processes find each other: that of
 * a process for messages of connection management, and doors and members of a meeting. He may let
 * nobody connect. Ours find each other all the same, and one at a time goes through a door. */
#include <arpa/inet.h>
#include <errno.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include "length.h"
#include "engine/gsi/gsi.h"
#include "engine/gsi/gsi_own.h"
#include "peers/host_names.h"
#include "peers/host_state.h"
#include "peers/meeting.h"
#include "station.h"
#include "util/clock.h"

enum {
	STRANGER = 65534,
	SQUATTED = 3,
	VISITORS = 4,
	VISITS = 10,
	STAYING = 7,
	FIRST = 500,
	SLOTS = 512,
	LOOKS = 2000
};

#define TIME_FOR_ALL UINT64_C(5000000000) /* ns; 64 a second are searched for */

static const char meeting_name[] = "squatted";

static bool full; /* nobody can connect to the names that are taken */

static void take(uint32_t uid, const char *name)
{
	int fd;

	if (host_name_bind_any(uid, name, &fd) || listen(fd, full ? 0 : 8))
		exit(2);
	while (full && !host_name_connect_any(uid, name, &fd))
		;
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
		snprintf(name, sizeof(name), "%s.%u", meeting_name, FIRST + k);
		take(victim, name);
	}
	child_tell(talk, 1);
	child_hear(talk);
	return 0;
}

static void is_found(int unreached)
{
	struct station st = { 0 };
	unsigned int slot;
	struct child c;
	int fd, conn;

	station_open(&st);
	slot = st.slot;
	c = child_start(squat, &slot);
	check_eq(child_hear(c.talk), 1);
	check_eq(gsi_process_connect(slot, &conn), unreached);
	check_eq(gsi_process_bind(slot, &fd), 0);
	check_eq(gsi_process_connect(slot, &conn), 0);
	close(conn);
	close(fd);
	child_tell(c.talk, 0);
	check_eq(child_wait(&c), 0);
	station_close(&st);
}

TEST(a_process_is_found_though_another_user_has_its_name)
{
	is_found(ECONNREFUSED);
}

TEST(so_is_one_whose_name_nobody_can_connect_to)
{
	full = true;
	is_found(EAGAIN);
	full = false;
}

/* Messages of strangers name any slot, and are for any process: none is worth many searches. */
TEST(processes_that_are_not_there_are_looked_for_seldom)
{
	struct station st = { 0 };
	unsigned int refused = 0, put_off = 0;
	int err, fd, conn;
	uint64_t begun;

	station_open(&st);
	begun = clock_now();
	for (unsigned int i = 0; i < SLOTS; i++) /* by one search */
		check_eq(gsi_process_connect(FIRST, &conn), ECONNREFUSED);
	for (unsigned int i = 0; i < SLOTS; i++) {
		err = gsi_process_connect(FIRST + i, &conn);
		refused += err == ECONNREFUSED;
		put_off += err == EAGAIN;
	}
	check_eq(refused + put_off, SLOTS);
	check(refused);
	check(put_off || clock_now() - begun > TIME_FOR_ALL);
	check_eq(gsi_process_bind(st.slot, &fd), 0);
	check_eq(gsi_process_connect(st.slot, &conn), 0); /* it is there */
	close(conn);
	close(fd);
	station_close(&st);
}

/* Its user id is mapped nowhere: it cannot say which names processes of its user have. */
static int does_not_know(int talk, void *arg)
{
	int conn;

	(void)talk;
	if (unshare(CLONE_NEWUSER))
		return 77;
	return gsi_process_connect(*(unsigned int *)arg, &conn) == EPERM ? 0 : 1;
}

TEST(who_may_not_look_does_not_say_that_a_process_is_not_there)
{
	unsigned int slot = FIRST - 1;
	struct child c = child_start(does_not_know, &slot);
	int answer = child_wait(&c);

	if (answer == 77)
		skip();
	check_eq(answer, 0);
}

static int has_not_its_parents(int talk, void *arg)
{
	(void)talk;
	return gsi_process_say(*(unsigned int *)arg, "m", 1) == ECONNREFUSED ? 0 : 1;
}

TEST(a_process_needs_no_name_for_what_it_has_read_for_itself)
{
	struct station st = { 0 };
	unsigned int slot;
	struct child c;
	char got = 0;
	int in;

	station_open(&st);
	slot = st.slot;
	check_eq(gsi_process_say(slot, "m", 1), ECONNREFUSED);
	check_eq(gsi_own_open(slot, NULL, &in), 0);
	check_eq(gsi_process_say(slot, "m", 1), 0);
	check_eq(recv(in, &got, 1, MSG_DONTWAIT), 1);
	check_eq(got, 'm');
	check_eq(gsi_process_say(slot + 1, "m", 1), ECONNREFUSED);
	c = child_start(has_not_its_parents, &slot);
	check_eq(child_wait(&c), 0);
	gsi_own_close();
	check_eq(gsi_process_say(slot, "m", 1), ECONNREFUSED);
	close(in);
	station_close(&st);
}

static struct gsi_port port_of(enum gsi_any any, const char *address)
{
	struct gsi_port p = { .ps = 0x106, .port = 7471, .any = any };

	p.addr = (union ibv_gid){ .raw = { [10] = 0xff, 0xff } };
	check_eq(inet_pton(AF_INET, address, p.addr.raw + 12), 1);
	return p;
}

static int say(const struct gsi_port *to, char c)
{
	return gsi_port_say(to->ps, to->port, &to->addr, &c, 1);
}

static bool heard(int in, char c)
{
	char got = 0;

	return recv(in, &got, 1, MSG_DONTWAIT) == 1 && got == c;
}

/* The names are bound by nobody here: what goes by them is refused. */
TEST(a_process_needs_no_name_for_requests_to_ports_of_its_own)
{
	struct gsi_port one = port_of(GSI_ADDRESS, "10.0.0.1"), two = one, any = one;
	struct station st = { 0 };
	unsigned int n = 0;
	int in;

	two.port++;
	any.any = GSI_ANY4;
	station_open(&st);
	check_eq(gsi_own_open(st.slot, NULL, &in), 0);
	check_eq(say(&one, '0'), ECONNREFUSED);
	gsi_own_port(&one, true);
	check_eq(say(&one, '1'), 0);
	check(heard(in, '1'));
	check_eq(say(&two, '2'), ECONNREFUSED);
	gsi_own_port(&any, true);
	gsi_own_port(&one, false);
	check_eq(say(&one, '3'), 0); /* by the wildcard */
	check(heard(in, '3'));
	while (!say(&one, '4')) /* without room the name is tried */
		n++;
	check(n > 0);
	gsi_own_port(&any, false);
	while (heard(in, '4'))
		n--;
	check_eq(n, 0);
	check_eq(say(&one, '5'), ECONNREFUSED);
	gsi_own_close();
	close(in);
	station_close(&st);
}

static bool heard_mad(int in, char c)
{
	struct gsi_mad mad;

	return recv(in, &mad, sizeof(mad), MSG_DONTWAIT) == sizeof(mad) && mad.magic == (uint32_t)c;
}

static struct {
	bool busy;
	unsigned int n;
	char first;
} heard_here;

static bool hear(const void *mads, unsigned int n)
{
	if (heard_here.busy)
		return false;
	heard_here.n += n;
	heard_here.first = (char)((const struct gsi_mad *)mads)->magic;
	return true;
}

static int say_mad(unsigned int slot, char c)
{
	struct gsi_mad mad = { .magic = (uint32_t)c };

	return gsi_process_say(slot, &mad, sizeof(mad));
}

TEST(the_engines_thread_keeps_what_is_for_its_own_process)
{
	struct station st = { 0 };
	unsigned int n = 0;
	int in;

	station_open(&st);
	check_eq(gsi_own_open(st.slot, hear, &in), 0);
	check_eq(say_mad(st.slot, 'a'), 0); /* no engine's thread: through the pair */
	check(heard_mad(in, 'a'));
	gsi_own_keep();
	gsi_own_flush();
	check_eq(heard_here.n, 0);
	check_eq(say_mad(st.slot, 'b'), 0);
	check_eq(say_mad(st.slot, 'c'), 0);
	check_eq(heard_here.n, 0); /* the links' locks are held here */
	gsi_own_flush();
	check_eq(heard_here.n, 2);
	check_eq(heard_here.first, 'b');
	check(!heard_mad(in, 'b'));
	heard_here.busy = true; /* none is lost, and they stay in order */
	check_eq(say_mad(st.slot, 'd'), 0);
	check_eq(say_mad(st.slot, 'e'), 0);
	gsi_own_flush();
	check(heard_mad(in, 'd'));
	check(heard_mad(in, 'e'));
	heard_here.busy = false;
	for (char c = 'f'; c <= 'z'; c++) /* more than are kept */
		check_eq(say_mad(st.slot, c), 0);
	heard_here.n = 0;
	gsi_own_flush();
	while (heard_mad(in, (char)('f' + n)))
		n++;
	check_eq(n + heard_here.n, 'z' - 'f' + 1);
	check_eq(heard_here.first, (char)('f' + n));
	gsi_own_close();
	close(in);
	station_close(&st);
}

/* Goes in and out; @arg counts who is inside. */
static int visit(int talk, void *arg)
{
	unsigned int *inside = arg;
	struct station st = { 0 };
	struct meeting *m;
	struct meeting_other who;
	int fd, bad = 0;

	station_open(&st);
	for (int i = 0; i < VISITS; i++) {
		if (meeting_enter(st.h, meeting_name, &m, &fd, &who))
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

static void go_in_and_out(void)
{
	unsigned int *inside = mmap(NULL, sizeof(*inside), PROT_READ | PROT_WRITE,
				    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned int slot = NUMBER_SLOTS - 1;
	struct child squatter, v[VISITORS];

	squatter = child_start(squat, &slot);
	check_eq(child_hear(squatter.talk), 1);
	for (int i = 0; i < VISITORS; i++)
		v[i] = child_start(visit, inside);
	if (!full)
		child_tell(squatter.talk, 0); /* it leaves while they come and go */
	for (int i = 0; i < VISITORS; i++)
		check_eq(child_wait(&v[i]), 0);
	if (full)
		child_tell(squatter.talk, 0);
	check_eq(child_wait(&squatter), 0);
	munmap(inside, sizeof(*inside));
}

TEST(one_process_at_a_time_is_at_the_doors_of_which_another_user_has_some)
{
	go_in_and_out();
}

TEST(so_it_is_where_nobody_can_connect_to_those)
{
	full = true;
	go_in_and_out();
	full = false;
}

/* Comes in once, when it is told to, and stays for *arg us; NULL: it goes at once. */
static int come(int talk, void *arg)
{
	const useconds_t *us = arg;
	struct station st = { 0 };
	struct meeting *m;
	struct meeting_other who;
	int fd;

	station_open(&st);
	child_tell(talk, 1);
	child_hear(talk);
	if (meeting_enter(st.h, meeting_name, &m, &fd, &who))
		return 1;
	if (us)
		usleep(*us);
	meeting_leave(m);
	station_close(&st);
	return 0;
}

/* All at once. At full length the last one waits longer than it would for any one of them. */
TEST(each_of_many_may_take_its_time)
{
	useconds_t us = length_full() ? 1000000 : 10000;
	struct child c[STAYING];

	for (int i = 0; i < STAYING; i++) {
		c[i] = child_start(come, &us);
		check_eq(child_hear(c[i].talk), 1);
	}
	for (int i = 0; i < STAYING; i++)
		child_tell(c[i].talk, 1);
	for (int i = 0; i < STAYING; i++)
		check_eq(child_wait(&c[i]), 0);
}

/* A process that stands at a door to see whether another one is at a lower door keeps that one
 * waiting. */
TEST(who_sees_that_somebody_is_at_a_door_stands_at_none)
{
	struct station st = { 0 };
	char stem[64];
	struct child c;
	int door, fd;

	c = child_start(come, NULL);
	check_eq(child_hear(c.talk), 1);
	station_open(&st);
	snprintf(stem, sizeof(stem), "%s.new.0", meeting_name);
	check_eq(host_name_bind_any(st.h->uid, stem, &door), 0);
	check_eq(listen(door, 1024), 0);
	child_tell(c.talk, 1);
	snprintf(stem, sizeof(stem), "%s.new.", meeting_name);
	for (int i = 0; i < LOOKS; i++)
		check_eq(host_names_find(st.h->uid, stem, 1, 16, &fd), ENOENT);
	close(door);
	check_eq(child_wait(&c), 0);
	station_close(&st);
}

/* The names are of a network namespace: of one in which only this program's processes are. */
static int enter(void **state)
{
	(void)state;
	return unshare(CLONE_NEWNET);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* Before others have looked for that process. */
		unit_test(who_may_not_look_does_not_say_that_a_process_is_not_there),
		unit_test(a_process_is_found_though_another_user_has_its_name),
		unit_test(so_is_one_whose_name_nobody_can_connect_to),
		unit_test(a_process_needs_no_name_for_what_it_has_read_for_itself),
		unit_test(processes_that_are_not_there_are_looked_for_seldom),
		unit_test(a_process_needs_no_name_for_requests_to_ports_of_its_own),
		unit_test(the_engines_thread_keeps_what_is_for_its_own_process),
		unit_test(one_process_at_a_time_is_at_the_doors_of_which_another_user_has_some),
		unit_test(so_it_is_where_nobody_can_connect_to_those),
		unit_test(each_of_many_may_take_its_time),
		unit_test(who_sees_that_somebody_is_at_a_door_stands_at_none),
	};

	return cmocka_run_group_tests(tests, enter, NULL) ? 1 : 0;
}
