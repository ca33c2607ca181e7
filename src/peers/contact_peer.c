// SPDX-License-Identifier: MIT
#include "peers/contact_peer.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "peers/contact_trust.h"

int contact_peer(int conn, pid_t *pid)
{
	socklen_t len = sizeof(struct ucred);
	struct ucred cred;

	if (getsockopt(conn, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return errno;
	if (!trust_contact(cred.uid, geteuid()))
		return EPERM;
	*pid = cred.pid;
	return 0;
}

static bool yama(void)
{
	int fd = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);
	char c = '0';
	bool on;

	if (fd < 0)
		return false;
	on = read(fd, &c, 1) != 1 || c != '0';
	close(fd);
	return on;
}

static bool same_user_ns(pid_t pid)
{
	struct stat mine, theirs;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
	return !stat("/proc/self/ns/user", &mine) && !stat(path, &theirs) &&
	       mine.st_dev == theirs.st_dev && mine.st_ino == theirs.st_ino;
}

int contact_memory(pid_t pid, int conn)
{
	struct trust_facts f = {
		.pid = pid,
		.fds_left = contact_fds_left(conn),
		.dumpable = prctl(PR_GET_DUMPABLE) == 1,
		.yama = yama(),
		.same_user_ns = pid && same_user_ns(pid),
	};

	if (!trust_memory(trust_word(secure_getenv("SOFTHCA_DIRECT")), &f))
		return -1;
	return open("/proc/self/mem", O_RDWR | O_CLOEXEC);
}

bool contact_is_bell(int fd)
{
	char path[32], what[32];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, what, sizeof(what) - 1);
	if (n < 0)
		return false;
	what[n] = '\0';
	return !strcmp(what, "anon_inode:[eventfd]");
}

bool contact_fds_left(int fd)
{
	struct rlimit lim;

	return getrlimit(RLIMIT_NOFILE, &lim) || lim.rlim_cur == RLIM_INFINITY ||
	       (rlim_t)fd < lim.rlim_cur / 5 * 4;
}
