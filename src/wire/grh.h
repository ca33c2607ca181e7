// SPDX-License-Identifier: MIT
/* The 40 bytes before the payload of a UD receive. An IPv6 packet, or a RoCEv1 one, leaves its
 * header as it is; an IPv4 packet leaves 20 zero bytes and its header with a correct checksum.
 * Programs read it, and ibv_init_ah_from_wc() turns it into an address. Pure. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { GRH_LEN = 40, GRH_NEXT_UDP = 17, GRH_NEXT_BTH = 0x1b /* RoCEv1 */ };
enum { GRH_UD_BYTES = 8 + 12 + 8 + 4 }; /* UDP, BTH, DETH, ICRC: around a datagram's payload */

/* Which header the packet had, as completions carry it (bits of wc.sl that UCX reads). */
enum grh_l3 { GRH_L3_ROCE_V1, GRH_L3_IPV6, GRH_L3_IPV4 };

enum grh_version { GRH_NONE = 0, GRH_IPV4 = 4, GRH_IPV6 = 6 };

struct grh {
	uint8_t sgid[16], dgid[16]; /* IPv4 as ::ffff:a.b.c.d */
	uint8_t tclass; /* IPv4: TOS */
	uint8_t hop_limit; /* IPv4: TTL */
	uint8_t next_hdr; /* GRH_NEXT_*: which RoCE it came by */
	uint32_t flow_label; /* 20 bits; IPv4 has none */
	uint16_t payload_len; /* bytes behind the IP header; 65515 at most on IPv4 */
};

/* Two IPv4 addresses and GRH_NEXT_UDP make an IPv4 header, anything else an IPv6 one. */
void grh_build(const struct grh *g, uint8_t area[GRH_LEN]);

/* Another payload_len in the header that grh_build() has made. */
void grh_resize(uint8_t area[GRH_LEN], uint16_t payload_len);

/* Which header is in the area. If byte 0 has version 6: IPv6, unless bytes 20..39 are an IPv4
 * header with a valid checksum; else IPv4, if byte 20 has version 4. */
enum grh_version grh_version(const uint8_t area[GRH_LEN]);

/* EBADMSG: there is neither header. */
int grh_parse(const uint8_t area[GRH_LEN], struct grh *out);

/* The checksum of an IPv4 header of 20 bytes, as it stands on the wire once put_be16() stores it;
 * the checksum field counts as zero. */
uint16_t grh_ipv4_checksum(const uint8_t ip[20]);

bool grh_gid_is_ipv4(const uint8_t gid[16]); /* ::ffff:a.b.c.d */
/* ff00::/8, or an IPv4 group as a RoCE GID: ::ffff:224.0.0.0/100 */
bool grh_gid_is_group(const uint8_t gid[16]);
