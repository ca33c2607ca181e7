// SPDX-License-Identifier: MIT
/* A hundred processes at once, processes in namespaces of their own, and multicast to all. */
#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>
#include "station.h"

enum { PEERS = 100, EACH = 200, LARGE = 16000 };
enum { SLOW = 8 /* a hundred on two cores take long to meet */ };

static struct seg message(const struct station *st, uint32_t to, const struct piece *p)
{
	return (struct seg){ .op = 4,
			     .flags = SEG_SQPN,
			     .pkey = 0xffff,
			     .dqpn = to,
			     .sqpn = station_number(st),
			     .npsn = 1,
			     .len = p->len,
			     .npieces = 1,
			     .pieces = p };
}

static void send_many(struct station *st, uint32_t to, unsigned int n)
{
	static char buf[LARGE];
	struct piece p = { (uintptr_t)buf, 40, 0 };
	struct dest *d = station_dest(st, to);

	for (unsigned int i = 0; i < n; i++) {
		struct seg s;

		p.len = i % 10 ? 40 : LARGE;
		s = message(st, to, &p);
		if (station_send(st, d, &s))
			exit(1);
	}
	d->ops->put(d);
}

static int member(int talk, void *arg)
{
	struct station st = { .slow = SLOW };
	uint32_t peer;

	(void)arg;
	station_open(&st);
	child_tell(talk, station_number(&st));
	peer = (uint32_t)child_hear(talk);
	send_many(&st, peer, EACH);
	station_until(&st, &st.count, EACH);
	child_tell(talk, st.count);
	child_hear(talk);
	return 0;
}

TEST(a_hundred_processes_all_get_through)
{
	struct child c[PEERS];
	struct station st = { .slow = SLOW };
	uint32_t number[PEERS];

	for (int i = 0; i < PEERS; i++) {
		c[i] = child_start(member, NULL);
		number[i] = (uint32_t)child_hear(c[i].talk);
	}
	station_open(&st);
	for (int i = 0; i < PEERS; i++)
		child_tell(c[i].talk, station_number(&st));
	station_until(&st, &st.count, PEERS * EACH);
	for (int i = 0; i < PEERS; i++)
		send_many(&st, number[i], EACH);
	for (int i = 0; i < PEERS; i++) {
		check_eq(child_hear(c[i].talk), EACH);
		child_tell(c[i].talk, 1);
		check_eq(child_wait(&c[i]), 0);
	}
	check_eq(st.count, PEERS * EACH);
	while (st.deaths < PEERS)
		station_turn(&st);
	station_close(&st);
}

static bool write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t len = (ssize_t)strlen(text);
	bool done = fd >= 0 && write(fd, text, (size_t)len) == len;

	if (fd >= 0)
		close(fd);
	return done;
}

/* A member in mount, PID and user namespaces of its own. 77: the machine forbids them. */
static int secluded(int talk, void *arg)
{
	char map[64];
	int status;
	pid_t pid;

	snprintf(map, sizeof(map), "0 %u 1", (unsigned int)geteuid());
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID) ||
	    !write_text("/proc/self/uid_map", map)) {
		child_tell(talk, UINT64_MAX - 1);
		return 77;
	}
	pid = fork();
	if (!pid)
		_exit(member(talk, arg));
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* A user is told by the number that the parent of the user namespace has for him: of one namespace
 * inside another only the first is seen through. */
static bool in_first_user_namespace(void)
{
	FILE *f = fopen("/proc/self/uid_map", "re");
	unsigned int inside, outside, count;
	bool yes = f && fscanf(f, "%u %u %u", &inside, &outside, &count) == 3 && inside == outside;

	if (f)
		fclose(f);
	return yes;
}

TEST(namespaces_of_ones_own_do_not_part_processes_of_one_network)
{
	struct station st = { 0 };
	struct child c;
	uint64_t number;

	if (!in_first_user_namespace())
		skip();
	c = child_start(secluded, NULL);
	number = child_hear(c.talk);
	if (number == UINT64_MAX - 1) {
		check_eq(child_wait(&c), 77);
		skip();
	}
	station_open(&st);
	child_tell(c.talk, station_number(&st));
	send_many(&st, (uint32_t)number, EACH);
	station_until(&st, &st.count, EACH);
	check_eq(child_hear(c.talk), EACH);
	child_tell(c.talk, 1);
	check_eq(child_wait(&c), 0);
	while (!st.deaths)
		station_turn(&st);
	station_close(&st);
}

static void only_marked(struct station *st, const struct seg *s)
{
	uint64_t *bad = st->arg;

	if (!(s->flags & SEG_MCAST) || !s->av || s->av->dgid.raw[15] != 42 || !s->grh ||
	    s->len != 40)
		++*bad;
}

static int listener(int talk, void *arg)
{
	struct station st = { .got = only_marked };
	uint64_t bad = 0;

	(void)arg;
	st.arg = &bad;
	station_open(&st);
	host_cast_want(st.h, HOST_GROUPS, 1);
	child_tell(talk, station_number(&st));
	station_until(&st, &st.count, 1);
	child_tell(talk, bad);
	child_hear(talk);
	return 0;
}

TEST(multicast_reaches_every_process_and_this_one)
{
	struct child c[3];
	struct av av = { .dgid.raw[15] = 42 };
	struct station st = { .got = only_marked };
	char buf[40] = { 0 };
	struct piece p = { (uintptr_t)buf, sizeof(buf), 0 };
	struct cast_way way = { 0 };
	uint64_t bad = 0;
	struct seg s;

	st.arg = &bad;
	for (int i = 0; i < 3; i++)
		c[i] = child_start(listener, NULL);
	station_open(&st);
	host_cast_want(st.h, HOST_GROUPS, 1);
	for (int i = 0; i < 3; i++)
		child_hear(c[i].talk);
	s = message(&st, 0xffffff, &p);
	s.op = 0x64; /* UD SEND ONLY */
	s.flags = SEG_MCAST;
	s.av = &av;
	while (host_cast_send(st.h, &s, &way, NULL)) {
		way.at->ops->put(way.at); /* contacts come up */
		station_turn(&st);
	}
	station_until(&st, &st.count, 1);
	for (int i = 0; i < 3; i++) {
		check_eq(child_hear(c[i].talk), 0);
		child_tell(c[i].talk, 1);
		check_eq(child_wait(&c[i]), 0);
	}
	check_eq(bad, 0);
	station_close(&st);
}

RUN_TESTS(unit_test(a_hundred_processes_all_get_through),
	  unit_test(namespaces_of_ones_own_do_not_part_processes_of_one_network),
	  unit_test(multicast_reaches_every_process_and_this_one))
