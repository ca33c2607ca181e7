// SPDX-License-Identifier: MIT
/* Multicast through the network. The kernel gives each joined socket of this host a copy, also of
 * packets that this host sends, so that other users' processes hear them. Our fellows have had
 * their copies by then: they all send from one source port, and a filter on each group's socket
 * drops packets that the kernel has looped back from that port. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "obs/explain.h"
#include "udp/udp_state.h"
#include "util/rand.h"
#include "wire/ip.h"

#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif

static uint16_t fellows_port(const struct udp *u)
{
	uint64_t x = u->cfg.fellows;

	return (uint16_t)(UDP_USERS_PORT | (rand_mix(&x) & UDP_OWN_PORTS));
}

static int set(int fd, int level, int option, const void *value, socklen_t n)
{
	return setsockopt(fd, level, option, value, n) ? errno : 0;
}

/* --- sending --- */

static int loop_back(const struct udp_port *p, int fd, int loop)
{
	return p->ipv4 ? udp_option(fd, IPPROTO_IP, IP_MULTICAST_LOOP, loop)
		       : udp_option(fd, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, loop);
}

/* SO_REUSEPORT: only our fellows share the port. Where another user happens to have it, receivers
 * could not tell our packets, and this host's other users go without them. */
int udp_mcast_sender(struct udp *u, struct udp_port *p)
{
	int *fd = &p->sender[UDP_CASTER], s = -1, err = udp_socket_open(p, &s);
	bool known;

	err = err ? err : udp_option(s, SOL_SOCKET, SO_REUSEPORT, 1);
	known = !err && !udp_socket_bind(p, s, fellows_port(u));
	p->sport[UDP_CASTER] = fellows_port(u);
	if (!err && !known) {
		close(s);
		s = -1;
		err = udp_socket_sender(p, fellows_port(u) ^ 1, false, &s, &p->sport[UDP_CASTER]);
	}
	err = err ? err : loop_back(p, s, known);
	if (!err)
		udp_socket_deafen(*fd = s);
	else if (s >= 0)
		close(s);
	return err;
}

/* --- joining --- */

/* And what came in by another interface: IPv6 gives it to all members of the group. Behind the IP
 * header: the UDP header, and in it first the source port. */
static int drop_fellows(const struct udp *u, const struct udp_port *p, int fd)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_IFINDEX)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, p->ifindex, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_LOOPBACK, 0, 3),
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, fellows_port(u), 0, 1),
		BPF_STMT(BPF_RET | BPF_K, 0),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
	};
	const struct sock_fprog filter = { sizeof(code) / sizeof(code[0]), code };

	return set(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter));
}

static int become_member(const struct udp_port *p, int fd)
{
	struct ip_mreqn m4 = { .imr_ifindex = (int)p->ifindex };
	struct ipv6_mreq m6 = { .ipv6mr_interface = p->ifindex };

	if (p->ipv4) {
		memcpy(&m4.imr_multiaddr, p->gid.raw + 12, sizeof(m4.imr_multiaddr));
		return set(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &m4, sizeof(m4));
	}
	memcpy(&m6.ipv6mr_multiaddr, p->gid.raw, sizeof(m6.ipv6mr_multiaddr));
	return set(fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &m6, sizeof(m6));
}

/* SO_REUSEADDR lets every user's processes have the group: each of them gets a copy of its own. */
static int group_socket(const struct udp *u, const struct udp_port *p, int fd)
{
	int err = udp_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);

	err = err ? err : udp_socket_receives(p, fd);
	err = err ? err : drop_fellows(u, p, fd);
	if (!err && p->ipv4)
		err = udp_option(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
	else if (!err) /* before Linux 4.20: unknown */
		udp_option(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
	err = err ? err : udp_socket_bind(p, fd, UDP_ROCE_PORT);
	return err ? err : become_member(p, fd);
}

/* Under group_lock. */
static int group_open(struct udp *u, struct udp_group *g)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = g };
	int s = -1, err = udp_socket_open(&g->port, &s);

	err = err ? err : group_socket(u, &g->port, s);
	if (!err && epoll_ctl(u->epoll, EPOLL_CTL_ADD, s, &ev))
		err = errno;
	if (!err) {
		store_release(&g->port.fd, s); /* pairs with drain_socket() */
		return 0;
	}
	if (s >= 0)
		close(s);
	return err;
}

static void drain_stop(struct udp *u)
{
	while (!spin_trylock(&u->drain_lock))
		sched_yield(); /* the thread that has it delivers packets */
}

static struct udp_group *find(struct udp *u, const union ibv_gid *group, const void *owner)
{
	for (uint32_t i = 0; i < u->n_groups; i++)
		if (u->group[i]->owner == owner &&
		    !memcmp(&u->group[i]->port.gid, group, sizeof(*group)))
			return u->group[i];
	return NULL;
}

static int list(struct udp *u, const union ibv_gid *group, const void *owner,
		struct udp_group **out)
{
	bool full = u->n_groups == UDP_GROUPS;
	struct udp_group *g = full ? NULL : malloc(sizeof(*g));

	if (!g)
		return refuse(
			full ? ENOSPC : ENOMEM,
			"the udp link: no room for one more multicast group; leave some first");
	*g = (struct udp_group){ .port = { .gid = *group,
					   .ipv4 = grh_gid_is_ipv4(group->raw),
					   .fd = -1,
					   .hello = -1 },
				 .owner = owner };
	drain_stop(u);
	u->group[u->n_groups++] = g;
	spin_unlock(&u->drain_lock);
	*out = g;
	return 0;
}

static void group_close(struct udp_group *g)
{
	if (g->port.fd >= 0)
		close(g->port.fd);
	g->port.fd = -1;
}

static int join(struct udp *u, struct udp_group *g, uint32_t ifindex)
{
	if (g->port.ifindex != ifindex) {
		drain_stop(u);
		group_close(g);
		g->port.ifindex = ifindex;
		spin_unlock(&u->drain_lock);
	}
	return ifindex && g->port.fd < 0 ? group_open(u, g) : 0;
}

int udp_join(struct udp *u, const union ibv_gid *group, const void *owner, uint32_t ifindex)
{
	struct udp_group *g;
	bool first;
	int err = 0;

	mutex_lock(&u->group_lock);
	g = find(u, group, owner);
	first = !g;
	if (first)
		err = list(u, group, owner, &g);
	if (!err) {
		err = join(u, g, ifindex);
		if (err && first)
			udp_refuse_port(err, group);
	}
	mutex_unlock(&u->group_lock);
	return err;
}

static void part(struct udp *u, struct udp_group *g)
{
	drain_stop(u);
	for (uint32_t i = 0; i < u->n_groups; i++)
		if (u->group[i] == g)
			u->group[i] = u->group[--u->n_groups];
	spin_unlock(&u->drain_lock);
	group_close(g);
	free(g);
}

void udp_part(struct udp *u, const union ibv_gid *group, const void *owner)
{
	struct udp_group *g;

	mutex_lock(&u->group_lock);
	g = find(u, group, owner);
	if (g)
		part(u, g);
	mutex_unlock(&u->group_lock);
}

void udp_mcast_leave(struct udp *u)
{
	for (uint32_t i = 0; i < u->n_groups; i++)
		group_close(u->group[i]);
}

void udp_mcast_free(struct udp *u)
{
	udp_mcast_leave(u);
	for (uint32_t i = 0; i < u->n_groups; i++)
		free(u->group[i]);
}
