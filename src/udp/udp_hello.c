// SPDX-License-Identifier: MIT
#include "udp/udp_hello.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include "net/gid.h"
#include "udp/udp_icrc.h"
#include "udp/udp_state.h"
#include "util/be.h"
#include "util/clock.h"
#include "wire/icrc.h"
#include "wire/packet.h"

enum {
	VERSION = 1,
	ANSWER = 1,
	TIMES = 6,
	PACKET = BTH_LEN + UDP_HELLO_LEN + ICRC_LEN,
	PKEY = 0xffff,
	DQPN = 1, /* of answers, which no QP gets */
};
#define FIRST_NS  UINT64_C(10000000) /* doubled each time */
#define LOCATE_NS UINT64_C(50000000)
#define AGAIN_NS  UINT64_C(5000000000)

struct hello {
	bool answer;
	uint16_t abilities, train, index;
	uint32_t budget, slot;
	uint64_t number;
};

/* --- peers --- */

static struct udp_peer **bucket(struct udp *u, const union ibv_gid *gid)
{
	uint64_t x = gid->global.interface_id * UINT64_C(0x9e3779b97f4a7c15);

	return &u->peers[(x >> 32) % UDP_PEER_BUCKETS];
}

struct udp_peer *udp_peer_find(struct udp *u, const struct udp_port *port, const union ibv_gid *gid)
{
	struct udp_peer *p = load_acquire(bucket(u, gid)); /* pairs with add() */

	while (p && (memcmp(&p->gid, gid, sizeof(*gid)) || p->ifindex != port->ifindex))
		p = p->next;
	return p;
}

/* Under u->peer_lock. */
static struct udp_peer *add(struct udp *u, const struct udp_port *port, const union ibv_gid *gid)
{
	struct udp_peer *p, **at = bucket(u, gid);

	if (u->n_peers == UDP_PEERS)
		return NULL;
	p = malloc(sizeof(*p));
	if (!p)
		return NULL;
	*p = (struct udp_peer){
		.next = *at, .gid = *gid, .ifindex = port->ifindex, .ask_at = UINT64_MAX
	};
	if (getrandom(&p->number, sizeof(p->number), GRND_NONBLOCK) != sizeof(p->number)) {
		free(p);
		return NULL;
	}
	store_relaxed(&u->n_peers, u->n_peers + 1);
	store_release(at, p); /* pairs with udp_peer_find() */
	return p;
}

static void question(struct udp_peer *p)
{
	store_relaxed(&p->asked, 0);
	store_relaxed(&p->ask_at, 0);
}

/* Under u->peer_lock and u->drain_lock: who has no destination is nobody's then. */
static void forget_oldest(struct udp *u)
{
	struct udp_peer **oldest = NULL, *p;

	for (unsigned int i = 0; i < UDP_PEER_BUCKETS; i++)
		for (struct udp_peer **at = &u->peers[i]; *at; at = &(*at)->next)
			if (!load_acquire(&(*at)->dests) && /* pairs with udp_peer_leave() */
			    (!oldest || (*at)->used_at < (*oldest)->used_at))
				oldest = at;
	if (!oldest)
		return;
	p = *oldest;
	*oldest = p->next;
	store_relaxed(&u->n_peers, u->n_peers - 1);
	free(p);
}

struct udp_peer *udp_peer_use(struct udp *u, const struct udp_port *port, const union ibv_gid *gid)
{
	bool alone = load_relaxed(&u->n_peers) == UDP_PEERS && spin_trylock(&u->drain_lock);
	uint64_t now = clock_now();
	struct udp_peer *p;

	spin_lock(&u->peer_lock);
	p = udp_peer_find(u, port, gid);
	if (!p && alone)
		forget_oldest(u);
	p = p ? p : add(u, port, gid);
	if (p && !load_relaxed(&p->abilities) && load_relaxed(&p->again_at) <= now) {
		store_relaxed(&p->again_at, now + AGAIN_NS);
		question(p);
	}
	if (p) {
		p->used_at = now;
		fetch_add_relaxed(&p->dests, 1);
	}
	spin_unlock(&u->peer_lock);
	if (alone)
		spin_unlock(&u->drain_lock);
	return p;
}

