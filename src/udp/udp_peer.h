// SPDX-License-Identifier: MIT
/* What is known of the hosts behind network addresses: an entry for each address that packets go
 * to. Destinations and drains use entries without a lock; one is freed when the table is full, and
 * then only outside any drain and if no destination uses it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "prm/av.h"

struct udp;
struct udp_port;

enum { UDP_PEERS = 4096, UDP_PEER_BUCKETS = 256 };

/* Bits of udp_peer.abilities; the lower 16 as on the wire. */
enum udp_ability {
	UDP_REPORTS = 1, /* it understands OP_REPORT, and takes packets out of order */
	UDP_TRAINS = 2, /* it takes trains: it looks at the index in the BTH */
	UDP_GROUNDS = 4, /* it understands OP_GROUNDS */
	UDP_ANSWERED = 1 << 16, /* not on the wire: it has answered, so the other bits are valid */
};

struct udp_peer {
	struct udp_peer *next; /* same bucket; set before it is seen */
	union ibv_gid gid;
	uint32_t ifindex;
	uint64_t number; /* in our questions to it; its answers must repeat it */
	uint32_t abilities; /* atomic: enum udp_ability */
	uint32_t budget; /* atomic: bytes that its socket has room for */
	bool takes_grounds; /* atomic: its question or its answer says UDP_GROUNDS */
	uint32_t dests; /* atomic: destinations that use the entry */
	uint32_t changes; /* atomic: counts changes of abilities and budget */
	uint32_t asked; /* atomic: how often it was asked since the question came up */
	uint64_t ask_at; /* atomic, ns: when it is asked next; UINT64_MAX: no question */
	uint64_t again_at; /* atomic, ns: when a new destination may raise the question again */
	uint64_t used_at; /* ns: when it got its last destination; under udp->peer_lock */
};

/* The peer of a new destination, which is asked with the first packets unless it was asked lately.
 * If the table is full, the peer that has had no destination for longest is freed. NULL: none can
 * be freed just now, or no memory; the host is then treated as another stack. */
struct udp_peer *udp_peer_use(struct udp *u, const struct udp_port *port, const union ibv_gid *gid);
void udp_peer_leave(struct udp_peer *p); /* NULL is fine */
/* NULL: nothing is known about the address. */
struct udp_peer *udp_peer_find(struct udp *u, const struct udp_port *port,
			       const union ibv_gid *gid);
void udp_peer_question(struct udp_peer *p); /* the next packet to it asks it anew */
void udp_peers_free(struct udp *u);
