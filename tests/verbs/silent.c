// SPDX-License-Identifier: MIT
/* A process that connects to a port of connection management and asks nothing holds a descriptor
 * there: not for long, and another user's processes not many. */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "verbs/cases.h"
#include "verbs/said.h"

enum { LIMIT = 15000, FILES = 256, EACH = FILES / 32, MANY = 40, SOMEBODY = 54321 };
/* Requests that are fetched, those that wait with a connection, those for which there is none. */
enum { OFTEN = 3 * EACH, BUSY = 0x62 /* engine/gsi/gsi.h */ };

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

static void begin_at(void *at)
{
	said_begin();
	channel = rdma_create_event_channel();
	want(channel);
	want_eq(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	want_eq(rdma_bind_addr(id, at), 0);
	want_eq(rdma_listen(id, 0), 0);
	find_name();
}

static void begin(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	begin_at(&at);
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

/* It is to ask again: a process that ends says nothing. */
static void refused(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char c = 0;

	want_eq(poll(&p, 1, LIMIT), 1);
	want_eq(recv(fd, &c, 1, 0), 1);
	want_eq(c, BUSY);
	closed(fd);
}

/* In a child, of another user. */
static void connect_often(void)
{
	int fds[MANY];

	want_eq(setresuid(SOMEBODY, SOMEBODY, SOMEBODY), 0);
	for (int i = 0; i < MANY; i++)
		fds[i] = connected();
	for (int i = EACH; i < MANY; i++)
		refused(fds[i]);
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

static void connect_in_vain(void)
{
	for (int i = 0; i < MANY; i++)
		refused(connected());
	_exit(0);
}

static void a_process_without_descriptors_is_busy(int arg)
{
	const struct rlimit few = { FILES, FILES };
	int status, fd, last = -1;
	pid_t child;

	(void)arg;
	want_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	begin();
	while ((fd = dup(0)) >= 0)
		last = fd;
	want_eq(errno, EMFILE);
	child = fork();
	if (!child) {
		close(last);
		connect_in_vain();
	}
	want_eq(waitpid(child, &status, 0), child);
	want_eq(status, 0);
}

/* --- another thread takes the descriptor that was to refuse a connection --- */

static struct {
	dev_t null; /* 0: nothing is stolen; atomic */
	pid_t thread; /* whose descriptor it was; atomic */
	int rounds; /* of that thread, since then; atomic */
	uint64_t begun; /* ms: since then */
	int taken[FILES], n;
} thief;

static void take_all(void)
{
	for (; (thief.taken[thief.n] = dup(0)) >= 0; thief.n++)
		;
	want_eq(errno, EMFILE);
}

static void give_all_back(void)
{
	while (thief.n)
		close(thief.taken[--thief.n]);
}

/* These stand in place of the C library's. */
static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

#pragma GCC visibility push(default)
int close(int fd)
{
	dev_t null = __atomic_load_n(&thief.null, __ATOMIC_ACQUIRE);
	bool steals = null && gettid() != getpid();
	struct stat st;
	int ret;

	steals = steals && !fstat(fd, &st) && st.st_rdev == null;
	ret = (int)syscall(SYS_close, fd);
	if (steals) {
		thief.taken[thief.n++] = dup(0);
		__atomic_store_n(&thief.null, 0, __ATOMIC_RELAXED);
		thief.begun = now_ms();
		__atomic_store_n(&thief.thread, gettid(), __ATOMIC_RELEASE);
	}
	return ret;
}

int epoll_wait(int fd, struct epoll_event *events, int n, int ms)
{
	if (gettid() == __atomic_load_n(&thief.thread, __ATOMIC_ACQUIRE))
		__atomic_add_fetch(&thief.rounds, 1, __ATOMIC_RELEASE);
	return (int)syscall(SYS_epoll_pwait, fd, events, n, ms, NULL, 0);
}
#pragma GCC visibility pop

/* The thread of connection management does not spin, and has a descriptor again when there is
 * one. */
static void a_stolen_descriptor_is_replaced(int arg)
{
	enum { ROUNDS = 40, AT_LEAST = 50 /* ms, for all of them */, MORE = 8 };
	const struct rlimit few = { FILES - MORE, FILES }, more = { FILES, FILES };
	int first = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	int second = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct stat st;

	(void)arg;
	want_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	begin();
	want_eq(stat("/dev/null", &st), 0);
	take_all();
	__atomic_store_n(&thief.null, st.st_rdev, __ATOMIC_RELEASE);
	want_eq(connect(first, (struct sockaddr *)&name, name_len), 0);
	while (!__atomic_load_n(&thief.thread, __ATOMIC_ACQUIRE))
		sched_yield();
	while (__atomic_load_n(&thief.rounds, __ATOMIC_ACQUIRE) < ROUNDS)
		sched_yield();
	want(now_ms() - thief.begun >= AT_LEAST);
	/* At once, not one by one: with a single one that is free the connection is refused. */
	want_eq(setrlimit(RLIMIT_NOFILE, &more), 0);
	want_eq(send(first, "x", 1, 0), 1); /* no message: it is closed at once */
	closed(first);
	take_all();
	want_eq(connect(second, (struct sockaddr *)&name, name_len), 0);
	refused(second);
	give_all_back();
	end();
}

/* --- requests --- */

static struct rdma_cm_event *next(struct rdma_event_channel *ch, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;

	want_eq(rdma_get_cm_event(ch, &event), 0);
	want_eq(event->event, type);
	return event;
}

static void take(struct rdma_event_channel *ch, enum rdma_cm_event_type type)
{
	want_eq(rdma_ack_cm_event(next(ch, type)), 0);
}

/* @who: 1 for ourselves. No queue pair is needed. */
static struct rdma_cm_id *asks_at(struct rdma_event_channel *ch, void *to, char who)
{
	struct rdma_conn_param param = { .qp_num = 77,
					 .private_data = &who,
					 .private_data_len = 1 };
	struct rdma_cm_id *asking;

	want_eq(rdma_create_id(ch, &asking, NULL, RDMA_PS_TCP), 0);
	want_eq(rdma_resolve_addr(asking, NULL, to, LIMIT), 0);
	take(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	want_eq(rdma_resolve_route(asking, LIMIT), 0);
	take(ch, RDMA_CM_EVENT_ROUTE_RESOLVED);
	want_eq(rdma_connect(asking, &param), 0);
	return asking;
}

static struct rdma_cm_id *asks(struct rdma_event_channel *ch, __be16 port, char who)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = port,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	return asks_at(ch, &to, who);
}

/* In a child, of another user, that was made before the library has begun. */
static void ask_often(int talk)
{
	struct rdma_event_channel *ch;
	struct rdma_cm_id *ids[OFTEN];
	struct rdma_cm_event *event;
	__be16 port;

	want_eq(setresuid(SOMEBODY, SOMEBODY, SOMEBODY), 0);
	want_eq(read(talk, &port, sizeof(port)), sizeof(port));
	ch = rdma_create_event_channel();
	want(ch);
	for (int i = 0; i < OFTEN; i++)
		ids[i] = asks(ch, port, 2);
	want_eq(write(talk, "", 1), 1);
	for (int i = 0; i < OFTEN; i++) {
		event = next(ch, RDMA_CM_EVENT_REJECTED);
		want_eq(*(const char *)event->param.conn.private_data, 3);
		want_eq(rdma_ack_cm_event(event), 0);
	}
	for (int i = 0; i < OFTEN; i++)
		want_eq(rdma_destroy_id(ids[i]), 0);
	rdma_destroy_event_channel(ch);
	_exit(0);
}

static void reject(struct rdma_cm_id *request)
{
	want_eq(rdma_reject(request, "\3", 1), 0);
	want_eq(rdma_destroy_id(request), 0);
}

/* The program has fetched them, and accepts none. Whoever asks later than others asks in vain only
 * as long as these wait. */
static void another_user_has_few_requests(int arg)
{
	const struct rlimit few = { FILES, FILES };
	struct rdma_cm_id *waiting[2 * EACH + 1], *own;
	struct rdma_event_channel *ch;
	struct rdma_cm_event *event;
	int talk[2], status, n = 0;
	char c, who = 2;
	__be16 port;
	pid_t child;

	(void)arg;
	want_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, talk), 0);
	child = fork();
	if (!child)
		ask_often(talk[1]);
	want_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	begin();
	port = rdma_get_src_port(id);
	want_eq(write(talk[0], &port, sizeof(port)), sizeof(port));
	want_eq(read(talk[0], &c, 1), 1);
	ch = rdma_create_event_channel();
	want(ch);
	own = asks(ch, port, 1); /* behind all of the stranger's */
	while (who != 1) {
		event = next(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
		who = *(const char *)event->param.conn.private_data;
		waiting[n++] = event->id;
		want_eq(rdma_ack_cm_event(event), 0);
	}
	want_eq(n, EACH + 1);
	said_want(
		SAID_NEAR,
		"connection management: a request of user id %u refused, the 1th of this kind: "
		"that user has %u that wait, all others 0; accept requests, end processes of that "
		"user, or raise ulimit -n",
		SOMEBODY, EACH);
	while (n)
		reject(waiting[--n]);
	for (int i = EACH; i < OFTEN; i++) {
		event = next(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
		reject(event->id);
		want_eq(rdma_ack_cm_event(event), 0);
	}
	want_eq(waitpid(child, &status, 0), child);
	want_eq(status, 0);
	take(ch, RDMA_CM_EVENT_REJECTED);
	want_eq(rdma_destroy_id(own), 0);
	rdma_destroy_event_channel(ch);
	end();
}

/* In a child, of another user, that was made before the library has begun. */
static void ask_at(int talk, struct sockaddr_in6 *at)
{
	struct rdma_event_channel *ch;
	struct rdma_cm_event *event;

	want_eq(setresuid(SOMEBODY, SOMEBODY, SOMEBODY), 0);
	want_eq(read(talk, &at->sin6_port, sizeof(at->sin6_port)), sizeof(at->sin6_port));
	ch = rdma_create_event_channel();
	want(ch);
	asks_at(ch, at, 2);
	event = next(ch, RDMA_CM_EVENT_REJECTED);
	want_eq(*(const char *)event->param.conn.private_data, 3);
	_exit(0);
}

/* The address is one of this host, though the request does not say at which interface. */
static void another_user_asks_at_a_link_local_address(int arg)
{
	struct sockaddr_in6 at = { .sin6_family = AF_INET6 };
	struct rdma_cm_event *event;
	struct pollfd p[2];
	int talk[2], status;
	pid_t child;

	(void)arg;
	want_eq(unshare(CLONE_NEWNET), 0);
	want_eq(system("ip link set lo up && ip link add softhca0 type veth peer name softhca1 && "
		       "ip addr add fe80::77/64 dev softhca0 nodad && "
		       "ip link set softhca1 up && ip link set softhca0 up"),
		0);
	setenv("SOFTHCA_DEVICES", "mlx5_0=softhca0", 1);
	want_eq(inet_pton(AF_INET6, "fe80::77", &at.sin6_addr), 1);
	at.sin6_scope_id = if_nametoindex("softhca0");
	want_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, talk), 0);
	child = fork();
	if (!child)
		ask_at(talk[1], &at);
	close(talk[1]);
	begin_at(&at);
	at.sin6_port = rdma_get_src_port(id);
	want_eq(write(talk[0], &at.sin6_port, sizeof(at.sin6_port)), sizeof(at.sin6_port));
	p[0] = (struct pollfd){ .fd = channel->fd, .events = POLLIN };
	p[1] = (struct pollfd){ .fd = talk[0], .events = POLLIN };
	want_eq(poll(p, 2, LIMIT), 1);
	want(!p[1].revents); /* it has not been refused */
	event = next(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	reject(event->id);
	want_eq(rdma_ack_cm_event(event), 0);
	want_eq(waitpid(child, &status, 0), child);
	want_eq(status, 0);
	end();
}

/* In a child whose user id is mapped nowhere: no queue pair would reach another process. It has no
 * port but one that others may have, too. */
static void ask_nobody(int talk)
{
	struct rdma_conn_param param = { .qp_num = 77 };
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in own = to;
	struct rdma_event_channel *ch;
	struct rdma_cm_id *asking;
	int yes = 1;

	own.sin_port = htons(20000);
	want_eq(unshare(CLONE_NEWUSER), 0);
	want_eq(read(talk, &to.sin_port, sizeof(to.sin_port)), sizeof(to.sin_port));
	ch = rdma_create_event_channel();
	want(ch);
	want_eq(rdma_create_id(ch, &asking, NULL, RDMA_PS_TCP), 0);
	want_eq(rdma_set_option(asking, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes,
				sizeof(yes)),
		0);
	want_eq(rdma_bind_addr(asking, (struct sockaddr *)&own), 0);
	want_eq(rdma_resolve_addr(asking, NULL, (struct sockaddr *)&to, LIMIT), 0);
	take(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	want_eq(rdma_resolve_route(asking, LIMIT), 0);
	take(ch, RDMA_CM_EVENT_ROUTE_RESOLVED);
	want_eq(rdma_connect(asking, &param), -1);
	want_eq(errno, EPERM);
	_exit(0);
}

static void a_user_without_an_id_connects_to_nobody(int arg)
{
	int talk[2], status;
	__be16 port;
	pid_t child;

	(void)arg;
	want_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, talk), 0);
	child = fork();
	if (!child)
		ask_nobody(talk[1]);
	begin();
	port = rdma_get_src_port(id);
	want_eq(write(talk[0], &port, sizeof(port)), sizeof(port));
	want_eq(waitpid(child, &status, 0), child);
	want_eq(status, 0);
	end();
}

/* --- ports --- */

/* In a child, of another user. */
static void bind_a_port(int talk)
{
	__be16 port;

	want_eq(setresuid(SOMEBODY, SOMEBODY, SOMEBODY), 0);
	begin();
	port = rdma_get_src_port(id);
	want_eq(write(talk, &port, sizeof(port)), sizeof(port));
	pause();
}

static void a_port_of_another_user_names_him(int wide)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(wide ? INADDR_ANY : INADDR_LOOPBACK) };
	int talk[2];
	pid_t child;

	want_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, talk), 0);
	child = fork();
	if (!child)
		bind_a_port(talk[1]);
	want_eq(read(talk[0], &at.sin_port, sizeof(at.sin_port)), sizeof(at.sin_port));
	said_begin();
	channel = rdma_create_event_channel();
	want(channel);
	want_eq(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	want_minus1(rdma_bind_addr(id, (struct sockaddr *)&at), wide ? EADDRNOTAVAIL : EADDRINUSE);
	said_want(SAID_NEAR,
		  "rdma_bind_addr: port %u is taken by a process of user id %u; take another "
		  "port, or end that process",
		  be16toh(at.sin_port), SOMEBODY);
	want_eq(kill(child, SIGKILL), 0);
	want_eq(waitpid(child, NULL, 0), child);
}

