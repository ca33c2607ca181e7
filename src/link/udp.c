// SPDX-License-Identifier: MIT
#include "link/udp.h"
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "link/gid.h"
#include "link/udp_state.h"
#include "obs/explain.h"

int udp_create(const struct udp_config *cfg, struct udp **out)
{
	struct udp *u = calloc(1, sizeof(*u));

	if (u)
		u->inbox = calloc(1, sizeof(*u->inbox));
	if (!u || !u->inbox) {
		free(u);
		return refuse_memory("the udp link", sizeof(*u) + sizeof(*u->inbox));
	}
	u->cfg = *cfg;
	pthread_mutex_init(&u->lock, NULL);
	u->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (u->epoll < 0) {
		int err = errno;

		udp_destroy(u);
		return refuse(err, "the udp link: no epoll descriptor: error %d", err);
	}
	*out = u;
	return 0;
}

static void leave(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void port_free(struct udp_port *p)
{
	for (unsigned int i = 0; i < UDP_SENDERS; i++)
		leave(&p->sender[i]);
	leave(&p->fd);
	free(p);
}

void udp_destroy(struct udp *u)
{
	struct udp_batch *next;

	if (!u)
		return;
	for (uint32_t i = 0; i < u->n_ports; i++)
		port_free(u->port[i]);
	for (struct udp_batch *b = u->batches; b; b = next) {
		next = b->next;
		free(b);
	}
	leave(&u->epoll);
	free(u->inbox);
	free(u);
}

void udp_leave(struct udp *u)
{
	for (uint32_t i = 0; i < u->n_ports; i++) {
		leave(&u->port[i]->fd);
		for (unsigned int k = 0; k < UDP_SENDERS; k++)
			leave(&u->port[i]->sender[k]);
	}
	leave(&u->epoll);
}

int udp_fd(struct udp *u)
{
	return u->epoll;
}

void udp_count(struct udp *u, struct udp_counts *out)
{
	const uint64_t *from = (const uint64_t *)&u->counts;
	uint64_t *to = (uint64_t *)out;

	for (unsigned int i = 0; i < sizeof(u->counts) / sizeof(*to); i++)
		to[i] = load_relaxed(&from[i]);
}

/* --- ports --- */

static void address_text(const union ibv_gid *gid, char *buf, socklen_t n)
{
	if (gid_is_ipv4(gid))
		inet_ntop(AF_INET, gid->raw + 12, buf, n);
	else
		inet_ntop(AF_INET6, gid->raw, buf, n);
}

static int refuse_port(int err, const union ibv_gid *gid)
{
	char text[INET6_ADDRSTRLEN], who[64];

	address_text(gid, text, sizeof(text));
	if (err == EADDRINUSE)
		return refuse(err,
			      "UDP %d on %s is held by %s, so there is no link to the network; end "
			      "it, or run as the same user; traffic on this host goes on",
			      UDP_ROCE_PORT, text, udp_holder(gid, who, sizeof(who)));
	if (err == EADDRNOTAVAIL)
		return refuse(err,
			      "UDP %d on %s cannot be bound: the kernel does not use that address "
			      "(yet); choose another GID index",
			      UDP_ROCE_PORT, text);
	return refuse(err, "UDP %d on %s cannot be bound: error %d", UDP_ROCE_PORT, text, err);
}

static struct udp_port *port_find(struct udp *u, const union ibv_gid *gid, uint32_t ifindex)
{
	for (uint32_t i = 0; i < u->n_ports; i++)
		if (!memcmp(&u->port[i]->gid, gid, sizeof(*gid)) && u->port[i]->ifindex == ifindex)
			return u->port[i];
	return NULL;
}

static int port_open(struct udp *u, struct udp_port *p)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = p };
	int err;

	if (u->n_ports == UDP_PORTS)
		return refuse(ENOSPC, "the udp link: %d addresses are in use", UDP_PORTS);
	err = udp_socket_listen(p, &p->fd);
	if (err)
		return refuse_port(err, &p->gid);
	if (epoll_ctl(u->epoll, EPOLL_CTL_ADD, p->fd, &ev))
		return refuse(errno, "the udp link: epoll_ctl: error %d", errno);
	u->port[u->n_ports] = p;
	store_release(&u->n_ports, u->n_ports + 1); /* pairs with udp_drain() */
	return 0;
}

