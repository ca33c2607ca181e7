// SPDX-License-Identifier: MIT
/* IPv4 identifications that a raw socket sees. A UDP socket does not show the IP header to its
 * reader; a raw socket beside it does, for processes that have CAP_NET_RAW. The raw socket gets
 * each packet before the UDP socket does, so a packet whose header it has not shown was not sent
 * with that identification. It skips packets with identification 0, which need no check, and
 * packets that the kernel has put together (GRO: never those without a UDP checksum, as hardware
 * and rxe send them). The newest few thousand headers are kept as hashes.
 * Locking: the owner's. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "link/link.h"

struct udp_seen;

/* The fields that identify a packet; addresses and ports in network order. */
struct udp_seen_packet {
	uint32_t addr; /* the sender's */
	uint16_t port;
	uint16_t len; /* bytes of UDP payload, host order */
	const uint8_t *bth; /* BTH_LEN bytes */
};

enum udp_seen_verdict {
	UDP_SEEN_NO, /* no such packet had that identification */
	UDP_SEEN_YES,
	UDP_SEEN_MISSED, /* unknown: the raw socket has lost packets, or is younger than this one */
};

/* Begins to look at packets to UDP 4791 of @local. What the UDP socket has then is not seen: until
 * the first that is, no answer is UDP_SEEN_NO. EPERM: no CAP_NET_RAW. */
int udp_seen_open(const union ibv_gid *local, struct udp_seen **out);
void udp_seen_free(struct udp_seen *s); /* NULL is fine */
/* Did the packet @p, which the UDP socket has delivered, carry identification @id (not 0)? */
enum udp_seen_verdict udp_seen_ask(struct udp_seen *s, const struct udp_seen_packet *p,
				   uint16_t id);
