// SPDX-License-Identifier: MIT
/* What the hosts behind network addresses are able to do, found out by asking: the first packets to
 * an address bring a question (OP_HELLO), which other stacks drop for its opcode. It is repeated a
 * few times while packets go there, and never waited for. It leaves by a socket of its own, so that
 * the answer reaches the process that asked, whoever of the peer's host has read the question; the
 * answer must repeat a number of the question that cannot be guessed, so it is the address' own.
 * An answer speaks for all processes of the host, and is no longer than its question.
 *
 *	0 version 8 · 1 flags 8 (1: an answer) · 2 abilities 16 · 4 longest train 16 · 6 index 16 ·
 *	8 receive budget in bytes 32 · 12 slot 32 · 16 number 64
 *
 * Index and slot are 0, but in questions of a host to itself (udp_steer.h): which of the sockets on
 * UDP 4791 is asked, + 1; the slot of who answers, + 1.
 *
 * Whoever has answered sends IPv4 identifications as udp_icrc.h says. When packets come that look
 * otherwise, another stack may have taken over its address: it is asked again, and forgotten unless
 * it answers. Dests and drains use peers without a lock; one is freed when the table is full, and
 * then only outside any drain and if it has no dest. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "prm/av.h"

struct udp;
struct udp_port;
union udp_addr;

enum { UDP_HELLO_LEN = 24, UDP_HELLO_INDEX = 6, UDP_PEERS = 4096, UDP_PEER_BUCKETS = 256 };

enum { /* abilities, as on the wire; atomic */
       UDP_REPORTS = 1, /* understands OP_REPORT and packets out of order */
       UDP_TRAINS = 2, /* looks at the index in the BTH */
       UDP_ANSWERED = 1 << 16, /* not on the wire: the rest is valid */
};

struct udp_peer {
	struct udp_peer *next; /* same bucket; set before it is seen */
	union ibv_gid gid;
	uint32_t ifindex;
	uint64_t number;
	uint32_t abilities; /* atomic */
	uint32_t budget; /* atomic: bytes that it can hold until it looks */
	uint32_t dests; /* atomic */
	uint32_t changes; /* atomic: of the two above */
	uint32_t asked; /* atomic: times, since the question came up */
	uint64_t ask_at; /* atomic, ns; UINT64_MAX: no question */
	uint64_t again_at; /* atomic: when a new destination may raise it again */
	uint64_t used_at; /* ns: the last destination; under udp->peer_lock */
};

/* The peer of a new destination, asked with its first packets unless that was done lately. The
 * table being full, that goes which has had no destination for longest. NULL: none can go just now,
 * or no memory; it will be taken for another stack. */
struct udp_peer *udp_peer_use(struct udp *u, const struct udp_port *port, const union ibv_gid *gid);
void udp_peer_leave(struct udp_peer *p); /* NULL is fine */
/* NULL: nothing is known about the address. */
struct udp_peer *udp_peer_find(struct udp *u, const struct udp_port *port,
			       const union ibv_gid *gid);
void udp_peers_free(struct udp *u);

/* Sends the question if it is due; @dqpn: the QP to which packets go. */
void udp_hello_ask(struct udp *u, struct udp_port *port, struct udp_peer *p, uint32_t dqpn);
/* A packet of a peer that has answered looks like another stack's. */
void udp_hello_doubt(struct udp *u, struct udp_port *port, struct udp_peer *p);
/* Asks the socket at @index - 1 of UDP 4791 on the port's own address whose it is. */
void udp_hello_locate(struct udp_port *port, uint64_t number, uint32_t index);
/* A hello with the right ICRC, on the port's own socket (an @answer) or on UDP 4791. EBADMSG: it
 * does not belong there. */
int udp_hello_take(struct udp *u, struct udp_port *port, const union udp_addr *from,
		   const uint8_t *payload, size_t len, bool answer);
