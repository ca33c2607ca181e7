// SPDX-License-Identifier: MIT
/* What the kernel tells: answers of rtnetlink and sock_diag, files of /proc, IP headers on a raw
 * socket. Most of it is the kernel's own word, but names, addresses and neighbours are what others
 * have set, and a netlink socket takes messages from privileged processes, too. The input: which of
 * them, then what they give out, piece by piece, each with its length in front. This file stands in
 * place of libmnl and the C library's functions while something is fed. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <libmnl/libmnl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>
#include "fuzz.h"
#include "hca/memory.h"
#include "net/netdev.h"
#include "net/rtnl.h"
#include "net/unix_listeners.h"
#include "peers/host_names.h"
#include "peers/mapping.h"
#include "udp/udp_seen.h"
#include "util/be.h"
#include "wire/opcode.h"

/* The C library declares addresses as unions, and dlsym() finds functions. */
#pragma GCC diagnostic ignored "-Wpedantic"

enum { MAX = 1024, PORT = 7, SEQUENCE = 1, SNAP = 60 + 8 + BTH_LEN };

static const uint8_t nothing[BTH_LEN];

const struct fuzz_target fuzz_target = { "kernel", MAX, 60000 };

static struct fuzz_bytes *fed; /* NULL: the functions below are the C library's */

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POISONS
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(POISONS)
#include <sanitizer/asan_interface.h>
#define FORBID(p, n) __asan_poison_memory_region(p, n)
#define ALLOW(p, n)  __asan_unpoison_memory_region(p, n)
#else
#define FORBID(p, n) (void)(p)
#define ALLOW(p, n)  (void)(p)
#endif

static size_t piece(size_t most, const uint8_t **out)
{
	size_t n = fuzz_take(fed, 2);

	return fuzz_take_run(fed, n < most ? n : most, out);
}

/* --- libmnl --- */

struct mnl_socket *mnl_socket_open2(int bus, int flags)
{
	(void)bus;
	(void)flags;
	return (struct mnl_socket *)(void *)&fed;
}

int mnl_socket_bind(struct mnl_socket *nl, unsigned int groups, pid_t pid)
{
	(void)nl;
	(void)groups;
	(void)pid;
	return 0;
}

ssize_t mnl_socket_sendto(const struct mnl_socket *nl, const void *buf, size_t n)
{
	(void)nl;
	(void)buf;
	return (ssize_t)n;
}

unsigned int mnl_socket_get_portid(const struct mnl_socket *nl)
{
	(void)nl;
	return PORT;
}

int mnl_socket_close(struct mnl_socket *nl)
{
	(void)nl;
	return 0;
}

/* libmnl looks at these two itself, and drops what has others. */
static void address(uint8_t *buf, size_t n)
{
	struct nlmsghdr *msg;

	while (n >= sizeof(*msg)) {
		msg = (struct nlmsghdr *)(void *)buf;
		msg->nlmsg_seq = SEQUENCE;
		msg->nlmsg_pid = PORT;
		if (msg->nlmsg_len < sizeof(*msg) || msg->nlmsg_len > n ||
		    MNL_ALIGN(msg->nlmsg_len) > n)
			return;
		n -= MNL_ALIGN(msg->nlmsg_len);
		buf += MNL_ALIGN(msg->nlmsg_len);
	}
}

ssize_t mnl_socket_recvfrom(const struct mnl_socket *nl, void *buf, size_t most)
{
	const uint8_t *from;
	size_t n;

	(void)nl;
	ALLOW(buf, most);
	if (!fed->left) {
		errno = EIO;
		return -1;
	}
	n = piece(most, &from);
	memcpy(buf, from, n);
	address(buf, n);
	FORBID((uint8_t *)buf + n, most - n);
	return (ssize_t)n;
}

/* --- the C library --- */

