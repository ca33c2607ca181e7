// SPDX-License-Identifier: MIT
#include "userns.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "peers/host_names.h"
#include "view.h"

#define TURN_MS	  10000 /* limit of the wait for another run, which may be stopped */
#define SILENT_MS 1000 /* the same, for one that lets nobody in, which may be a stranger */

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static long long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000LL + ts.tv_nsec / 1000000;
}

/* Both in ms of now_ms(). */
struct wait {
	long long until; /* its end */
	long long silent; /* when the holder of the name began to let nobody in; 0: it lets us in */
};

/* The holder does not listen: it has just bound the name, or is just gone; or its queue is full of
 * runs. Or it is a stranger, which cannot be told as long as it lets nobody in. */
static bool may_let_in(struct wait *w)
{
	if (!w->silent)
		w->silent = now_ms();
	if (now_ms() - w->silent >= SILENT_MS)
		return false;
	poll(NULL, 0, 1);
	return true;
}

/* Waits until the run that has the name ends its turn. False: the name belongs to another user, or
 * time is up. */
static bool wait_for_holder(const struct sockaddr_un *name, socklen_t len, struct wait *w)
{
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct pollfd p = { .fd = s, .events = POLLIN };
	struct ucred peer = { 0 };
	socklen_t size = sizeof(peer);
	bool again = false;
	long long left;

	if (s < 0)
		return false;
	if (connect(s, (const struct sockaddr *)name, len)) {
		again = (errno == ECONNREFUSED || errno == EAGAIN) && may_let_in(w);
	} else if (!getsockopt(s, SOL_SOCKET, SO_PEERCRED, &peer, &size) && peer.uid == geteuid()) {
		w->silent = 0;
		left = w->until - now_ms();
		again = left > 0 && poll(&p, 1, (int)left) > 0;
	}
	close(s);
	return again;
}

/* The turn lasts until exec closes the socket. Without a turn (another user has the name, or time
 * is up) two first runs may each make a namespace: their programs then copy by way of the rings,
 * and nothing is wrong. */
static void take_turn(void)
{
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	struct wait w = { .until = now_ms() + TURN_MS };
	int n = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "softhca.run.%u.%u",
			 geteuid(), getegid());
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);

	if (s < 0)
		return;
	while (bind(s, (struct sockaddr *)&name, len)) {
		if (errno != EADDRINUSE || !wait_for_holder(&name, len, &w)) {
			close(s);
			return;
		}
	}
	listen(s, SOMAXCONN);
}

/* Whether this process's group is mapped in the member's namespace: an earlier run may have had
 * another group. */
static bool maps_our_group(int pid)
{
	int fd = openat(pid, "gid_map", O_RDONLY | O_CLOEXEC);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
	unsigned int inside, outside, count;
	bool found = false;

	/* The second number is told as this process sees it. */
	/* NOLINTNEXTLINE(cert-err34-c): the kernel wrote these numbers */
	while (f && !found && fscanf(f, "%u %u %u", &inside, &outside, &count) == 3)
		found = outside == getegid() && inside == outside && count == 1;
	if (f)
		fclose(f);
	return found;
}

/* A child of our user namespace that we own. */
static bool is_our_child(int ns, const struct stat *ours)
{
	uid_t owner = (uid_t)-1;
	struct stat st = { 0 };
	int parent;

	if (ioctl(ns, NS_GET_OWNER_UID, &owner) || owner != geteuid())
		return false;
	parent = ioctl(ns, NS_GET_PARENT);
	if (parent < 0)
		return false;
	(void)fstat(parent, &st);
	close(parent);
	return same_file(&st, ours);
}

/* The user namespace of /proc/@pid, a descriptor bound to that very process, if it is a member. */
static int member_ns(int pid, const struct stat *our_user, const struct stat *our_net)
{
	struct stat user, net;
	int ns;

	if (fstatat(pid, "ns/user", &user, 0) || fstatat(pid, "ns/net", &net, 0) ||
	    same_file(&user, our_user) || !same_file(&net, our_net))
		return -1;
	ns = openat(pid, "ns/user", O_RDONLY | O_CLOEXEC);
	if (ns < 0)
		return -1;
	if (is_our_child(ns, our_user) && maps_our_group(pid) && view_is_shown_at(pid))
		return ns;
	close(ns);
	return -1;
}

static int find_member(void)
{
	DIR *proc = opendir("/proc");
	struct stat user, net;
	struct dirent *e;
	int ns = -1, pid;

	if (!proc || stat("/proc/self/ns/user", &user) || stat("/proc/self/ns/net", &net))
		goto out;
	while (ns < 0 && (e = readdir(proc))) {
		if (!isdigit((unsigned char)e->d_name[0]))
			continue;
		pid = openat(dirfd(proc), e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (pid < 0)
			continue;
		ns = member_ns(pid, &user, &net);
		close(pid);
	}
out:
	if (proc)
		closedir(proc);
	return ns;
}

static int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), err = 0;

	if (fd < 0)
		return errno;
	if (write(fd, text, strlen(text)) < 0)
		err = errno;
	close(fd);
	return err;
}

/* In a child: a new user namespace, and whether it is of any use (some systems allow the namespace
 * and refuse every capability in it). */
static int try_new(void)
{
	unsigned int uid = geteuid(), gid = getegid();
	char map[64];
	int err;

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS))
		return errno;
	snprintf(map, sizeof(map), "%u %u 1", uid, uid);
	err = write_file("/proc/self/uid_map", map);
	if (!err)
		err = write_file("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "%u %u 1", gid, gid);
	if (!err)
		err = write_file("/proc/self/gid_map", map);
	if (!err && mount("softhca", "/dev", "tmpfs", 0, NULL))
		err = errno;
	return err;
}

/* A child makes the namespace and stays until its parent has opened it. */
static int make_new(int *ns)
{
	int pair[2], err = 0;
	char path[64];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return errno;
	pid = fork();
	if (!pid) {
		close(pair[0]);
		err = try_new();
		if (send(pair[1], &err, sizeof(err), MSG_NOSIGNAL) == sizeof(err))
			(void)recv(pair[1], &err, sizeof(err), 0);
		_exit(0);
	}
	if (pid < 0)
		err = errno;
	close(pair[1]);
	if (!err && recv(pair[0], &err, sizeof(err), 0) != sizeof(err))
		err = EIO;
	snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	if (!err) {
		*ns = open(path, O_RDONLY | O_CLOEXEC);
		err = *ns < 0 ? errno : 0;
	}
	close(pair[0]);
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return err;
}

/* The uid stays as it is, and the library inside sees that uid. */
static void tell_name(void)
{
	char text[32];
	uint32_t name;

	if (host_names_uid(&name) || name == geteuid())
		return;
	snprintf(text, sizeof(text), "%u:%u", geteuid(), name);
	setenv(HOST_NAMES_TOLD, text, 1);
}

int userns_enter(void)
{
	int ns, err = 0;

	tell_name();
	take_turn();
	ns = find_member();
	if (ns < 0)
		err = make_new(&ns);
	if (err)
		return err;
	if (setns(ns, CLONE_NEWUSER))
		err = errno;
	close(ns);
	return err;
}
