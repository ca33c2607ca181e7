// SPDX-License-Identifier: MIT
#include <errno.h>
#include <netinet/udp.h>
#include <string.h>
#include "link/seg_pkt.h"
#include "net/gid.h"
#include "obs/explain.h"
#include "udp/udp_icrc.h"
#include "udp/udp_state.h"
#include "udp/udp_talk.h"
#include "util/be.h"
#include "util/clock.h"
#include "util/uncancelled.h"
#include "wire/icrc.h"
#include "wire/icrc_id.h"
#include "wire/ip.h"

enum { ID_AT = 4, ECN = 3, BTH_DQPN = 5, BTH_ACKREQ = 8, CATCH_UP = 64 };

/* One packet of the inbox: what the kernel says about it, and its IP header as far as known. */
struct arrival {
	struct udp_port *port;
	uint16_t dport;
	const uint8_t *packet;
	size_t len; /* from the BTH to the ICRC */
	const union udp_addr *from;
	uint8_t area[GRH_LEN];
	uint8_t tclass, hop_limit;
	size_t segment; /* bytes of each packet but the last; 0: there is one */
	const uint8_t *asks; /* the last packet of a train that asks for an ACK; NULL: none */
	uint64_t now;
};

/* TOS comes as a byte, the others as ints. */
static uint8_t small(const struct cmsghdr *c)
{
	int v;

	if (c->cmsg_len < CMSG_LEN(sizeof(v)))
		return *CMSG_DATA(c);
	memcpy(&v, CMSG_DATA(c), sizeof(v));
	return (uint8_t)v;
}

static size_t segment_size(const struct cmsghdr *c)
{
	int v;

	if (c->cmsg_type != UDP_GRO || c->cmsg_len < CMSG_LEN(sizeof(v)))
		return 0;
	memcpy(&v, CMSG_DATA(c), sizeof(v));
	return v > 0 ? (size_t)v : 0;
}

static void read_options(struct arrival *a, struct msghdr *m)
{
	a->tclass = a->hop_limit = 0;
	a->segment = 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		bool v6 = c->cmsg_level == IPPROTO_IPV6;

		if (c->cmsg_level == SOL_UDP)
			a->segment = segment_size(c);
		else if (c->cmsg_type == (v6 ? IPV6_TCLASS : IP_TOS))
			a->tclass = small(c);
		else if (c->cmsg_type == (v6 ? IPV6_HOPLIMIT : IP_TTL))
			a->hop_limit = small(c);
	}
}

static void make_area(struct arrival *a)
{
	struct grh g = { .next_hdr = GRH_NEXT_UDP,
			 .tclass = a->tclass,
			 .hop_limit = a->hop_limit,
			 .payload_len = (uint16_t)(UDP_LEN + a->len) };

	udp_addr_gid(a->from, g.sgid);
	memcpy(g.dgid, a->port->gid.raw, sizeof(g.dgid));
	grh_build(&g, a->area);
}

/* A stack may count the packets that it sends to a group by themselves. */
static uint32_t identity(const struct arrival *a)
{
	uint32_t from = a->from->in.sin_addr.s_addr, group;

	memcpy(&group, a->port->gid.raw + 12, sizeof(group));
	return grh_gid_is_group(a->port->gid.raw) ? from ^ group : from;
}

/* Of our own stack no packet asks; where none ever does, the kernel shows each to nobody else. */
static struct udp_seen *seen_of(struct udp_port *p)
{
	int was;

	if (likely(p->looked))
		return p->seen;
	p->looked = true;
	was = uncancelled_begin();
	if (grh_gid_is_group(p->gid.raw) || udp_seen_open(&p->gid, &p->seen))
		p->seen = NULL; /* without the right to look, identifications are solved for */
	uncancelled_end(was);
	return p->seen;
}

/* @id would explain the ICRC; is it the packet's? A process that may look does so, another judges
 * by what the sender has used before. */
static bool ident_right(struct udp *u, const struct arrival *a, uint16_t id)
{
	struct udp_seen_packet p = { a->from->in.sin_addr.s_addr, a->from->in.sin_port,
				     (uint16_t)a->len, a->packet };
	struct udp_seen *s = id ? seen_of(a->port) : NULL;
	enum udp_seen_verdict seen = s ? udp_seen_ask(s, &p, id) : UDP_SEEN_MISSED;

	return seen == UDP_SEEN_YES ||
	       (seen == UDP_SEEN_MISSED && udp_ident_fits(&u->ident, identity(a), id, a->now));
}

