// SPDX-License-Identifier: MIT
#include "udp/udp.h"
#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "net/gid.h"
#include "net/route.h"
#include "net/rtnl.h"
#include "obs/explain.h"
#include "prm/av.h"
#include "udp/udp_batch.h"
#include "udp/udp_state.h"
#include "udp/udp_talk.h"
#include "util/clock.h"
#include "util/log.h"
#include "wire/ip.h"

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
	if (udp_counts_make(&u->counts, &u->counts_fd)) {
		u->counts = &u->unshown;
		u->counts_fd = -1;
	}
	mutex_init(&u->lock);
	mutex_init(&u->group_lock);
	u->epoll = epoll_create1(EPOLL_CLOEXEC);
	u->returns = epoll_create1(EPOLL_CLOEXEC);
	if (u->epoll < 0 || u->returns < 0) {
		int err = errno;

		udp_destroy(u);
		return refuse(err, "the udp link: no epoll descriptor: error %d; raise ulimit -n",
			      err);
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

static void counts_leave(struct udp *u)
{
	leave(&u->counts_fd);
	u->counts = &u->unshown;
}

static void port_leave(struct udp_port *p)
{
	for (unsigned int i = 0; i < UDP_SOCKETS; i++)
		leave(&p->sender[i]), leave(&p->train[i]);
	leave(&p->hello);
	leave(&p->fd);
	udp_seen_free(p->seen);
	p->seen = NULL;
	p->looked = false;
}

static void port_free(struct udp_port *p)
{
	port_leave(p);
	free(p);
}

void udp_destroy(struct udp *u)
{
	if (!u)
		return;
	for (uint32_t i = 0; i < u->n_ports; i++)
		port_free(u->port[i]);
	udp_mcast_free(u);
	udp_batch_free(u->batches);
	udp_peers_free(u);
	leave(&u->epoll);
	leave(&u->returns);
	if (u->counts != &u->unshown)
		udp_counts_free(u->counts);
	counts_leave(u);
	free(u->inbox);
	free(u);
}

void udp_leave(struct udp *u)
{
	for (uint32_t i = 0; i < u->n_ports; i++)
		port_leave(u->port[i]);
	udp_mcast_leave(u);
	leave(&u->epoll);
	leave(&u->returns);
	counts_leave(u); /* the page is not mapped here */
}

int udp_fd(struct udp *u)
{
	return u->epoll;
}

void udp_count(struct udp *u, struct udp_counts *out)
{
	udp_counts_read(u->counts, out);
}

/* --- ports --- */

static struct udp_port *port_find(struct udp *u, const union ibv_gid *gid, uint32_t ifindex)
{
	for (uint32_t i = 0; i < u->n_ports; i++)
		if (!memcmp(&u->port[i]->gid, gid, sizeof(*gid)) && u->port[i]->ifindex == ifindex)
			return u->port[i];
	return NULL;
}

/* Under u->lock. @fd is bound to the port. */
static int port_open(struct udp *u, struct udp_port *p, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = p };
	int err = 0;

	if (p->hello < 0)
		err = udp_socket_sender(p, (uint16_t)(getpid() & UDP_OWN_PORTS), false, &p->hello,
					&p->hello_sport);
	if (!err && (epoll_ctl(u->epoll, EPOLL_CTL_ADD, fd, &ev) ||
		     epoll_ctl(u->epoll, EPOLL_CTL_ADD, p->hello, &ev)))
		err = errno;
	if (err) {
		close(fd);
		leave(&p->hello);
		return refuse(
			err, "the udp link: no socket to ask peers from: error %d; raise ulimit -n",
			err);
	}
	store_release(&p->fd, fd); /* pairs with drain_port() */
	if (spin_trylock(&u->drain_lock)) { /* else a packet that goes astray asks */
		udp_steer_ask(p, clock_now());
		spin_unlock(&u->drain_lock);
	}
	return 0;
}

