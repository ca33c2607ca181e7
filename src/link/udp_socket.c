// SPDX-License-Identifier: MIT
#include <errno.h>
#include <netinet/udp.h>
#include <string.h>
#include <unistd.h>
#include "link/gid.h"
#include "link/udp_state.h"

enum { SENDER_FIRST = 0xc000, SENDER_MASK = 0x3fff, SENDER_TRIES = 64, BUFFER = 4 << 20 };

socklen_t udp_addr_set(union udp_addr *a, const union ibv_gid *gid, uint32_t ifindex, uint16_t port)
{
	memset(a, 0, sizeof(*a));
	if (gid_is_ipv4(gid)) {
		a->in.sin_family = AF_INET;
		a->in.sin_port = htons(port);
		memcpy(&a->in.sin_addr, gid->raw + 12, sizeof(a->in.sin_addr));
		return sizeof(a->in);
	}
	a->in6.sin6_family = AF_INET6;
	a->in6.sin6_port = htons(port);
	memcpy(&a->in6.sin6_addr, gid->raw, sizeof(a->in6.sin6_addr));
	if (gid_is_link_local(gid))
		a->in6.sin6_scope_id = ifindex;
	return sizeof(a->in6);
}

static int set(int fd, int level, int option, int value)
{
	return setsockopt(fd, level, option, &value, sizeof(value)) ? errno : 0;
}

/* DF and no fragments: the identification stays 0. Buffers as large as we are allowed. */
static int common_options(const struct udp_port *p, int fd)
{
	int err;

	if (set(fd, SOL_SOCKET, SO_RCVBUFFORCE, BUFFER))
		set(fd, SOL_SOCKET, SO_RCVBUF, BUFFER);
	if (set(fd, SOL_SOCKET, SO_SNDBUFFORCE, BUFFER))
		set(fd, SOL_SOCKET, SO_SNDBUF, BUFFER);
	if (!p->ipv4)
		return set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
	err = set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
	return err ? err : set(fd, SOL_SOCKET, SO_NO_CHECK, 1);
}

static int listen_options(const struct udp_port *p, int fd)
{
	int err = set(fd, SOL_SOCKET, SO_REUSEPORT, 1);

	if (err)
		return err;
	if (p->ipv4) {
		err = set(fd, IPPROTO_IP, IP_RECVTOS, 1);
		return err ? err : set(fd, IPPROTO_IP, IP_RECVTTL, 1);
	}
	set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	err = set(fd, SOL_UDP, UDP_NO_CHECK6_RX, 1);
	err = err ? err : set(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
	return err ? err : set(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1);
}

static int open_socket(const struct udp_port *p, int *fd)
{
	int s = socket(p->ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (s < 0)
		return errno;
	*fd = s;
	return common_options(p, s);
}

static int bind_to(const struct udp_port *p, int fd, uint16_t port)
{
	union udp_addr a;
	socklen_t len = udp_addr_set(&a, &p->gid, p->ifindex, port);

	return bind(fd, &a.sa, len) ? errno : 0;
}

int udp_socket_listen(const struct udp_port *p, int *fd)
{
	int s = -1, err = open_socket(p, &s);

	err = err ? err : listen_options(p, s);
	err = err ? err : bind_to(p, s, UDP_ROCE_PORT);
	if (!err)
		*fd = s;
	else if (s >= 0)
		close(s);
	return err;
}

int udp_socket_sender(const struct udp_port *p, uint16_t want, int *fd, uint16_t *got)
{
	int s = -1, err = open_socket(p, &s);
	uint16_t port = 0;

	for (unsigned int i = 0; !err && i < SENDER_TRIES; i++) {
		port = (uint16_t)(SENDER_FIRST | ((want + i * 37) & SENDER_MASK));
		err = bind_to(p, s, port);
		if (err != EADDRINUSE)
			break;
		err = i + 1 < SENDER_TRIES ? 0 : err;
	}
	if (!err) {
		*fd = s;
		*got = port;
	} else if (s >= 0) {
		close(s);
	}
	return err;
}