static uint16_t source_port(const struct arrival *a)
{
	return ntohs(a->port->ipv4 ? a->from->in.sin_port : a->from->in6.sin6_port);
}

/* The identification of a packet of ours is its index; that of another stack's is solved for. */
static bool icrc_right(struct udp *u, struct arrival *a)
{
	uint32_t diff = udp_icrc(a->area, source_port(a), a->dport, a->packet, a->len) ^
			icrc_get(a->packet + a->len - ICRC_LEN);
	size_t after = IP4_LEN - ID_AT - 2 + UDP_LEN + a->len - ICRC_LEN;
	struct udp_peer *peer;
	union ibv_gid gid;
	uint16_t id = 0;

	if (!a->port->ipv4 || a->dport != UDP_ROCE_PORT)
		return !diff;
	if (!diff) {
		udp_ident_fits(&u->ident, identity(a), 0, a->now);
		return true;
	}
	if (!icrc_solve_id(diff, after, &id))
		return false;
	udp_addr_gid(a->from, gid.raw);
	peer = udp_peer_find(u, a->port, &gid);
	if (peer && load_relaxed(&peer->abilities)) {
		udp_talk_doubt(u, a->port, peer);
		return false;
	}
	return ident_right(u, a, id ^ (uint16_t)udp_index_get(a->packet));
}

/* True: a packet that the link itself answers, or that came to the socket for answers. */
static bool hello(struct udp *u, struct arrival *a, const struct pkt *p)
{
	bool answer = a->dport != UDP_ROCE_PORT;

	if (p->opcode != OP_HELLO && !answer)
		return false;
	if (p->opcode != OP_HELLO ||
	    udp_talk_take(u, a->port, a->from, p->payload, p->payload_len, answer))
		udp_bump(&u->counts->malformed, 1);
	return true;
}

/* Datagrams to a group come to its socket, and nothing else does. */
static bool is_astray(const struct arrival *a, const struct pkt *p)
{
	if (!grh_gid_is_group(a->port->gid.raw))
		return p->dqpn == MULTICAST_QPN;
	return p->dqpn != MULTICAST_QPN || opcode_service(p->opcode) != SVC_UD;
}

static void deliver(struct udp *u, const struct arrival *a, const struct pkt *p)
{
	struct seg s;

	/* Hellos do not come here: every process asks its own host questions. */
	if (!load_relaxed(&a->port->heard))
		store_relaxed(&a->port->heard, 1);
	seg_from_pkt(p, &s);
	s.flags |= SEG_NET;
	if (p->dqpn == MULTICAST_QPN) {
		s.flags |= SEG_MCAST;
		s.owner = container_of(a->port, const struct udp_group, port)->owner;
	} else if (p->dqpn == GSI_QPN) {
		s.ifindex = a->port->ifindex;
	}
	s.marked = (a->tclass & ECN) == ECN;
	if (a->asks > a->packet && get_be24(a->asks + BTH_DQPN) == s.dqpn)
		s.flags &= (uint16_t)~SEG_ACKREQ;
	s.grh = a->area;
	s.sport = source_port(a);
	s.l3 = a->port->ipv4 ? GRH_L3_IPV4 : GRH_L3_IPV6;
	udp_bump(&u->counts->received, 1);
	u->cfg.deliver(u->cfg.arg, &s);
}

static void damaged(struct udp *u, const struct arrival *a)
{
	uint64_t n = load_relaxed(&u->counts->bad_icrc) + 1;
	union ibv_gid gid;
	char from[64];

	udp_bump(&u->counts->bad_icrc, 1);
	if (!explain_due(n))
		return;
	udp_addr_gid(a->from, gid.raw);
	gid_text(&gid, from, sizeof(from));
	reason("packet of %zu B from %s, UDP port %u, dropped (%lu so far): its ICRC is wrong; "
	       "look for what damages or rewrites packets on their way, or whether the sender is "
	       "RoCEv2",
	       a->len, from, source_port(a), (unsigned long)n);
}

static void take(struct udp *u, struct arrival *a)
{
	struct pkt p;

	if (wire_parse(a->packet, a->len, &p) || is_astray(a, &p)) {
		udp_bump(&u->counts->malformed, 1);
		return;
	}
	make_area(a);
	if (!icrc_right(u, a))
		damaged(u, a);
	else if (!hello(u, a, &p))
		deliver(u, a, &p);
}