/* Under u->lock. */
static int port_get(struct udp *u, const union ibv_gid *gid, uint32_t ifindex,
		    struct udp_port **out)
{
	struct udp_port *p;
	int err;

	if (!gid_is_link_local(gid))
		ifindex = 0;
	*out = port_find(u, gid, ifindex);
	if (*out)
		return 0;
	p = malloc(sizeof(*p));
	if (!p)
		return refuse_memory("the udp link", sizeof(*p));
	*p = (struct udp_port){
		.gid = *gid, .ifindex = ifindex, .ipv4 = gid_is_ipv4(gid), .fd = -1
	};
	for (unsigned int i = 0; i < UDP_SENDERS; i++)
		p->sender[i] = -1;
	err = port_open(u, p);
	if (err)
		port_free(p);
	else
		*out = p;
	return err;
}

int udp_listen(struct udp *u, const union ibv_gid *local, uint32_t ifindex)
{
	struct udp_port *p;
	int err;

	pthread_mutex_lock(&u->lock);
	err = port_get(u, local, ifindex, &p);
	pthread_mutex_unlock(&u->lock);
	return err;
}

/* --- destinations --- */

/* The rule of RoCEv2: the flow label, or what the two QP numbers make, folded to 14 bits. */
static uint16_t source_port(const struct udp_path *p)
{
	uint32_t fl = p->flow_label;
	uint64_t v = (uint64_t)p->lqpn * p->rqpn;

	if (!fl) {
		v ^= v >> 20;
		v ^= v >> 40;
		fl = v & 0xfffff;
	}
	return (uint16_t)(0xc000 | ((fl & 0x3fff) ^ (fl & 0xfc000) >> 14));
}

/* Under u->lock. One of the sockets stands for all ports that are alike modulo their number. */
static int sender_get(struct udp_port *port, const struct udp_path *p, unsigned int *out)
{
	uint16_t want = source_port(p);
	unsigned int i = want % UDP_SENDERS;
	int err = 0;

	if (port->sender[i] < 0)
		err = udp_socket_sender(port, want, &port->sender[i], &port->sport[i]);
	if (err)
		return refuse(err, "the udp link: no socket to send from: error %d", err);
	*out = i;
	return 0;
}

int udp_dest(struct udp *u, const struct udp_path *p, struct dest **out)
{
	struct udp_port *port = NULL;
	unsigned int sender = 0;
	int err;

	if (gid_is_ipv4(&p->net.local) != gid_is_ipv4(&p->net.remote))
		return refuse(EINVAL, "the addresses of the two ends are one of IPv4 and one of "
				      "IPv6; choose a sgid_index of the peer's family");
	pthread_mutex_lock(&u->lock);
	err = port_get(u, &p->net.local, p->ifindex, &port);
	err = err ? err : sender_get(port, p, &sender);
	pthread_mutex_unlock(&u->lock);
	return err ? err : udp_dest_make(u, port, sender, p, out);
}

/* --- who holds the port --- */

/* The address as /proc/net/udp and udp6 write it: words in host order, in hexadecimal. */
static bool line_matches(const char *local, const union ibv_gid *gid)
{
	bool ipv4 = gid_is_ipv4(gid);
	size_t words = ipv4 ? 1 : 4, digits = words * 8;
	char want[33], any[33];

	if (strlen(local) != digits + 5 || strcmp(local + digits, ":12B7"))
		return false;
	for (size_t i = 0; i < words; i++) {
		uint32_t w;

		memcpy(&w, gid->raw + (ipv4 ? 12 : 4 * i), sizeof(w));
		snprintf(want + 8 * i, 9, "%08X", w);
		snprintf(any + 8 * i, 9, "%08X", 0);
	}
	return !strncmp(local, want, digits) || !strncmp(local, any, digits);
}

const char *udp_holder(const union ibv_gid *local, char *buf, size_t n)
{
	FILE *f = fopen(gid_is_ipv4(local) ? "/proc/net/udp" : "/proc/net/udp6", "re");
	char line[256], where[64];
	unsigned int uid;

	snprintf(buf, n, "%s", "somebody else");
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, " %*[^:]: %63s %*s %*s %*s %*s %*s %u", where, &uid) != 2 ||
		    !line_matches(where, local))
			continue;
		snprintf(buf, n, "uid %u", uid);
		if (!uid)
			snprintf(buf, n, "%s", "uid 0 (root, or the kernel's rdma_rxe)");
		break;
	}
	if (f)
		fclose(f);
	return buf;
}
