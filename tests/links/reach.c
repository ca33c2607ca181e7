// SPDX-License-Identifier: MIT
/* One of two processes that meet, for boxes.py and interop/yama.py: prints what the kernel lets it
 * open of the other's memory, and what it has opened (docs/design/peer-identity.md).
 *
 *	reach SOCKET|both reach|rings
 *
 * The other one has the other end of SOCKET, a descriptor of SOCK_SEQPACKET; `both`: two children
 * of this process are the two. `reach`: it waits until both reach each other's memory. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "peers/host_state.h"
#include "station.h"

enum { TURNS = 256 }; /* in which all that has been said to a station is acted upon */

/* The other process' folder in the /proc that it sees: numbers mean nothing between PID
 * namespaces. */
static int swap_folders(int talk)
{
	int fd = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char byte = 0, room[CMSG_SPACE(sizeof(fd))] = "";
	struct iovec v = { &byte, 1 };
	struct msghdr m = {
		.msg_iov = &v, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	*c = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
			       .cmsg_type = SCM_RIGHTS,
			       .cmsg_len = CMSG_LEN(sizeof(fd)) };
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	if (fd < 0 || sendmsg(talk, &m, 0) != 1 || recvmsg(talk, &m, MSG_CMSG_CLOEXEC) != 1)
		exit(2);
	c = CMSG_FIRSTHDR(&m);
	if (!c || c->cmsg_type != SCM_RIGHTS)
		exit(2);
	memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

/* As a tracer: the kernel asks that of who opens the file. */
static bool may_open(int folder)
{
	int fd = openat(folder, "mem", O_RDWR | O_CLOEXEC);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* Both are here. Returns what the other one says. */
static uint64_t swap(int talk, uint64_t value)
{
	child_tell(talk, value);
	value = child_hear(talk);
	if (value == UINT64_MAX)
		exit(3);
	return value;
}

static bool reach(struct dest *d)
{
	const struct target *t = to_target(d);

	return load_acquire(&t->state) == TARGET_UP && load_acquire(&t->c->mutual);
}

static void turns(struct station *st)
{
	for (int i = 0; i < TURNS; i++)
		station_turn(st);
}

static int meet(int talk, bool wait)
{
	struct station st = { 0 };
	struct seg s = { .op = 4, .flags = SEG_SQPN, .pkey = 0xffff, .npsn = 1 };
	const struct contact *c;
	struct dest *d;
	bool may = may_open(swap_folders(talk));

	swap(talk, 0); /* both have looked */
	station_open(&st);
	s.sqpn = station_number(&st);
	s.dqpn = (uint32_t)swap(talk, s.sqpn);
	d = station_dest(&st, s.dqpn);
	if (station_send(&st, d, &s))
		return 4;
	station_until(&st, &st.count, 1);
	while (wait && still(!reach(d)))
		station_turn(&st);
	turns(&st);
	swap(talk, 0);
	turns(&st); /* all that the other one has said is acted upon */
	c = to_target(d)->c;
	printf("may %d, has opened %d, both reach %d, refers %d\n", may, c->remote != NULL,
	       contact_reaches(c) && c->mutual, load_relaxed(&d->max_ref) != 0);
	swap(talk, 0);
	d->ops->put(d);
	station_close(&st);
	return 0;
}

/* Siblings: none of them is the other's parent. */
static int both_meet(bool wait)
{
	int ends[2], status, failed = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends);

	for (int i = 0; i < 2 && !failed; i++)
		if (!fork()) {
			close(ends[!i]);
			exit(meet(ends[i], wait));
		}
	close(ends[0]);
	close(ends[1]);
	while (waitpid(-1, &status, 0) > 0)
		failed |= status;
	return failed != 0;
}

int main(int argc, char **argv)
{
	bool wait = argc == 3 && !strcmp(argv[2], "reach");

	if (argc != 3)
		return 2;
	return strcmp(argv[1], "both") ? meet(atoi(argv[1]), wait) : both_meet(wait);
}
