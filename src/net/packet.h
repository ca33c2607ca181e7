// SPDX-License-Identifier: MIT
/* The Ethernet of a network interface, by AF_PACKET: needs CAP_NET_RAW in the network namespace.
 * Plain descriptors, non-blocking; any thread. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* @receive: frames that arrive at the interface, to any address, not those that leave it.
 * EPERM: no CAP_NET_RAW; or another errno. */
int packet_open(uint32_t ifindex, bool receive, int *fd);
/* 0; EAGAIN, ENOBUFS: no room just now; EMSGSIZE: longer than the MTU allows; ENETDOWN, … */
int packet_send(int fd, const uint8_t *frame, size_t len);

enum { PACKET_ROOM = (64 << 10) + 64 }; /* bytes of the longest that packet_recv() reads */

/* What the kernel says of a frame. One that it has put together of several of a flow (GRO), or that
 * a sender on this host left for an adapter to cut (TSO, UDP GSO), is merged: the headers of the
 * first, the payload of all. Offsets are from the first byte, and nobody has checked them. */
struct packet {
	uint32_t len;
	uint8_t merged; /* IPPROTO_TCP, IPPROTO_UDP: of such frames; 0: one frame */
	bool unsummed; /* the checksum of what follows sum_at covers only the pseudo header yet */
	uint16_t step; /* merged: bytes of payload in each frame but the last */
	uint16_t sum_at, sum_offset; /* unsummed: where its header begins, where it stands there */
};

/* Reads the next frame into @buf, PACKET_ROOM bytes; the VLAN tag that the kernel took off is put
 * back. EAGAIN: none. EBADMSG: one that is too long, or merged in some other way, is lost. */
int packet_recv(int fd, uint8_t *buf, struct packet *out);
