// SPDX-License-Identifier: MIT
/* Packets of one destination on their way to the kernel. To a peer that knows trains (udp_hello.h),
 * packets of one length that follow each other leave as one message, the last may be shorter; the
 * kernel or the device cuts it up (UDP_SEGMENT). A batch is its destination's, under the same
 * turn. */
#pragma once
#include "udp/udp_state.h"

/* How packets get to a destination. */
struct udp_way {
	struct udp *u;
	const int *fd; /* socket that it sends from */
	uint16_t sport;
	bool trains; /* until the kernel refuses one */
	union udp_addr to;
	socklen_t to_len;
	uint8_t header[GRH_LEN]; /* the IP header, as the ICRC sees it */
	int level, tos_type, ttl_type; /* socket options of the address family */
	bool tells; /* the socket is told what did not arrive */
	int hops;
	uint32_t *refused; /* dest.refused; and the bytes of such a packet */
	size_t refused_size;
	uint64_t sent, refusals; /* packets that the kernel took, and that it refused */
};

struct udp_batch *udp_batch_take(struct udp *u); /* NULL: no memory */
void udp_batch_free(struct udp_batch *all);
/* The place for the next packet: UDP_PACKET_MAX bytes. */
uint8_t *udp_batch_room(struct udp_batch *b);
/* The packet is built: @len bytes with room for the ICRC, which is put in. @tos: the byte of the IP
 * header. True: the batch is full. */
bool udp_batch_add(struct udp_way *w, struct udp_batch *b, size_t len, uint8_t tos);
/* Sends the batch, which is free then. Packets that the kernel refuses (no route, too long, a
 * filter) are lost. */
void udp_batch_send(struct udp_way *w, struct udp_batch *b);
