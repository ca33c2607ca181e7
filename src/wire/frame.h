// SPDX-License-Identifier: MIT
/* Ethernet frames as RAW_PACKET queue pairs send and get them: from the destination MAC to the last
 * byte before the FCS. frame_parse() finds the headers of a frame, of a tunnel in it and of what
 * the tunnel carries; it never fails: where a header is cut short or unknown, the walk ends, and
 * the headers behind it count as absent. Pointers borrow the frame. Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	FRAME_ETH_LEN = 14,
	FRAME_VLAN_LEN = 4,
	FRAME_MIN = 60, /* the sender pads shorter ones */
	FRAME_FCS_LEN = 4,
	FRAME_MAX = 10000, /* headers and all: an MTU of 9978 with two VLAN tags */
	FRAME_HASH_KEY = 40, /* bytes of a Toeplitz key */
};

enum frame_l3 { FRAME_NO_L3, FRAME_IP4, FRAME_IP6 };
enum frame_l4 { FRAME_NO_L4, FRAME_TCP, FRAME_UDP, FRAME_ESP };

struct frame_layer {
	const uint8_t *eth; /* NULL: none (a tunnel that carries IP) */
	const uint8_t *vlan; /* the last tag's TCI, NULL: untagged */
	uint16_t ether_type; /* behind the last tag */
	uint8_t l3, l4; /* enum frame_l3, frame_l4 */
	uint8_t proto; /* of IP, behind IPv6's extension headers */
	const uint8_t *ip, *l4_head;
	uint32_t l4_len; /* bytes from l4_head on: as IP says, and not more than the frame has */
	bool cut; /* IP promises more bytes than the frame has */
};

struct frame {
	const uint8_t *buf;
	uint32_t len;
	const uint8_t *vxlan, *gre, *mpls; /* headers of a tunnel; mpls: the first label */
	struct frame_layer outer, inner;
};

void frame_parse(const uint8_t *buf, uint32_t len, struct frame *out);
bool frame_is_multicast(const struct frame *f);

/* Which checksums a receiver found right: of the layer's IP header (IPv6 has none, and counts as
 * right), of its TCP or UDP. */
enum { FRAME_L3_OK = 1, FRAME_L4_OK = 2 };
unsigned int frame_checksums(const struct frame_layer *l);
/* Computes those of the outer layer of the frame in @buf that @which names (FRAME_L3_OK,
 * FRAME_L4_OK). */
void frame_checksums_fill(uint8_t *buf, uint32_t len, unsigned int which);
/* Completes a checksum that covers only the pseudo header: of the bytes from @at to the end; it
 * stands @offset bytes behind @at. False: beyond the frame. */
bool frame_checksum_complete(uint8_t *buf, uint32_t len, uint32_t at, uint32_t offset);

/* The sum of the 16-bit words from the outer IP header to the end of what IP says, as a checksum
 * adds them; 0: no IP. */
uint16_t frame_sum(const struct frame *f);

uint32_t frame_fcs(const uint8_t *buf, uint32_t len);

/* Receive side scaling. Bits of @fields: as enum ibv_rx_hash_fields. Fields that the frame does not
 * have are left out; 0 when it has none. */
enum {
	FRAME_HASH_SRC_IP4 = 1 << 0,
	FRAME_HASH_DST_IP4 = 1 << 1,
	FRAME_HASH_SRC_IP6 = 1 << 2,
	FRAME_HASH_DST_IP6 = 1 << 3,
	FRAME_HASH_SRC_TCP = 1 << 4,
	FRAME_HASH_DST_TCP = 1 << 5,
	FRAME_HASH_SRC_UDP = 1 << 6,
	FRAME_HASH_DST_UDP = 1 << 7,
	FRAME_HASH_SPI = 1 << 8,
};
#define FRAME_HASH_INNER (UINT64_C(1) << 31)
uint32_t frame_hash(const struct frame *f, uint64_t fields, const uint8_t key[FRAME_HASH_KEY]);

/* Segmentation: makes the segment with bytes [@done, @done + @n) of the payload from the headers in
 * @buf[0..@head), which are those of a whole message of @total bytes. Changes the lengths, the IPv4
 * identification, the TCP sequence number and flags; checksums come after. False: no TCP in IP.
 * @index: of this segment. */
struct frame_cut {
	uint32_t head, done, n, total, index;
};
bool frame_segment(uint8_t *buf, const struct frame_cut *cut);

/* A merged frame: the headers of the first frame of several, and the payload of all. */
struct frame_merged {
	const uint8_t *buf; /* borrowed */
	uint32_t head; /* bytes of headers */
	uint32_t total, step; /* bytes of payload: of all; of each frame but the last */
};
/* Of the frame @buf, which is said to carry @proto (of IP: TCP or UDP) at @l4, 0: anywhere, in
 * steps of @step. False: it does not (a tunnel may), or its frames are longer than FRAME_MAX. */
bool frame_merged(const struct frame *f, uint8_t proto, uint32_t l4, uint32_t step,
		  struct frame_merged *out);
/* Builds frame @index, with its checksums, in @out[0..FRAME_MAX). Its length; 0: there are not as
 * many. */
uint32_t frame_of_merged(const struct frame_merged *m, uint32_t index, uint8_t *out);
