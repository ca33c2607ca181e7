// SPDX-License-Identifier: MIT
#include <errno.h>
#include <string.h>
#include "link/gid.h"
#include "link/seg_pkt.h"
#include "link/udp_state.h"
#include "util/be.h"
#include "util/clock.h"
#include "wire/icrc.h"
#include "wire/icrc_id.h"

enum { IP4_LEN = 20, ID_AT = 4, MCAST_QPN = 0xffffff };

/* One packet of the inbox: what the kernel says about it, and its IP header as far as known. */
struct arrival {
	const struct udp_port *port;
	const uint8_t *packet;
	size_t len; /* from the BTH to the ICRC */
	const union udp_addr *from;
	uint8_t area[GRH_LEN];
	uint64_t now;
};

static void gid_of(const union udp_addr *a, uint8_t gid[16])
{
	union ibv_gid g;

	if (a->sa.sa_family == AF_INET)
		gid_of_ipv4(&a->in.sin_addr, &g);
	else
		memcpy(&g, &a->in6.sin6_addr, sizeof(g));
	memcpy(gid, g.raw, sizeof(g));
}

/* TOS comes as a byte, the others as ints. */
static uint8_t small(const struct cmsghdr *c)
{
	int v;

	if (c->cmsg_len < CMSG_LEN(sizeof(v)))
		return *CMSG_DATA(c);
	memcpy(&v, CMSG_DATA(c), sizeof(v));
	return (uint8_t)v;
}

static void read_options(struct msghdr *m, struct grh *g)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		bool v6 = c->cmsg_level == IPPROTO_IPV6;

		if (c->cmsg_type == (v6 ? IPV6_TCLASS : IP_TOS))
			g->tclass = small(c);
		else if (c->cmsg_type == (v6 ? IPV6_HOPLIMIT : IP_TTL))
			g->hop_limit = small(c);
	}
}

static void make_area(struct arrival *a, struct msghdr *m)
{
	struct grh g = { .next_hdr = GRH_NEXT_UDP,
			 .payload_len = (uint16_t)(UDP_HEADER_LEN + a->len) };

	gid_of(a->from, g.sgid);
	memcpy(g.dgid, a->port->gid.raw, sizeof(g.dgid));
	read_options(m, &g);
	grh_build(&g, a->area);
}

/* With identification 0 on IPv4, which a packet of our own has. */
static uint32_t icrc_expected(const struct arrival *a)
{
	const uint8_t *ip = a->area + (a->port->ipv4 ? GRH_LEN - IP4_LEN : 0);
	uint8_t udp[UDP_HEADER_LEN] = { 0 };
	uint16_t sport = a->port->ipv4 ? a->from->in.sin_port : a->from->in6.sin6_port;

	memcpy(udp, &sport, sizeof(sport));
	put_be16(udp + 2, UDP_ROCE_PORT);
	put_be16(udp + 4, (uint16_t)(UDP_HEADER_LEN + a->len));
	return icrc_more(icrc_begin(ip, udp, a->packet), a->packet + BTH_LEN,
			 a->len - BTH_LEN - ICRC_LEN);
}

static bool icrc_right(struct udp *u, const struct arrival *a)
{
	uint32_t diff = icrc_expected(a) ^ icrc_get(a->packet + a->len - ICRC_LEN);
	size_t after = IP4_LEN - ID_AT - 2 + UDP_HEADER_LEN + a->len - ICRC_LEN;
	uint16_t id = 0;

	if (!a->port->ipv4)
		return !diff;
	if (diff && !icrc_solve_id(diff, after, &id))
		return false;
	return udp_ident_fits(&u->ident, a->from->in.sin_addr.s_addr, id, a->now);
}

static void deliver(struct udp *u, const struct arrival *a, const struct pkt *p)
{
	struct seg s;

	seg_from_pkt(p, &s);
	s.flags |= SEG_NET;
	s.grh = a->area;
	s.l3 = a->port->ipv4 ? GRH_L3_IPV4 : GRH_L3_IPV6;
	udp_bump(&u->counts.received, 1);
	u->cfg.deliver(u->cfg.arg, &s);
}

static void take(struct udp *u, struct arrival *a, struct mmsghdr *m)
{
	struct pkt p;

	if ((m->msg_hdr.msg_flags & MSG_TRUNC) || wire_parse(a->packet, a->len, &p) ||
	    p.dqpn == MCAST_QPN) {
		udp_bump(&u->counts.malformed, 1);
		return;
	}
	make_area(a, &m->msg_hdr);
	if (icrc_right(u, a))
		deliver(u, a, &p);
	else
		udp_bump(&u->counts.bad_icrc, 1);
}

static void inbox_reset(struct udp_inbox *in, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		in->iov[i] = (struct iovec){ in->packet[i], sizeof(in->packet[i]) };
		in->msg[i].msg_hdr = (struct msghdr){
			.msg_name = &in->from[i],
			.msg_namelen = sizeof(in->from[i]),
			.msg_iov = &in->iov[i],
			.msg_iovlen = 1,
			.msg_control = in->control[i],
			.msg_controllen = sizeof(in->control[i]),
		};
	}
}

/* Under drain_lock. */
static unsigned int drain_port(struct udp *u, struct udp_port *port, unsigned int budget)
{
	struct udp_inbox *in = u->inbox;
	unsigned int want = budget < UDP_BATCH ? budget : UDP_BATCH;
	struct arrival a = { .port = port };
	int n;

	inbox_reset(in, want);
	n = recvmmsg(port->fd, in->msg, want, MSG_DONTWAIT, NULL);
	if (n <= 0)
		return 0;
	if (!load_relaxed(&port->heard))
		store_relaxed(&port->heard, 1);
	a.now = clock_now();
	for (int i = 0; i < n; i++) {
		a.packet = in->packet[i];
		a.len = in->msg[i].msg_len;
		a.from = &in->from[i];
		take(u, &a, &in->msg[i]);
	}
	return (unsigned int)n;
}

unsigned int udp_drain(struct udp *u, unsigned int budget, bool all)
{
	uint32_t n = load_acquire(&u->n_ports); /* pairs with port_open() */
	unsigned int done = 0;

	if (!spin_trylock(&u->drain_lock))
		return 0;
	for (uint32_t i = 0; i < n && done < budget; i++) {
		struct udp_port *p = u->port[i];

		if (all || load_relaxed(&p->dests) || load_relaxed(&p->heard))
			done += drain_port(u, p, budget - done);
	}
	spin_unlock(&u->drain_lock);
	return done;
}