/* One ACK answers all packets of a train that ask for one: the last of them asks. */
static const uint8_t *last_that_asks(const uint8_t *at, const uint8_t *end, size_t segment)
{
	const uint8_t *found = NULL;

	for (; segment && at + BTH_LEN <= end; at += segment)
		if (at[BTH_ACKREQ] & 0x80)
			found = at;
	return found;
}

/* Packet by packet; returns how many. */
static unsigned int take_all(struct udp *u, struct arrival *a, struct mmsghdr *m)
{
	const uint8_t *at = m->msg_hdr.msg_iov->iov_base, *end = at + m->msg_len;
	unsigned int n = 0;

	if (m->msg_hdr.msg_flags & MSG_TRUNC) {
		udp_bump(&u->counts->malformed, 1);
		return 1;
	}
	read_options(a, &m->msg_hdr);
	a->asks = last_that_asks(at, end, a->segment);
	do {
		size_t left = (size_t)(end - at);

		a->packet = at;
		a->len = a->segment && a->segment < left ? a->segment : left;
		take(u, a);
		at += a->len;
		n++;
	} while (at < end);
	return n;
}

static void inbox_reset(struct udp_inbox *in, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		in->iov[i] = (struct iovec){ in->bytes[i], sizeof(in->bytes[i]) };
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

void udp_astray(struct udp *u)
{
	u->astray = true;
}

/* Under drain_lock. */
static unsigned int drain_socket(struct udp *u, int fd, struct arrival *a, unsigned int budget)
{
	struct udp_inbox *in = u->inbox;
	unsigned int want = budget < UDP_INBOX ? budget : UDP_INBOX, done = 0;
	int n;

	if (fd < 0)
		return 0;
	inbox_reset(in, want);
	UNCANCELLED(n, recvmmsg(fd, in->msg, want, MSG_DONTWAIT, NULL));
	if (n <= 0)
		return 0;
	a->now = clock_now();
	for (int i = 0; i < n; i++) {
		a->from = &in->from[i];
		done += take_all(u, a, &in->msg[i]);
	}
	if (unlikely(u->astray)) {
		u->astray = false;
		udp_steer_ask(a->port, a->now);
	}
	return done;
}

/* Polls look for answers while a question is fresh; the engine does when it is woken. */
static bool is_asking(struct udp_port *port)
{
	uint64_t until = load_relaxed(&port->asking_until);

	if (likely(!until))
		return false;
	if (until < clock_now())
		store_relaxed(&port->asking_until, 0);
	return true;
}

static unsigned int drain_port(struct udp *u, struct udp_port *port, unsigned int budget, bool all)
{
	struct arrival a = { .port = port, .dport = UDP_ROCE_PORT };
	int fd = load_acquire(&port->fd); /* pairs with port_open() */
	unsigned int n;

	if (fd < 0)
		return 0;
	n = drain_socket(u, fd, &a, budget);
	if (all || is_asking(port)) {
		a.dport = port->hello_sport;
		drain_socket(u, port->hello, &a, UDP_INBOX);
	}
	return n;
}

/* Ports and groups are one circle: a drain goes on behind the socket that took the last one's
 * budget. Under drain_lock. */
static unsigned int drain(struct udp *u, unsigned int budget, bool all)
{
	/* Pairs with port_add(); tidy() waits for the lock. */
	uint32_t ports = load_acquire(&u->n_ports), n = ports + u->n_groups, k = u->next;
	unsigned int done = 0;

	for (uint32_t i = 0; i < n && done < budget; i++, k++) {
		struct udp_port *p;

		if (k >= n)
			k = 0;
		p = k < ports ? u->port[k] : &u->group[k - ports]->port;
		if (all || load_relaxed(&p->dests) || load_relaxed(&p->heard))
			done += drain_port(u, p, budget - done, all);
	}
	u->next = k;
	return done;
}

unsigned int udp_drain(struct udp *u, unsigned int budget, bool all)
{
	unsigned int done;

	if (!spin_trylock(&u->drain_lock))
		return 0;
	done = drain(u, budget, all);
	spin_unlock(&u->drain_lock);
	return done;
}

bool udp_catch_up(struct udp *u)
{
	unsigned int rounds = 0;

	if (!spin_trylock(&u->drain_lock))
		return false;
	while (drain(u, UDP_INBOX, false) && ++rounds < CATCH_UP)
		;
	spin_unlock(&u->drain_lock);
	return true;
}

bool udp_delivering(struct udp *u)
{
	return spin_is_locked(&u->drain_lock);
}
