// SPDX-License-Identifier: MIT
/* Invariant CRC of RoCEv2: CRC-32 over eight bytes of ones, the IP, UDP and BTH headers with the
 * fields that routers change set to ones, and the rest up to the ICRC as it is. Pure. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "util/crc.h"

/* The part up to and with the BTH; go on with icrc_more(). @ip is an IPv4 header of 20 bytes or an
 * IPv6 header of 40, as its version says. */
uint32_t icrc_begin(const uint8_t *ip, const uint8_t *udp, const uint8_t *bth);

static inline uint32_t icrc_more(uint32_t crc, const void *buf, size_t len)
{
	return crc_update(crc, buf, len);
}

/* The last four bytes of the packet: least significant first. */
static inline void icrc_put(uint8_t *p, uint32_t crc)
{
	p[0] = (uint8_t)crc;
	p[1] = (uint8_t)(crc >> 8);
	p[2] = (uint8_t)(crc >> 16);
	p[3] = (uint8_t)(crc >> 24);
}

static inline uint32_t icrc_get(const uint8_t *p)
{
	return (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

/* The ICRC that a whole packet of @len bytes, from the IP header to its ICRC, ought to have.
 * EBADMSG: not UDP in IPv4 without options or in IPv6, or the lengths do not agree. */
int icrc_packet(const uint8_t *ip, size_t len, uint32_t *out);
