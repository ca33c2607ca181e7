// SPDX-License-Identifier: MIT
/* Ports of connection management: who may take one, no two connections with the same ends, and what
 * a forked child has of them. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "verbs/cases.h"

enum { MANY = 200, WAYS = 3, BLOCK = 64, FDS = 1024 };

static struct rdma_event_channel *channel;

static struct sockaddr_in loop(in_port_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = port,
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static struct rdma_cm_id *made(void)
{
	struct rdma_cm_id *id;

	channel = channel ? channel : rdma_create_event_channel();
	want(channel);
	want_eq(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	return id;
}

static struct rdma_cm_id *passes(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *e;
	struct rdma_cm_id *id;

	want_eq(rdma_get_cm_event(channel, &e), 0);
	want_eq(e->event, type);
	id = e->id;
	want_eq(rdma_ack_cm_event(e), 0);
	return id;
}

static struct rdma_cm_id *resolved(in_port_t port)
{
	struct sockaddr_in to = loop(port);
	struct rdma_cm_id *id = made();

	want_eq(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000), 0);
	passes(RDMA_CM_EVENT_ADDR_RESOLVED);
	want(rdma_get_src_port(id));
	return id;
}

static int descriptors(void)
{
	int n = 0;

	for (int fd = 0; fd < FDS; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void want_different(struct rdma_cm_id *const *ids, int n)
{
	static bool seen[65536];

	memset(seen, 0, sizeof(seen));
	for (int i = 0; i < n; i++) {
		want(!seen[rdma_get_src_port(ids[i])]);
		seen[rdma_get_src_port(ids[i])] = true;
	}
}

/* A block of ports costs a descriptor as long as it is in use, and serves each destination. */
static void one_way_one_port(int arg)
{
	static struct rdma_cm_id *ids[WAYS][MANY];
	struct rdma_cm_id *first = resolved(htons(7000));
	int before = descriptors();

	(void)arg;
	for (int w = 0; w < WAYS; w++) {
		for (int i = 0; i < MANY; i++)
			ids[w][i] = resolved(htons((uint16_t)(7471 + w)));
		want_different(ids[w], MANY);
	}
	want(descriptors() - before <= MANY / BLOCK + 1);
	for (int w = 0; w < WAYS; w++)
		for (int i = 0; i < MANY; i++)
			want_eq(rdma_destroy_id(ids[w][i]), 0);
	want(descriptors() - before <= 1); /* that of @first, and the newest one */
	want_eq(rdma_destroy_id(first), 0);
	want(descriptors() <= before);
}

static struct rdma_cm_id *listening(in_port_t *port)
{
	struct sockaddr_in at = loop(0);
	struct rdma_cm_id *id = made();

	want_eq(rdma_bind_addr(id, (struct sockaddr *)&at), 0);
	want_eq(rdma_listen(id, 1), 0);
	*port = rdma_get_src_port(id);
	return id;
}

/* As in Linux, an id that connects never has the port of one that listens: its port is below. */
static void no_way_from_a_listener(int arg)
{
	static struct rdma_cm_id *ids[2][MANY];
	struct sockaddr_in at = loop(0);
	in_port_t highest = 0;

	(void)arg;
	for (int i = 0; i < MANY; i++) {
		ids[0][i] = resolved(htons(7471));
		if (ntohs(rdma_get_src_port(ids[0][i])) > highest)
			highest = ntohs(rdma_get_src_port(ids[0][i]));
	}
	for (int i = 0; i < MANY; i++) {
		ids[1][i] = made();
		want_eq(rdma_bind_addr(ids[1][i], (struct sockaddr *)&at), 0);
		want(ntohs(rdma_get_src_port(ids[1][i])) > highest);
	}
	for (int i = 0; i < MANY; i++) {
		want_eq(rdma_destroy_id(ids[0][i]), 0);
		want_eq(rdma_destroy_id(ids[1][i]), 0);
	}
}

