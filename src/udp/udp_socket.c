// SPDX-License-Identifier: MIT
#include <errno.h>
#include <linux/filter.h>
#include <netinet/udp.h>
#include <string.h>
#include <unistd.h>
#include "net/gid.h"
#include "udp/udp_state.h"
#include "wire/ip.h"

enum { SENDER_TRIES = 64, BUFFER = 4 << 20 };

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
	if (gid_is_link_local(gid) || grh_gid_is_group(gid->raw))
		a->in6.sin6_scope_id = ifindex;
	return sizeof(a->in6);
}

void udp_addr_gid(const union udp_addr *a, uint8_t gid[16])
{
	union ibv_gid g;

	if (a->sa.sa_family == AF_INET)
		gid_of_ipv4(&a->in.sin_addr, &g);
	else
		memcpy(&g, &a->in6.sin6_addr, sizeof(g));
	memcpy(gid, g.raw, sizeof(g));
}

int udp_option(int fd, int level, int option, int value)
{
	return setsockopt(fd, level, option, &value, sizeof(value)) ? errno : 0;
}

void udp_socket_receive_buffer(int fd)
{
	if (udp_option(fd, SOL_SOCKET, SO_RCVBUFFORCE, BUFFER))
		udp_option(fd, SOL_SOCKET, SO_RCVBUF, BUFFER);
}

/* DF and no fragments: the identification stays 0. Whatever ICMP says of the path's MTU changes
 * nothing, since anybody can say it (docs/design/security.md). Buffers as large as we are
 * allowed. */
static int common_options(const struct udp_port *p, int fd)
{
	int err;

	udp_socket_receive_buffer(fd);
	if (udp_option(fd, SOL_SOCKET, SO_SNDBUFFORCE, BUFFER))
		udp_option(fd, SOL_SOCKET, SO_SNDBUF, BUFFER);
	if (!p->ipv4)
		return udp_option(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE);
	err = udp_option(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE);
	return err ? err : udp_option(fd, SOL_SOCKET, SO_NO_CHECK, 1);
}

int udp_socket_receives(const struct udp_port *p, int fd)
{
	int err;

	udp_option(fd, SOL_UDP, UDP_GRO, 1); /* without it trains come in pieces */
	if (p->ipv4) {
		err = udp_option(fd, IPPROTO_IP, IP_RECVTOS, 1);
		return err ? err : udp_option(fd, IPPROTO_IP, IP_RECVTTL, 1);
	}
	udp_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	err = udp_option(fd, SOL_UDP, UDP_NO_CHECK6_RX, 1);
	err = err ? err : udp_option(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
	return err ? err : udp_option(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1);
}

int udp_socket_open(const struct udp_port *p, int *fd)
{
	int s = socket(p->ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (s < 0)
		return errno;
	*fd = s;
	return common_options(p, s);
}

int udp_socket_bind(const struct udp_port *p, int fd, uint16_t port)
{
	union udp_addr a;
	socklen_t len = udp_addr_set(&a, &p->gid, p->ifindex, port);

	return bind(fd, &a.sa, len) ? errno : 0;
}

int udp_socket_listen(const struct udp_port *p, int *fd)
{
	int s = -1, err = udp_socket_open(p, &s);

	err = err ? err : udp_option(s, SOL_SOCKET, SO_REUSEPORT, 1);
	err = err ? err : udp_socket_receives(p, s);
	err = err ? err : udp_socket_bind(p, s, UDP_ROCE_PORT);
	if (!err)
		*fd = s;
	else if (s >= 0)
		close(s);
	return err;
}

/* Nobody reads it: what is sent to it would fill the memory that the host has for UDP. A filter
 * drops it; errors that ICMP brings pass. */
void udp_socket_deafen(int fd)
{
	struct sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog prog = { .len = 1, .filter = &drop };

	setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog));
}

/* Leaves the descriptor open when it fails. */
static int bind_near(const struct udp_port *p, int fd, uint16_t want, uint16_t *got)
{
	int err = EADDRINUSE;

	for (unsigned int i = 0; err == EADDRINUSE && i < SENDER_TRIES; i++) {
		*got = udp_sport(want + i * 37);
		err = udp_socket_bind(p, fd, *got);
	}
	return err;
}

int udp_socket_sender(const struct udp_port *p, uint16_t want, bool shared, int *fd, uint16_t *got)
{
	int s = -1, err = udp_socket_open(p, &s);

	if (!err && shared)
		udp_socket_deafen(s);
	err = err ? err : udp_option(s, SOL_SOCKET, SO_REUSEPORT, shared);
	err = err ? err : bind_near(p, s, want, got);
	if (!err)
		*fd = s;
	else if (s >= 0)
		close(s);
	return err;
}

int udp_socket_chosen(const struct udp_port *p, uint16_t port, int *fd)
{
	int s = -1, err = udp_socket_open(p, &s);

	if (!err)
		udp_socket_deafen(s);
	err = err ? err : udp_option(s, SOL_SOCKET, SO_REUSEPORT, 1);
	err = err ? err : udp_socket_bind(p, s, port);
	if (!err)
		*fd = s;
	else if (s >= 0)
		close(s);
	return err;
}

static int open_train(const struct udp_port *p, uint16_t sport, int *fd)
{
	int s = -1, err = udp_socket_open(p, &s);

	if (!err)
		udp_socket_deafen(s);
	err = err ? err : udp_option(s, SOL_SOCKET, SO_NO_CHECK, 0); /* or it takes no trains */
	err = err ? err : udp_option(s, SOL_SOCKET, SO_REUSEPORT, 1);
	err = err ? err : udp_socket_bind(p, s, sport);
	if (!err)
		*fd = s;
	else if (s >= 0)
		close(s);
	return err;
}

int udp_socket_train(struct udp *u, struct udp_port *p, unsigned int i, const int **fd)
{
	int err = 0;

	if (!p->ipv4) {
		*fd = &p->sender[i];
		return 0;
	}
	mutex_lock(&u->lock);
	if (p->train[i] < 0)
		err = open_train(p, p->sport[i], &p->train[i]);
	mutex_unlock(&u->lock);
	if (!err)
		*fd = &p->train[i];
	return err;
}
