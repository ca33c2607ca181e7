// SPDX-License-Identifier: MIT
/* Streams of many bytes between two processes: by which memory they come, and in how few
 * messages. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "verbs/cases.h"
#include "verbs/sockets.h"

enum { BLOCK = 65536, BUFFER = 1 << 17 /* as options say it: half of what there is */ };

static char block[BLOCK];

/* Another process that accepts, and then does @serve. Returns the socket to it. */
static int served_by(void (*serve)(int fd), int slots, pid_t *pid)
{
	const int size = BUFFER;
	struct sockaddr_in at;
	int fd, port[2];

	want_eq(pipe(port), 0);
	*pid = fork();
	if (!*pid) {
		int l = listener(&at);

		want_eq(rsetsockopt(l, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)), 0);
		want_eq(write(port[1], &at, sizeof(at)), sizeof(at));
		serve(raccept(l, NULL, NULL));
		_exit(0);
	}
	want(*pid > 0);
	want_eq(read(port[0], &at, sizeof(at)), sizeof(at));
	fd = rsocket(AF_INET, SOCK_STREAM, 0);
	want_eq(rsetsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
	want_eq(rsetsockopt(fd, SOL_RDMA, RDMA_SQSIZE, &slots, sizeof(slots)), 0);
	want_eq(rconnect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

static void ends_well(int fd, pid_t pid)
{
	int status;

	want_eq(rclose(fd), 0);
	want_eq(waitpid(pid, &status, 0), pid);
	want_eq(status, 0);
}

static void fill(int with)
{
	for (int i = 0; i < BLOCK; i++)
		block[i] = (char)(with + i % 251);
}

static bool is_filled(int with)
{
	for (int i = 0; i < BLOCK; i++)
		if (block[i] != (char)(with + i % 251))
			return false;
	return true;
}

/* --- the sender's memory is mapped by the receiver --- */

/* Of how many processes the memory of sockets is mapped here. */
static int owners(void)
{
	unsigned long inode, first = 0;
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	int n = 0;

	want(maps);
	while (fgets(line, sizeof(line), maps)) {
		if (!strstr(line, "/memfd:softhca-arena") ||
		    sscanf(line, "%*s %*s %*s %*s %lu", &inode) != 1)
			continue;
		if (!first)
			first = inode;
		n = inode != first || n == 2 ? 2 : 1;
	}
	fclose(maps);
	return n;
}

/* Answers each block with the number of owners. */
static void says_owners(int fd)
{
	for (int i = 0; rrecv(fd, block, BLOCK, MSG_WAITALL) == BLOCK; i++) {
		char n = (char)owners();

		want(is_filled(i));
		want_eq(rsend(fd, &n, 1, 0), 1);
	}
}

static void comes_by_mapped_memory(int arg)
{
	pid_t pid;
	int fd = served_by(says_owners, 384, &pid);
	char n = 0;

	(void)arg;
	for (int i = 0; n != 2; i++) { /* it asks for the memory while the first ones come */
		fill(i);
		want_eq(rsend(fd, block, BLOCK, 0), BLOCK);
		want_eq(rrecv(fd, &n, 1, 0), 1);
		want(n > 0);
	}
	want_eq(owners(), 1); /* and nobody asks for what is not used */
	ends_well(fd, pid);
}

/* --- few messages --- */

enum { LAST = 40960 };

static void takes_all(int fd)
{
	size_t n = 0;
	ssize_t k;

	want_eq(rsend(fd, "x", 1, 0), 1);
	while ((k = rrecv(fd, block, BLOCK, 0)) > 0)
		n += (size_t)k;
	want_eq(k, 0);
	want_eq(n, 3 * BLOCK + LAST);
}

static bool is_writable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };

	return rpoll(&p, 1, 0) == 1;
}

/* The peer takes nothing, so each message keeps its slot, of which there are 12. The first call
 * finds nothing under way: it begins with little, by six messages. The others need one each. */
static void few_messages_while_busy(int arg)
{
	pid_t pid;
	int fd = served_by(takes_all, 16, &pid);
	char c;

	(void)arg;
	want_eq(rrecv(fd, &c, 1, 0), 1);
	want_eq(kill(pid, SIGSTOP), 0);
	want_eq(waitpid(pid, NULL, WUNTRACED), pid);
	for (int i = 0; i < 3; i++)
		want_eq(rsend(fd, block, BLOCK, MSG_DONTWAIT), BLOCK);
	want(is_writable(fd)); /* a quarter of the buffer is free */
	want_eq(rsend(fd, block, LAST, MSG_DONTWAIT), LAST);
	want(!is_writable(fd)); /* less is not worth a message */
	want_minus1(rsend(fd, block, BLOCK, MSG_DONTWAIT), EAGAIN);
	want_eq(kill(pid, SIGCONT), 0);
	ends_well(fd, pid);
}

/* --- credits --- */

/* A call that reads the whole buffer offers all of it again: the sender does not wait for the next
 * call. */
static void all_is_offered_again(int arg)
{
	enum { ALL = 1 << 17 };
	static char bytes[ALL];
	int near, far;

	(void)arg;
	connected(&near, &far);
	want_eq(rsend(far, "x", 1, 0), 1); /* its second half goes with this */
	want_eq(rrecv(near, bytes, 1, 0), 1);
	for (int i = 0; i < 2; i++) {
		for (size_t n = 0; n < ALL;) {
			ssize_t k = rsend(near, bytes + n, ALL - n, MSG_DONTWAIT);

			if (k > 0)
				n += (size_t)k;
			else
				wait_for(near, POLLOUT);
		}
		want_eq(rrecv(far, bytes, ALL, MSG_WAITALL), ALL);
	}
	want_eq(rclose(near), 0);
	want_eq(rclose(far), 0);
}

int main(void)
{
	const struct test_case list[] = {
		CASE(comes_by_mapped_memory),
		CASE(few_messages_while_busy),
		CASE(all_is_offered_again),
	};

	return CASES_RUN(list);
}
