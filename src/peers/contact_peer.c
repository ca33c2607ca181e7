// SPDX-License-Identifier: MIT
#include "peers/contact_peer.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "peers/host_names.h"

#ifndef SO_PEERPIDFD /* Linux 6.5 */
#define SO_PEERPIDFD 77
#endif

/* The pidfd of the process that made its end of @conn, which may have ended; -1: Linux is older. */
static int exact_pidfd(int conn)
{
	socklen_t len = sizeof(int);
	int fd;

	return getsockopt(conn, SOL_SOCKET, SO_PEERPIDFD, &fd, &len) ? -1 : fd;
}

/* The same; or else that of the process that has its pid now, which the answer to a nonce will show
 * to be the same. */
static int peer_pidfd(int conn, struct trust_name *name)
{
	int fd;

	if (!contact_fds_left(conn))
		return -1;
	fd = exact_pidfd(conn);
	name->exact = fd >= 0;
	if (name->exact)
		return fd;
	return name->pid ? (int)syscall(SYS_pidfd_open, name->pid, 0) : -1;
}

static bool has_ended(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	return poll(&p, 1, 0) != 0;
}

/* The number of a process in the /proc that is mounted here, which may belong to another PID
 * namespace than ours: the pid by SO_PEERCRED may be that of another process there. 0: the process
 * is not in that /proc. */
static pid_t number_in_proc(int pidfd)
{
	char path[40], text[512] = "";
	const char *line;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	line = n > 0 ? strstr(text, "\nPid:") : NULL;
	n = line ? strtol(line + strlen("\nPid:"), NULL, 10) : 0; /* -1: it has ended */
	return n > 0 ? (pid_t)n : 0;
}

/* Of two user namespaces at most one has rights in the other: two processes in them never trace
 * each other. @number: in /proc. */
static bool in_our_user_namespace(pid_t number)
{
	char path[32], ours[64], theirs[64];
	ssize_t n = readlink("/proc/self/ns/user", ours, sizeof(ours));

	if (n < 0)
		return errno == ENOENT; /* this kernel has one alone */
	snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)number);
	return readlink(path, theirs, sizeof(theirs)) == n && !memcmp(ours, theirs, (size_t)n);
}

/* The kernel shows the program of a process to those who may trace it. */
static bool looks_into(int conn)
{
	int pidfd = exact_pidfd(conn);
	char path[32], program[1];
	pid_t number;
	bool seen;

	if (pidfd < 0)
		return false;
	number = number_in_proc(pidfd);
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)number);
	seen = number && readlink(path, program, sizeof(program)) > 0 &&
	       !has_ended(pidfd); /* another process may have got its number before */
	close(pidfd);
	return seen;
}

int contact_user(int conn, struct trust_name *name)
{
	socklen_t len = sizeof(struct ucred);
	uid_t ours = geteuid();
	struct ucred cred;
	bool alike;

	if (getsockopt(conn, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return errno;
	alike = cred.uid == ours && host_names_alike(ours);
	*name = (struct trust_name){ .pid = cred.pid, .uid = cred.uid };
	name->stranger = trust_stranger(cred.uid, ours, alike, alike && looks_into(conn));
	return 0;
}

int contact_peer(int conn, pid_t *pid)
{
	struct trust_name name = { 0 };
	int err = contact_user(conn, &name);

	if (!err && name.stranger)
		err = EPERM;
	if (!err)
		*pid = name.pid;
	return err;
}

int contact_owns(const struct trust_name *name, unsigned int slot, int *owner)
{
	struct trust_name has = { 0 };
	enum trust_claim claim = TRUST_CLAIM_FALSE;
	int conn, err = host_name_connect(slot, &conn);

	if (err)
		return err;
	if (!contact_user(conn, &has))
		claim = trust_slot(name, &has);
	if (claim == TRUST_CLAIM_UNSEEN) {
		*owner = conn;
		return EINPROGRESS;
	}
	close(conn);
	return claim == TRUST_CLAIM_TRUE ? 0 : EPROTO;
}

int contact_name(int conn, struct trust_name *name, int *pidfd)
{
	int err, on = 1;

	err = contact_user(conn, name);
	if (err)
		return err;
	*pidfd = peer_pidfd(conn, name);
	name->watched = *pidfd >= 0;
	name->shown = name->watched ? number_in_proc(*pidfd) : name->pid;
	if (!name->exact && setsockopt(conn, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)))
		return errno;
	return 0;
}

enum trust_word contact_word(void)
{
	return trust_word(secure_getenv("SOFTHCA_DIRECT"));
}

int contact_open_memory(const struct trust_name *name, int pidfd)
{
	char path[32];
	int fd;

	if (!trust_name(name) || !contact_fds_left(pidfd) || !in_our_user_namespace(name->shown))
		return -1;
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)name->shown);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0 && has_ended(pidfd)) { /* another process may have got its number before */
		close(fd);
		return -1;
	}
	return fd;
}

int contact_own_memory(int conn)
{
	return contact_fds_left(conn) ? open("/proc/self/mem", O_RDWR | O_CLOEXEC) : -1;
}

bool contact_fds_left(int fd)
{
	struct rlimit lim;

	return getrlimit(RLIMIT_NOFILE, &lim) || lim.rlim_cur == RLIM_INFINITY ||
	       (rlim_t)fd < lim.rlim_cur / 5 * 4;
}