void udp_peer_leave(struct udp_peer *p)
{
	if (p)
		fetch_sub_acq_rel(&p->dests, 1);
}

void udp_peers_free(struct udp *u)
{
	struct udp_peer *next;

	for (unsigned int i = 0; i < UDP_PEER_BUCKETS; i++)
		for (struct udp_peer *p = u->peers[i]; p; p = next) {
			next = p->next;
			free(p);
		}
}

/* --- packets --- */

static void encode(const struct hello *h, uint8_t out[UDP_HELLO_LEN])
{
	memset(out, 0, UDP_HELLO_LEN);
	out[0] = VERSION;
	out[1] = h->answer ? ANSWER : 0;
	put_be16(out + 2, h->abilities);
	put_be16(out + 4, h->train);
	put_be16(out + UDP_HELLO_INDEX, h->index);
	put_be32(out + 8, h->budget);
	put_be32(out + 12, h->slot);
	put_be64(out + 16, h->number);
}

/* Later versions only add. */
static int decode(const uint8_t *in, size_t len, struct hello *out)
{
	if (len < UDP_HELLO_LEN || in[0] < VERSION)
		return EBADMSG;
	*out = (struct hello){ .answer = in[1] & ANSWER,
			       .abilities = get_be16(in + 2),
			       .train = get_be16(in + 4),
			       .index = get_be16(in + UDP_HELLO_INDEX),
			       .budget = get_be32(in + 8),
			       .slot = get_be32(in + 12),
			       .number = get_be64(in + 16) };
	return 0;
}

/* A socket buffer counts what the kernel needs for a packet, about twice its bytes; what it holds
 * is for all who send. */
static uint32_t budget(struct udp *u, const struct udp_port *port)
{
	int size = 0, peers = 0;
	socklen_t len = sizeof(size);

	if (getsockopt(port->fd, SOL_SOCKET, SO_RCVBUF, &size, &len))
		return 0;
	spin_lock(&u->peer_lock);
	for (unsigned int i = 0; i < UDP_PEER_BUCKETS; i++)
		for (const struct udp_peer *p = u->peers[i]; p; p = p->next)
			peers += load_relaxed(&p->dests) > 0;
	spin_unlock(&u->peer_lock);
	return (uint32_t)(size / 9 * 4 / (peers ? peers : 1));
}

/* What we are able to: transport/hold.h; what comes with the index of a train is checked by it. */
static struct hello ours(struct udp *u, const struct udp_port *port)
{
	return (struct hello){ .abilities = UDP_REPORTS | UDP_TRAINS,
			       .train = UDP_TRAIN_MAX,
			       .budget = budget(u, port) };
}

static void send_from(const struct udp_port *port, int fd, uint16_t sport, const union udp_addr *to,
		      uint32_t dqpn, const struct hello *h)
{
	uint8_t payload[UDP_HELLO_LEN], packet[PACKET], area[GRH_LEN];
	struct grh g = { .next_hdr = GRH_NEXT_UDP };
	bool v4 = port->ipv4;
	struct pkt p = { .opcode = OP_HELLO,
			 .migreq = true,
			 .pkey = PKEY,
			 .dqpn = dqpn,
			 .payload = payload,
			 .payload_len = sizeof(payload) };
	size_t len;

	encode(h, payload);
	if (wire_build(&p, packet, sizeof(packet), &len))
		return;
	memcpy(g.sgid, port->gid.raw, sizeof(g.sgid));
	udp_addr_gid(to, g.dgid);
	grh_build(&g, area);
	icrc_put(packet + len - ICRC_LEN,
		 udp_icrc(area, sport, ntohs(v4 ? to->in.sin_port : to->in6.sin6_port), packet,
			  len));
	if (sendto(fd, packet, len, MSG_DONTWAIT, &to->sa, v4 ? sizeof(to->in) : sizeof(to->in6)) <
	    0)
		return; /* lost: a question is repeated, an answer is asked for again */
}