FILE *fopen(const char *restrict path, const char *restrict mode)
{
	static FILE *(*real)(const char *, const char *);
	const uint8_t *from;
	size_t n;

	if (!real)
		real = (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen");
	if (!fed)
		return real(path, mode);
	n = piece(MAX, &from);
	if (!n) {
		errno = ENOENT;
		return NULL;
	}
	return fmemopen((void *)(uintptr_t)from, n, "r");
}

int socket(int domain, int type, int protocol)
{
	if (fed && (type & 0xf) == SOCK_RAW)
		type = (type & ~0xf) | SOCK_DGRAM; /* no right is needed */
	return (int)syscall(SYS_socket, domain, type, protocol);
}

int bind(int fd, const struct sockaddr *to, socklen_t len)
{
	return fed ? 0 : (int)syscall(SYS_bind, fd, to, len);
}

int recvmmsg(int fd, struct mmsghdr *m, unsigned int n, int flags, struct timespec *most)
{
	unsigned int i;
	const uint8_t *from;

	if (!fed)
		return (int)syscall(SYS_recvmmsg, fd, m, n, flags, most);
	for (i = 0; i < n && fed->left; i++) {
		struct iovec *room = m[i].msg_hdr.msg_iov;

		ALLOW(room->iov_base, room->iov_len);
		m[i].msg_len = (unsigned int)piece(room->iov_len, &from);
		memcpy(room->iov_base, from, m[i].msg_len);
	}
	return i ? (int)i : -1;
}

/* --- what is read --- */

static void check_scan(struct netdev_scan *s)
{
	for (unsigned int i = 0; i < s->devs; i++)
		must(memchr(s->dev[i].name, 0, sizeof(s->dev[i].name)));
	netdev_scan_free(s);
}

static void links(bool routes)
{
	struct netdev_scan s;

	if (!netdev_scan_rtnl(&s, routes))
		check_scan(&s);
}

static void route(void)
{
	static const uint8_t to[16] = { 10, 0, 0, 1 };
	struct rtnl_route r = { 0 };
	uint16_t state;

	rtnl_route(AF_INET6, to, NULL, 1, &r);
	rtnl_neigh(AF_INET, to, 1, &state);
}

static void files(void)
{
	struct netdev_scan s;

	if (!netdev_scan_proc(&s))
		check_scan(&s);
}

static void names(void)
{
	uint64_t taken[NUMBER_SLOTS / 64];
	uint32_t uid;

	host_names_uid(&uid);
	host_names_alike(65534);
	host_names_read(1000, taken);
}

/* /proc/self/maps, /proc/self/smaps */
static void areas(void)
{
	memory_check_maps(0x7f0000001000, 0x2000, true, "fuzz");
	memory_check_huge(0x7f0000200000, 0x400000, "fuzz");
}

/* /proc/self/maps, /proc/locks */
static void file_of_an_area(void)
{
	struct mapping_file f;
	int fd;

	if (!mapping_find(0x7f0000001000, 0x1000, &f, &fd))
		must(f.len == 0x1000 && fcntl(fd, F_GETFD) >= 0);
}

static void take_name(void *arg, const char *name, uint32_t uid)
{
	(void)arg;
	(void)uid;
	must(*name && strlen(name) < sizeof(((struct sockaddr_un *)0)->sun_path));
}

static void listeners(void)
{
	unix_listeners(take_name, NULL);
}

/* What is known of an IP packet, if it is whole as far as it is looked at. */
static bool known(const uint8_t *ip, size_t n, struct udp_seen_packet *out)
{
	size_t head = n ? (size_t)(ip[0] & 0xf) * 4 : 0;

	if (head < 20 || n < head + 8 + BTH_LEN)
		return false;
	memcpy(&out->addr, ip + 12, sizeof(out->addr));
	memcpy(&out->port, ip + head, sizeof(out->port));
	out->len = (uint16_t)(get_be16(ip + head + 4) - 8);
	out->bth = ip + head + 8;
	return true;
}

/* A packet that was seen is known. */
static void raw_ip(void)
{
	const union ibv_gid local = { .raw = { [10] = 0xff, 0xff, 127, 0, 0, 1 } };
	struct fuzz_bytes first = *fed;
	struct udp_seen_packet p;
	static struct udp_seen *s;
	const uint8_t *ip;
	size_t n = fuzz_take(&first, 2);

	n = fuzz_take_run(&first, n < SNAP ? n : SNAP, &ip);
	if (!s && udp_seen_open(&local, &s))
		abort();
	if (known(ip, n, &p))
		must(udp_seen_ask(s, &p, get_be16(ip + 4)) == UDP_SEEN_YES);
	else
		udp_seen_ask(s, &(struct udp_seen_packet){ .bth = nothing }, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct fuzz_bytes b = { data, len };
	unsigned int what = (unsigned int)fuzz_take(&b, 1) % 9;

	fed = &b;
	if (what < 2)
		links(what);
	else if (what == 2)
		route();
	else if (what == 3)
		files();
	else if (what == 4)
		names();
	else if (what == 5)
		raw_ip();
	else if (what == 6)
		listeners();
	else if (what == 7)
		areas();
	else
		file_of_an_area();
	fed = NULL;
	return 0;
}