static int port_listen(struct udp *u, struct udp_port *p)
{
	int fd = -1, err = udp_socket_listen(p, &fd);

	err = err ? udp_refuse_port(err, &p->gid) : port_open(u, p, fd);
	p->foreign = err == EADDRINUSE || rtnl_is_passing(err);
	return err;
}

/* A port whose address is gone is not tried again; a process without descriptors tries again. */
static void port_again(struct udp *u, struct udp_port *p)
{
	char text[INET6_ADDRSTRLEN];
	int fd = -1, err = udp_socket_listen(p, &fd);

	err = err ? err : port_open(u, p, fd);
	p->foreign = err && err != EADDRNOTAVAIL;
	if (err)
		return;
	gid_text(&p->gid, text, sizeof(text));
	log_warn("UDP %d on %s is free again, and ours now: the link to the network is there",
		 UDP_ROCE_PORT, text);
}

static int port_add(struct udp *u, const union ibv_gid *gid, uint32_t ifindex,
		    struct udp_port **out)
{
	struct udp_port *p;

	if (u->n_ports == UDP_PORTS)
		return refuse(
			ENOSPC,
			"the udp link: %d addresses are in use; remove some from the interface",
			UDP_PORTS);
	p = malloc(sizeof(*p));
	if (!p)
		return refuse_memory("the udp link", sizeof(*p));
	*p = (struct udp_port){
		.gid = *gid, .ifindex = ifindex, .ipv4 = gid_is_ipv4(gid), .fd = -1, .hello = -1
	};
	for (unsigned int i = 0; i < UDP_SOCKETS; i++)
		p->sender[i] = p->train[i] = -1;
	u->port[u->n_ports] = p;
	store_release(&u->n_ports, u->n_ports + 1); /* pairs with udp_drain() */
	*out = p;
	return 0;
}

/* A sender to groups alone needs no socket that listens: another user may have the port. */
static int port_get(struct udp *u, const union ibv_gid *gid, uint32_t ifindex, bool listens,
		    struct udp_port **out)
{
	struct udp_port *p;
	int err = 0;

	if (!gid_is_link_local(gid))
		ifindex = 0;
	p = port_find(u, gid, ifindex);
	if (!p)
		err = port_add(u, gid, ifindex, &p);
	if (!err && listens && p->fd < 0)
		err = port_listen(u, p);
	if (!err)
		*out = p;
	return err;
}

int udp_listen(struct udp *u, const union ibv_gid *local, uint32_t ifindex)
{
	struct udp_port *p;
	int err;

	mutex_lock(&u->lock);
	err = port_get(u, local, ifindex, true, &p);
	mutex_unlock(&u->lock);
	return err;
}

bool udp_again(struct udp *u)
{
	bool foreign = false;

	mutex_lock(&u->lock);
	for (uint32_t i = 0; i < u->n_ports; i++) {
		if (u->port[i]->foreign)
			port_again(u, u->port[i]);
		foreign |= u->port[i]->foreign;
	}
	mutex_unlock(&u->lock);
	return foreign;
}

static bool is_idle(const struct udp_port *p)
{
	const struct route_ends ends = { .to = p->gid, .oif = p->ifindex };
	enum route_kind way;

	if (load_acquire(&p->dests))
		return false;
	way = route_kind(NULL, &ends);
	return way == ROUTE_OUT || way == ROUTE_NONE;
}

/* False: another thread is in the middle of a drain, and may want u->lock. */
static bool tidy(struct udp *u)
{
	struct udp_port *p;
	bool done = true;
	uint32_t i = 0;

	mutex_lock(&u->lock);
	while (i < u->n_ports && done) {
		p = u->port[i];
		if (!is_idle(p)) {
			i++;
			continue;
		}
		done = spin_trylock(&u->drain_lock);
		if (!done)
			break;
		u->port[i] = u->port[u->n_ports - 1];
		store_release(&u->n_ports, u->n_ports - 1);
		spin_unlock(&u->drain_lock);
		port_free(p);
	}
	mutex_unlock(&u->lock);
	return done;
}

