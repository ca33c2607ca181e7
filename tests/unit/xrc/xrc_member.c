// SPDX-License-Identifier: MIT
/* The lock of a domain's table, which another process has. A call's naps are counted, not slept. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "obs/explain.h"
#include "test.h"
#include "xrc/xrc_member.h"

enum { NAPS = 4000 /* of a millisecond */ };

static struct xrc_domain domain;
static unsigned int naps;
static int file = -1; /* of the program, which has a record lock on it; -1: none */
static pid_t other; /* the member that waits for it */

static int lock_file(int command, short type)
{
	struct flock l = { .l_type = type, .l_whence = SEEK_SET, .l_len = 1 };

	return fcntl(file, command, &l) ? errno : 0;
}

/* As another thread does. The member gets the program's lock then, and ends. */
static void give_up_file(void)
{
	siginfo_t end;

	check_eq(lock_file(F_SETLK, F_UNLCK), 0);
	close(file);
	file = -1;
	check_eq(waitid(P_PID, (id_t)other, &end, WEXITED | WNOWAIT), 0);
}

int nanosleep(const struct timespec *t, struct timespec *left)
{
	(void)left;
	check_eq(t->tv_nsec, 1000000);
	naps++;
	if (file >= 0)
		give_up_file();
	return 0;
}

static void open_domain(void)
{
	domain.fd = memfd_create("domain", MFD_CLOEXEC);
	check(domain.fd >= 0);
	mutex_init(&domain.lock);
	naps = 0;
}

static void close_domain(void)
{
	close(domain.fd);
	mutex_destroy(&domain.lock);
}

/* Another member has the lock, until it has one on the file, too, or for ever. */
static pid_t holder(void)
{
	int ready[2];
	char c;
	pid_t pid;

	check_eq(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (xrc_member_lock(&domain) || write(ready[1], "", 1) != 1)
			_exit(1);
		if (file < 0)
			pause();
		_exit(lock_file(F_SETLKW, F_WRLCK));
	}
	check_eq(read(ready[0], &c, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return pid;
}

static bool waits_for_a_lock(pid_t pid)
{
	FILE *f = fopen("/proc/locks", "re");
	char line[256], number[16];
	bool found = false;

	check(f);
	snprintf(number, sizeof(number), " %d ", (int)pid);
	while (fgets(line, sizeof(line), f))
		found |= strstr(line, "->") && strstr(line, number);
	fclose(f);
	return found;
}

TEST(no_circle_is_seen_where_another_thread_ends_it)
{
	int status;

	open_domain();
	file = memfd_create("file", MFD_CLOEXEC);
	check_eq(lock_file(F_SETLK, F_WRLCK), 0);
	other = holder();
	while (still(!waits_for_a_lock(other)))
		sched_yield();
	check_eq(xrc_member_lock(&domain), 0);
	check(naps > 0);
	xrc_member_unlock(&domain);
	check_eq(waitpid(other, &status, 0), other);
	check_eq(status, 0);
	close_domain();
}

TEST(a_member_that_keeps_the_lock_is_named)
{
	char said[256], wanted[256];
	pid_t pid;

	open_domain();
	pid = holder();
	check_eq(xrc_member_lock(&domain), ETIMEDOUT);
	check_eq(naps, NAPS);
	check_eq(explain_last(said, sizeof(said)), 0);
	snprintf(wanted, sizeof(wanted),
		 "process %d has had the lock of the XRC domain for 4000 ms; let it go on (is it "
		 "stopped?)",
		 (int)pid);
	check_str(said, wanted);
	kill(pid, SIGKILL);
	check_eq(waitpid(pid, NULL, 0), pid);
	check_eq(xrc_member_lock(&domain), 0);
	xrc_member_unlock(&domain);
	close_domain();
}

RUN_TESTS(unit_test(no_circle_is_seen_where_another_thread_ends_it),
	  unit_test(a_member_that_keeps_the_lock_is_named))