/* Live connections: more than a block has ports. */
static void one_connection_one_port(int arg)
{
	enum { N = BLOCK + 6 };
	struct rdma_cm_id *active[N], *passive[N], *l;
	struct rdma_conn_param p = { .qp_num = 77 };
	in_port_t port;

	(void)arg;
	l = listening(&port);
	for (int i = 0; i < N; i++) {
		active[i] = resolved(port);
		want_eq(rdma_resolve_route(active[i], 1000), 0);
		passes(RDMA_CM_EVENT_ROUTE_RESOLVED);
		want_eq(rdma_connect(active[i], &p), 0);
		passive[i] = passes(RDMA_CM_EVENT_CONNECT_REQUEST);
		want_eq(rdma_get_dst_port(passive[i]), rdma_get_src_port(active[i]));
		want_eq(rdma_accept(passive[i], &p), 0);
		passes(RDMA_CM_EVENT_CONNECT_RESPONSE);
		want_eq(rdma_establish(active[i]), 0);
		passes(RDMA_CM_EVENT_ESTABLISHED);
	}
	want_different(active, N);
	for (int i = 0; i < N; i++) {
		want_eq(rdma_destroy_id(active[i]), 0);
		want_eq(rdma_destroy_id(passive[i]), 0);
	}
	want_eq(rdma_destroy_id(l), 0);
}

/* --- rights --- */

static bool may_bind(bool drop)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct c[2];
	uint32_t bit = 1U << CAP_NET_BIND_SERVICE;

	want_eq(syscall(SYS_capget, &h, c), 0);
	if (drop) {
		c[0].effective &= ~bit;
		want_eq(syscall(SYS_capset, &h, c), 0);
	}
	return c[0].effective & bit;
}

static void privileged_ports(int arg)
{
	struct sockaddr_in at = loop(htons(1023)), above = loop(htons(1024));
	struct rdma_cm_id *id = made();

	(void)arg;
	if (may_bind(false)) {
		want_eq(rdma_bind_addr(id, (struct sockaddr *)&at), 0);
		want_eq(rdma_destroy_id(id), 0);
		id = made();
	}
	want(!may_bind(true));
	want_minus1(rdma_bind_addr(id, (struct sockaddr *)&at), EACCES);
	want_eq(rdma_bind_addr(id, (struct sockaddr *)&above), 0); /* it is not bound yet */
	want_eq(rdma_destroy_id(id), 0);
}

/* Both families are served, as if no other address had been tried before. */
static void a_bind_that_fails_leaves_nothing(int arg)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6 };
	struct rdma_conn_param p = { .qp_num = 77 };
	struct rdma_cm_id *id = made(), *active, *l;
	struct sockaddr_in at = loop(0);

	(void)arg;
	l = listening(&at.sin_port);
	want_minus1(rdma_bind_addr(id, (struct sockaddr *)&at), EADDRINUSE);
	want_eq(rdma_bind_addr(id, (struct sockaddr *)&any), 0);
	want_eq(rdma_listen(id, 1), 0);
	active = resolved(rdma_get_src_port(id));
	want_eq(rdma_resolve_route(active, 1000), 0);
	passes(RDMA_CM_EVENT_ROUTE_RESOLVED);
	want_eq(rdma_connect(active, &p), 0);
	want_eq(rdma_destroy_id(passes(RDMA_CM_EVENT_CONNECT_REQUEST)), 0);
	want_eq(rdma_destroy_id(active), 0);
	want_eq(rdma_destroy_id(id), 0);
	want_eq(rdma_destroy_id(l), 0);
}

/* --- forks --- */

static char names[1 << 16]; /* the kernel's list of Unix sockets */

static void read_names(void)
{
	int fd = open("/proc/net/unix", O_RDONLY | O_CLOEXEC);
	size_t n = 0;
	ssize_t got;

	while ((got = read(fd, names + n, sizeof(names) - 1 - n)) > 0)
		n += (size_t)got;
	close(fd);
}

/* Of its line "Num RefCount Protocol Flags Type St Inode Path". */
static unsigned long inode_of(const char *line)
{
	unsigned long inode = 0;

	want_eq(sscanf(line, "%*s %*s %*s %*s %*s %*s %lu", &inode), 1);
	return inode;
}

/* No allocation, since the child of a process with threads may find the allocator locked. */
static bool has(unsigned long inode)
{
	char path[32], to[64], socket[64];
	ssize_t n;

	snprintf(socket, sizeof(socket), "socket:[%lu]", inode);
	for (int fd = 0; fd < FDS; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, to, sizeof(to) - 1);
		if (n > 0) {
			to[n] = '\0';
			if (!strcmp(to, socket))
				return true;
		}
	}
	return false;
}

