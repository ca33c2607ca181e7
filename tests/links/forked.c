// SPDX-License-Identifier: MIT
/* What does a child have that is forked while contacts begin and end? No descriptor of its parent's
 * peers' memory or of its parent's own, and no connection with a peer, who takes what comes through
 * it for the parent's. (docs/design/peer-identity.md) */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include "peers/host_state.h"
#include "station.h"

enum { PEERS = 2, FORKS = 400, CONTACTS = 200 };

static struct station here;

/* As the engine's. */
static void before_fork(void)
{
	if (here.h)
		host_fork_begin(here.h);
}

static void in_parent(void)
{
	if (here.h)
		host_fork_end(here.h);
}

static void in_forked(void)
{
	if (!here.h)
		return;
	host_leave(here.h);
	host_fork_end(here.h);
}

static void watch_forks(void)
{
	static bool watched;

	if (!watched)
		check_eq(pthread_atfork(before_fork, in_parent, in_forked), 0);
	watched = true;
}

static bool opens_memory(const char *target)
{
	const char *end = strrchr(target, '/');

	return !strncmp(target, "/proc/", 6) && end && !strcmp(end, "/mem");
}

/* By which processes of the host meet. */
static bool has_name(int (*ask)(int fd, struct sockaddr *sa, socklen_t *len), int fd)
{
	struct sockaddr_un sa = { 0 };
	socklen_t len = sizeof(sa);

	return !ask(fd, (struct sockaddr *)&sa, &len) && len > sizeof(sa.sun_family);
}

/* Is it the end of a connection by which processes of the host talk, and still can? */
static bool is_contact(int fd)
{
	struct pollfd p = { .fd = fd };
	struct sockaddr_un sa;
	socklen_t len = sizeof(sa);

	return !getpeername(fd, (struct sockaddr *)&sa, &len) &&
	       (has_name(getsockname, fd) || has_name(getpeername, fd)) && !poll(&p, 1, 0);
}

enum found { NOTHING, MEMORY, CONNECTION };

/* What a child has of its parent; it exits with that. */
static enum found inherited(void)
{
	DIR *d = opendir("/proc/self/fd");
	enum found found = NOTHING;
	struct dirent *e;
	char target[128];
	ssize_t n;

	while (d && found != MEMORY && (e = readdir(d))) {
		n = readlinkat(dirfd(d), e->d_name, target, sizeof(target) - 1);
		if (n < 0)
			continue;
		target[n] = '\0';
		if (opens_memory(target))
			found = MEMORY;
		else if (is_contact(atoi(e->d_name)))
			found = CONNECTION;
	}
	return found;
}

/* Comes, says a word, and goes, until it is told to stop. */
static int visitor(int talk, void *arg)
{
	uint32_t number = (uint32_t)child_hear(talk);
	struct seg s = { .op = 4, .flags = SEG_SQPN, .pkey = 0xffff, .dqpn = number, .npsn = 1 };

	(void)arg;
	while (recv(talk, &(char){ 0 }, 1, MSG_DONTWAIT | MSG_PEEK) < 0) {
		struct station st = { 0 };
		struct dest *d;

		station_open(&st);
		s.sqpn = station_number(&st);
		d = station_dest(&st, number);
		if (station_send(&st, d, &s))
			return 1;
		d->ops->put(d);
		station_close(&st);
	}
	return 0;
}

/* The child's exit status is what it has found. */
static int forked(void)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit((int)inherited());
	check(pid > 0);
	check_eq(waitpid(pid, &status, 0), pid);
	check(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void forks_among(const char *direct)
{
	struct child c[PEERS];
	unsigned int found[3] = { 0 };

	if (direct)
		check_eq(setenv("SOFTHCA_DIRECT", direct, 1), 0);
	watch_forks();
	for (unsigned int i = 0; i < PEERS; i++)
		c[i] = child_start(visitor, NULL);
	station_open(&here);
	for (unsigned int i = 0; i < PEERS; i++)
		child_tell(c[i].talk, station_number(&here));
	station_thread(&here);
	for (unsigned int i = 0; i < FORKS || load_acquire(&here.count) < CONTACTS; i++)
		found[forked()]++;
	for (unsigned int i = 0; i < PEERS; i++) {
		child_tell(c[i].talk, 0);
		check_eq(child_wait(&c[i]), 0);
	}
	station_close(&here);
	printf("# %u forks, %lu contacts: %u children had memory, %u a connection\n",
	       found[NOTHING] + found[MEMORY] + found[CONNECTION], (unsigned long)here.count,
	       found[MEMORY], found[CONNECTION]);
	here = (struct station){ 0 };
	check_eq(found[MEMORY], 0);
	check_eq(found[CONNECTION], 0);
}

/* The moment in which a message with it is sent is too short to be met by chance. */
TEST(nor_its_parents_memory_while_that_is_lent)
{
	watch_forks();
	station_open(&here);
	mutex_lock(&here.h->names_lock);
	here.h->lent = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	mutex_unlock(&here.h->names_lock);
	check(here.h->lent >= 0);
	check_eq(forked(), NOTHING);
	close(here.h->lent);
	here.h->lent = -1;
	station_close(&here);
	here = (struct station){ 0 };
}

TEST(a_child_has_no_way_to_its_parents_peers)
{
	forks_among(NULL);
}

TEST(nor_what_they_lend_each_other)
{
	forks_among("1");
}

RUN_TESTS(unit_test(a_child_has_no_way_to_its_parents_peers),
	  unit_test(nor_what_they_lend_each_other),
	  unit_test(nor_its_parents_memory_while_that_is_lent))
