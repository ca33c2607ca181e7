// SPDX-License-Identifier: MIT
#include "udp/udp_talk.h"
#include <errno.h>
#include <string.h>
#include "udp/udp_hello.h"
#include "udp/udp_icrc.h"
#include "udp/udp_state.h"
#include "util/clock.h"
#include "wire/ip.h"

enum { TIMES = 10, OURS = UDP_REPORTS | UDP_TRAINS | UDP_GROUNDS };
#define FIRST_NS UINT64_C(1000000) /* doubled each time */

/* The share of one peer in the socket buffer, in bytes: all peers with destinations share it, and
 * the kernel counts about twice the bytes of a packet. */
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

/* Our abilities: packets may come out of order, trains with their index, and grounds of NAKs. */
static struct udp_hello ours(struct udp *u, const struct udp_port *port)
{
	return (struct udp_hello){ .abilities = OURS,
				   .train = UDP_TRAIN_MAX,
				   .budget = budget(u, port) };
}

void udp_talk_ask(struct udp *u, struct udp_port *port, struct udp_peer *p, uint32_t dqpn)
{
	uint64_t now = clock_now(), at = load_relaxed(&p->ask_at);
	uint32_t times = load_relaxed(&p->asked);
	union udp_addr to;
	struct udp_hello h;

	if (now < at || !cas_acq_rel(&p->ask_at, &at, now + (FIRST_NS << times)))
		return;
	if (times >= TIMES) { /* a peer that answered once does not any more */
		store_relaxed(&p->ask_at, UINT64_MAX);
		store_relaxed(&p->abilities, 0);
		return;
	}
	store_relaxed(&p->asked, times + 1);
	store_relaxed(&port->asking_until, now + (FIRST_NS << times));
	h = ours(u, port);
	h.number = p->number;
	udp_addr_set(&to, &p->gid, port->ifindex, UDP_ROCE_PORT);
	udp_hello_send(port, false, &to, dqpn, &h);
	udp_bump(&u->counts->questions_sent, 1);
}

void udp_talk_doubt(struct udp *u, struct udp_port *port, struct udp_peer *p)
{
	if (load_relaxed(&p->ask_at) == UINT64_MAX)
		udp_peer_question(p);
	udp_talk_ask(u, port, p, UDP_HELLO_DQPN);
}

/* Abilities that we do not know do not count. */
static void learn(struct udp_peer *p, const struct udp_hello *h)
{
	uint32_t able = (h->abilities & OURS) | UDP_ANSWERED;

	if (h->train < UDP_TRAIN_MAX)
		able &= ~(uint32_t)UDP_TRAINS;
	store_relaxed(&p->ask_at, UINT64_MAX);
	store_relaxed(&p->budget, h->budget);
	store_relaxed(&p->abilities, able);
	store_relaxed(&p->takes_grounds, able & UDP_GROUNDS);
	store_release(&p->changes, load_relaxed(&p->changes) + 1); /* pairs with heed() */
}

/* The first request of a peer may be refused before it has answered a question. Whoever forges its
 * question makes a packet more go where a NAK goes. */
static void overhear(struct udp_peer *p, const struct udp_hello *h)
{
	if (p && h->abilities & UDP_GROUNDS)
		store_relaxed(&p->takes_grounds, true);
}

int udp_talk_take(struct udp *u, struct udp_port *port, const union udp_addr *from,
		  const uint8_t *payload, size_t len, bool answer)
{
	struct udp_peer *p;
	struct udp_hello h, mine;
	union ibv_gid gid = { 0 };
	bool self;

	if (udp_hello_decode(payload, len, &h) || h.answer != answer)
		return EBADMSG;
	udp_addr_gid(from, gid.raw);
	self = h.index && !memcmp(&gid, &port->gid, sizeof(gid));
	if (!answer) {
		mine = ours(u, port);
		mine.answer = true;
		mine.number = h.number;
		mine.index = self ? h.index : 0;
		mine.slot = self ? u->cfg.slot + 1 : 0;
		udp_hello_send(port, true, from, UDP_HELLO_DQPN, &mine);
		if (!self)
			udp_bump(&u->counts->questions_received, 1);
		overhear(udp_peer_find(u, port, &gid), &h);
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