/* How many names of ports this process has; their lines are in @names. */
static int held(const char *what)
{
	char *line, *next;
	int n = 0;

	for (line = names; *line; line = next) {
		next = line + strcspn(line, "\n");
		next += *next == '\n';
		for (char *at = line; at < next; at++)
			if (!strncmp(at, what, strlen(what))) {
				n += has(inode_of(line));
				break;
			}
	}
	return n;
}

/* A name that the child had would outlive the parent. */
static void a_child_has_no_ports(int arg)
{
	struct rdma_cm_id *id, *l;
	int status, blocks;
	in_port_t port;
	pid_t pid;

	(void)arg;
	l = listening(&port);
	id = resolved(port);
	read_names();
	blocks = held(".cm.eph.");
	want(blocks >= 1);
	want(held(".cm.") > blocks); /* the listener's, too */
	pid = fork();
	if (!pid)
		_exit(held(".cm."));
	want_eq(waitpid(pid, &status, 0), pid);
	want_eq(status, 0);
	want_eq(held(".cm.eph."), blocks);
	want_eq(rdma_destroy_id(id), 0);
	want_eq(rdma_destroy_id(l), 0);
}

/* What the child begins is its own, and no descriptor of the parent's is left over. */
static void begins_anew(void)
{
	int before;

	alarm(60);
	channel = NULL;
	resolved(htons(7471));
	before = descriptors();
	for (int i = 0; i < BLOCK; i++)
		resolved(htons(7472));
	want_eq(descriptors(), before);
	_exit(0);
}

static void a_child_has_ports_of_its_own(int arg)
{
	struct rdma_cm_id *id;
	int status;
	pid_t pid;

	(void)arg;
	if (cases_sanitized())
		case_skip("a child may wait for the sanitizer's allocator");
	id = resolved(htons(7471));
	pid = fork();
	if (!pid)
		begins_anew();
	want_eq(waitpid(pid, &status, 0), pid);
	want_eq(status, 0);
	want_eq(rdma_destroy_id(id), 0);
}

/* EIO for what it has inherited; the parent's connection notices nothing. */
static void in_the_child(struct rdma_cm_id *id, struct rdma_cm_id *l)
{
	struct sockaddr_in to = loop(htons(7471));
	struct rdma_conn_param p = { .qp_num = 77 };
	struct rdma_cm_event *e;
	struct rdma_cm_id *other;

	alarm(60);
	want_minus1(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000), EIO);
	want_minus1(rdma_resolve_route(id, 1000), EIO);
	want_minus1(rdma_connect(id, &p), EIO);
	want_minus1(rdma_listen(l, 1), EIO);
	want_minus1(rdma_reject(id, NULL, 0), EIO);
	want_minus1(rdma_disconnect(id), EIO);
	want_minus1(rdma_get_cm_event(channel, &e), EIO);
	want_minus1(rdma_create_id(channel, &other, NULL, RDMA_PS_TCP), EIO);
	want_eq(rdma_destroy_id(id), 0);
	want_eq(rdma_destroy_id(l), 0);
	rdma_destroy_event_channel(channel);
	_exit(0);
}

static void a_child_hears_eio(int arg)
{
	struct rdma_conn_param p = { .qp_num = 77 };
	struct rdma_cm_id *id, *l;
	in_port_t port;
	int status;
	pid_t pid;

	(void)arg;
	if (cases_sanitized())
		case_skip("a child may wait for the sanitizer's allocator");
	l = listening(&port);
	id = resolved(port);
	pid = fork();
	if (!pid)
		in_the_child(id, l);
	want_eq(waitpid(pid, &status, 0), pid);
	want_eq(status, 0);
	want_eq(rdma_resolve_route(id, 1000), 0);
	passes(RDMA_CM_EVENT_ROUTE_RESOLVED);
	want_eq(rdma_connect(id, &p), 0);
	want_eq(rdma_destroy_id(passes(RDMA_CM_EVENT_CONNECT_REQUEST)), 0);
	passes(RDMA_CM_EVENT_REJECTED);
	want_eq(rdma_destroy_id(id), 0);
	want_eq(rdma_destroy_id(l), 0);
}

int main(void)
{
	static const struct test_case list[] = {
		CASE(one_way_one_port),
		CASE(no_way_from_a_listener),
		CASE(one_connection_one_port),
		CASE(privileged_ports),
		CASE(a_bind_that_fails_leaves_nothing),
		CASE(a_child_has_no_ports),
		CASE(a_child_has_ports_of_its_own),
		CASE(a_child_hears_eio),
	};

	return CASES_RUN(list);
}