/* --- asking and answering --- */

void udp_hello_ask(struct udp *u, struct udp_port *port, struct udp_peer *p, uint32_t dqpn)
{
	uint64_t now = clock_now(), at = load_relaxed(&p->ask_at);
	uint32_t times = load_relaxed(&p->asked);
	union udp_addr to;
	struct hello h;

	if (now < at || !cas_acq_rel(&p->ask_at, &at, now + (FIRST_NS << times)))
		return;
	if (times >= TIMES) { /* who has answered before does not any more */
		store_relaxed(&p->ask_at, UINT64_MAX);
		store_relaxed(&p->abilities, 0);
		return;
	}
	store_relaxed(&p->asked, times + 1);
	store_relaxed(&port->asking_until, now + (FIRST_NS << times));
	h = ours(u, port);
	h.number = p->number;
	udp_addr_set(&to, &p->gid, port->ifindex, UDP_ROCE_PORT);
	send_from(port, port->hello, port->hello_sport, &to, dqpn, &h);
	udp_bump(&u->counts->questions_sent, 1);
}

void udp_hello_doubt(struct udp *u, struct udp_port *port, struct udp_peer *p)
{
	if (load_relaxed(&p->ask_at) == UINT64_MAX)
		question(p);
	udp_hello_ask(u, port, p, DQPN);
}

void udp_hello_locate(struct udp_port *port, uint64_t number, uint32_t index)
{
	struct hello h = { .index = (uint16_t)index, .number = number };
	union udp_addr to;

	store_relaxed(&port->asking_until, clock_now() + LOCATE_NS);
	udp_addr_set(&to, &port->gid, port->ifindex, UDP_ROCE_PORT);
	send_from(port, port->hello, port->hello_sport, &to, DQPN, &h);
}

/* A peer's own abilities count, those that we do not know do not. */
static void learn(struct udp_peer *p, const struct hello *h)
{
	uint32_t able = (h->abilities & (UDP_REPORTS | UDP_TRAINS)) | UDP_ANSWERED;

	if (h->train < UDP_TRAIN_MAX)
		able &= ~(uint32_t)UDP_TRAINS;
	store_relaxed(&p->ask_at, UINT64_MAX);
	store_relaxed(&p->budget, h->budget);
	store_relaxed(&p->abilities, able);
	store_release(&p->changes, load_relaxed(&p->changes) + 1); /* pairs with heed() */
}

int udp_hello_take(struct udp *u, struct udp_port *port, const union udp_addr *from,
		   const uint8_t *payload, size_t len, bool answer)
{
	struct udp_peer *p;
	struct hello h, mine;
	union ibv_gid gid = { 0 };
	bool self;

	if (decode(payload, len, &h) || h.answer != answer)
		return EBADMSG;
	udp_addr_gid(from, gid.raw);
	self = h.index && !memcmp(&gid, &port->gid, sizeof(gid));
	if (!answer) {
		mine = ours(u, port);
		mine.answer = true;
		mine.number = h.number;
		mine.index = self ? h.index : 0;
		mine.slot = self ? u->cfg.slot + 1 : 0;
		send_from(port, port->fd, UDP_ROCE_PORT, from, DQPN, &mine);
		udp_bump(&u->counts->questions_received, 1);
		return 0;
	}
	if (self) {
		udp_steer_answered(port, h.number, h.index, h.slot);
		return 0;
	}
	p = udp_peer_find(u, port, &gid);
	if (!p || p->number != h.number)
		return EBADMSG;
	learn(p, &h);
	udp_bump(&u->counts->answers_received, 1);
	store_relaxed(&port->asking_until, 0);
	return 0;
}
