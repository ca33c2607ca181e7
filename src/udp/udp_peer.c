// SPDX-License-Identifier: MIT
#include "udp/udp_peer.h"
#include <stdlib.h>
#include <string.h>
#include "udp/udp_state.h"
#include "util/clock.h"
#include "util/secret.h"

#define AGAIN_NS UINT64_C(5000000000)

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
	if (secret_number(&p->number)) {
		free(p);
		return NULL;
	}
	store_relaxed(&u->n_peers, u->n_peers + 1);
	store_release(at, p); /* pairs with udp_peer_find() */
	return p;
}

void udp_peer_question(struct udp_peer *p)
{
	store_relaxed(&p->asked, 0);
	store_relaxed(&p->ask_at, 0);
}

/* Under u->peer_lock and u->drain_lock: then no thread uses a peer without destinations. */
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
		udp_peer_question(p);
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
