// SPDX-License-Identifier: MIT
/* Packets of one destination on their way to the kernel. To a peer that knows trains (udp_hello.h),
 * packets of one length that follow each other leave as one message (the last packet may be
 * shorter), which the kernel or the device cuts up (UDP_SEGMENT). A batch belongs to its
 * destination, and is used under the same turn. */
#pragma once
#include "udp/udp_state.h"

/* How packets get to a destination. */
struct udp_way {
	struct udp *u;
	const int *fd; /* socket to send from */
	uint16_t sport;
	bool trains; /* may be used; false once the kernel has refused one */
	union udp_addr to;
	socklen_t to_len;
	uint8_t header[GRH_LEN]; /* the IP header, as the ICRC sees it */
	int level, tos_type, ttl_type; /* socket options of the address family */
	bool tells; /* the kernel tells the socket which packets did not arrive (IP_RECVERR) */
	int hops; /* TTL or hop limit */
	uint32_t ifindex; /* of a group: the interface to leave by; else 0 */
	const union ibv_gid *from; /* of a group: the source address */
	uint32_t *refused; /* dest.refused */
	size_t refused_size; /* bytes of a packet that was refused */
	uint64_t sent, refusals; /* packets that the kernel took, and that it refused */
};

struct udp_batch *udp_batch_take(struct udp *u); /* NULL: no memory */
void udp_batch_free(struct udp_batch *all);
/* The place for the next packet: UDP_PACKET_MAX bytes. */
uint8_t *udp_batch_room(struct udp_batch *b);
/* Adds the packet built there: @len bytes with room for the ICRC, which is computed here. @tos: the
 * byte of the IP header. True: the batch is full. */
bool udp_batch_add(struct udp_way *w, struct udp_batch *b, size_t len, uint8_t tos, bool damaged);
/* Sends the packets and frees the batch. Packets that the kernel refuses (no route, too long, a
 * filter) are lost. */
void udp_batch_send(struct udp_way *w, struct udp_batch *b);
