// SPDX-License-Identifier: MIT
/* Packets of one destination on their way to the kernel. To a peer that knows trains (udp_talk.h)
 * those that follow each other with one length, the last may be shorter, leave as one message,
 * which the kernel or the device cuts up (UDP_SEGMENT). A batch is its destination's, under the
 * same turn. */
#pragma once
#include "udp/udp_state.h"

/* How packets get to a destination. */
struct udp_way {
	struct udp *u;
	const int *fd; /* to send from */
	uint16_t sport;
	bool trains; /* until the kernel refuses one */
	union udp_addr to;
	socklen_t to_len;
	uint8_t header[GRH_LEN]; /* the IP header, as the ICRC sees it */
	int level, tos_type, ttl_type; /* of the options */
	int hops;
};

struct udp_batch *udp_batch_take(struct udp *u); /* NULL: no memory */
void udp_batch_free(struct udp_batch *all);
/* Where the next packet is to be built; there are UDP_PACKET_MAX bytes. */
uint8_t *udp_batch_room(struct udp_batch *b);
/* It is there, @len bytes with room for the ICRC, which is put in. @tos: the byte of the IP header.
 * True: the batch is full. */
bool udp_batch_add(struct udp_way *w, struct udp_batch *b, size_t len, uint8_t tos);
/* Sends it, and gives it back. What the kernel refuses (no route, too long, a filter) is lost. */
void udp_batch_send(struct udp_way *w, struct udp_batch *b);