/* In a child, of another user: the name of our port at 127.0.0.1. */
static void take_the_address(int talk)
{
	static const char address[] = "00000000000000000000ffff7f000001";
	size_t n = name_len - offsetof(struct sockaddr_un, sun_path) - strlen("any4");
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	want_eq(setresuid(SOMEBODY, SOMEBODY, SOMEBODY), 0);
	memcpy(name.sun_path + n, address, sizeof(address));
	n += offsetof(struct sockaddr_un, sun_path) + strlen(address);
	want_eq(bind(fd, (struct sockaddr *)&name, (socklen_t)n), 0);
	want_eq(listen(fd, 8), 0);
	want_eq(write(talk, "", 1), 1);
	pause();
}

static void nobody_comes_between_a_user_and_his_own_wildcard(int arg)
{
	struct sockaddr_in any = { .sin_family = AF_INET };
	struct pollfd p = { .events = POLLIN };
	struct rdma_event_channel *ch;
	struct rdma_cm_id *first;
	int talk[2];
	pid_t child;
	char c;

	(void)arg;
	begin();
	first = id;
	want_eq(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	want_eq(rdma_bind_addr(id, (struct sockaddr *)&any), 0);
	want_eq(rdma_listen(id, 0), 0);
	find_name();
	want_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, talk), 0);
	child = fork();
	if (!child)
		take_the_address(talk[1]);
	want_eq(read(talk[0], &c, 1), 1);
	ch = rdma_create_event_channel();
	want(ch);
	asks(ch, rdma_get_src_port(id), 1);
	p.fd = channel->fd;
	want_eq(poll(&p, 1, LIMIT), 1);
	take(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	said_want(SAID_NEAR,
		  "connection management: user id %u has taken port %u at one address, where a "
		  "process has it at all; that process is asked; end the other one",
		  SOMEBODY, be16toh(rdma_get_src_port(id)));
	want(first);
	want_eq(kill(child, SIGKILL), 0);
	want_eq(waitpid(child, NULL, 0), child);
}

int main(void)
{
	static const struct test_case list[] = {
		CASE(who_asks_nothing_is_closed),
		CASE(another_user_has_few),
		CASE(a_process_without_descriptors_is_busy),
		CASE(a_stolen_descriptor_is_replaced),
		CASE(another_user_has_few_requests),
		CASE(another_user_asks_at_a_link_local_address),
		CASE(a_user_without_an_id_connects_to_nobody),
		CASE_ARG(a_port_of_another_user_names_him, false),
		CASE_ARG(a_port_of_another_user_names_him, true),
		CASE(nobody_comes_between_a_user_and_his_own_wildcard),
	};

	return CASES_RUN(list);
}
