// SPDX-License-Identifier: MIT
/* A process that connects to a port of connection management and asks nothing holds a descriptor
 * there: not for long, and another user's processes not many. */
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include "verbs/cases.h"
#include "verbs/said.h"

enum { LIMIT = 15000, FILES = 256, EACH = FILES / 32, MANY = 40, SOMEBODY = 54321 };

static struct rdma_event_channel *channel;
static struct rdma_cm_id *id;
static struct sockaddr_un name;
static socklen_t name_len;

/* The name of our port, as the kernel shows it. */
static void find_name(void)
{
	char want_port[16], line[512], *at;
	FILE *f = fopen("/proc/self/net/unix", "re");

	want(f);
	snprintf(want_port, sizeof(want_port), ".%u.", be16toh(rdma_get_src_port(id)));
	while (fgets(line, sizeof(line), f)) {
		at = strchr(line, '@');
		if (!at || !strstr(at, ".cm.") || !strstr(at, want_port))
			continue;
		at[strcspn(at, "\n")] = '\0';
		name.sun_family = AF_UNIX;
		memcpy(name.sun_path + 1, at + 1, strlen(at) - 1);
		name_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(at));
	}
	fclose(f);
	want(name_len);
}

static void begin(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	said_begin();
	channel = rdma_create_event_channel();
	want(channel);
	want_eq(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	want_eq(rdma_bind_addr(id, (struct sockaddr *)&at), 0);
	want_eq(rdma_listen(id, 0), 0);
	find_name();
}

static void end(void)
{
	want_eq(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

static int connected(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	want_eq(connect(fd, (struct sockaddr *)&name, name_len), 0);
	return fd;
}

static void closed(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char c;

	want_eq(poll(&p, 1, LIMIT), 1);
	want_eq(recv(fd, &c, 1, 0), 0);
	close(fd);
}

static void who_asks_nothing_is_closed(int arg)
{
	(void)arg;
	begin();
	closed(connected());
	said_want(SAID_NEAR,
		  "connection management: a process of user id %u has connected and asks nothing; "
		  "that connection is closed, the 1th of this kind",
		  (unsigned int)getuid());
	end();
}

/* In a child, of another user. */
static void connect_often(void)
{
	int fds[MANY];

	want_eq(setresuid(SOMEBODY, SOMEBODY, SOMEBODY), 0);
	for (int i = 0; i < MANY; i++)
		fds[i] = connected();
	for (int i = EACH; i < MANY; i++)
		closed(fds[i]);
	_exit(0);
}

static void another_user_has_few(int arg)
{
	const struct rlimit few = { FILES, FILES };
	int status;
	pid_t child;

	(void)arg;
	want_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	begin();
	child = fork();
	if (!child)
		connect_often();
	want_eq(waitpid(child, &status, 0), child);
	want_eq(status, 0);
	said_want(
		SAID_NEAR,
		"connection management: a connection of user id %u refused, the 1th of this kind: "
		"that user has %u that wait, all others 0; accept requests, end processes of that "
		"user, or raise ulimit -n",
		SOMEBODY, EACH);
	end();
}

int main(void)
{
	static const struct test_case list[] = {
		CASE(who_asks_nothing_is_closed),
		CASE(another_user_has_few),
	};

	return CASES_RUN(list);
}