void udp_tidy(struct udp *u)
{
	while (!tidy(u))
		sched_yield();
}

/* --- destinations --- */

enum { QP1 = 1 };

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
	return udp_flow_sport(fl);
}

/* Under u->lock. The socket that sends from @sport, one of those from @first up to @end, which stay
 * as long as the address does. ENOSPC: all of them send from others. */
static int exact_get(struct udp_port *port, uint16_t sport, unsigned int first, unsigned int end,
		     unsigned int *out)
{
	unsigned int i = first;
	int err;

	while (i < end && port->sender[i] >= 0 && port->sport[i] != sport)
		i++;
	if (i == end)
		return ENOSPC;
	*out = i;
	if (port->sender[i] >= 0)
		return 0;
	if (sport == UDP_ROCE_PORT) /* packets that come in would be shared with that socket */
		return EINVAL;
	err = udp_socket_chosen(port, sport, &port->sender[i]);
	port->sport[i] = sport;
	return err;
}

/* Under u->lock. */
static int chosen_get(struct udp_port *port, uint16_t sport, unsigned int *out)
{
	int err = exact_get(port, sport, UDP_CHOSEN, UDP_WISHED, out);

	if (err == ENOSPC)
		return refuse(ENOSPC,
			      "the udp link: %d source ports have been chosen on this address, "
			      "which are all that can be; choose one of them",
			      UDP_WISHED - UDP_CHOSEN);
	if (err)
		return refuse(err,
			      "the udp link: nothing can be sent from UDP port %u: error %d; "
			      "choose another port",
			      sport, err);
	return 0;
}

/* Under u->lock. Source ports that are equal modulo UDP_SENDERS share one socket. */
static int sender_get(struct udp *u, struct udp_port *port, const struct udp_path *p,
		      unsigned int *out)
{
	bool casts = grh_gid_is_group(p->net.remote.raw);
	uint16_t want = source_port(p);
	bool tells = p->rqpn == QP1 && !casts;
	unsigned int i = casts ? UDP_CASTER : tells ? UDP_TELLER : want % UDP_SENDERS;
	int err = 0;

	if (p->sport && !casts && !tells)
		return chosen_get(port, p->sport, out);
	if (p->wish && !casts && !tells && !exact_get(port, p->wish, UDP_WISHED, UDP_SOCKETS, out))
		return 0;
	if (port->sender[i] < 0 && casts)
		err = udp_mcast_sender(u, port);
	else if (port->sender[i] < 0 && tells)
		err = udp_returns_sender(u, port);
	else if (port->sender[i] < 0)
		err = udp_socket_sender(port, want, true, &port->sender[i], &port->sport[i]);
	if (err)
		return refuse(err,
			      "the udp link: no socket to send from: error %d; raise ulimit -n",
			      err);
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
	mutex_lock(&u->lock);
	err = port_get(u, &p->net.local, p->ifindex, !grh_gid_is_group(p->net.remote.raw), &port);
	err = err ? err : sender_get(u, port, p, &sender);
	if (!err)
		fetch_add_relaxed(&port->dests, 1); /* udp_tidy() leaves it from here on */
	mutex_unlock(&u->lock);
	if (err)
		return err;
	err = udp_dest_make(u, port, sender, p, out);
	if (err)
		fetch_sub_acq_rel(&port->dests, 1);
	return err;
}

int udp_knock(struct udp *u, const struct udp_path *p)
{
	struct udp_port *port = NULL;
	struct udp_peer *peer;
	int err;

	mutex_lock(&u->lock);
	err = port_get(u, &p->net.local, p->ifindex, true, &port);
	if (!err)
		fetch_add_relaxed(&port->dests, 1); /* as udp_dest() */
	mutex_unlock(&u->lock);
	if (err)
		return err;
	peer = udp_peer_use(u, port, &p->net.remote);
	if (peer)
		udp_talk_doubt(u, port, peer);
	udp_peer_leave(peer);
	fetch_sub_acq_rel(&port->dests, 1);
	return 0;
}
