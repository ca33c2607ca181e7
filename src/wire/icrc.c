// SPDX-License-Identifier: MIT
#include <errno.h>
#include <string.h>
#include "util/be.h"
#include "wire/icrc.h"
#include "wire/ip.h"
#include "wire/opcode.h"

enum { LRH_LEN = 8, PROTO_UDP = 17 };

static void set_ones(uint8_t *p, size_t n)
{
	memset(p, 0xff, n);
}

static size_t ip_len(const uint8_t *ip)
{
	return ip[0] >> 4 == 6 ? IP6_LEN : IP4_LEN;
}

/* Sets the fields that routers change to ones. */
static void mask_ip(uint8_t *ip)
{
	if (ip[0] >> 4 == 6) {
		ip[0] |= 0x0f; /* traffic class */
		set_ones(ip + 1, 3); /* traffic class, flow label */
		ip[7] = 0xff; /* hop limit */
		return;
	}
	ip[1] = 0xff; /* TOS */
	ip[8] = 0xff; /* TTL */
	set_ones(ip + 10, 2); /* header checksum */
}

uint32_t icrc_begin(const uint8_t *ip, const uint8_t *udp, const uint8_t *bth)
{
	uint8_t h[LRH_LEN + IP6_LEN + UDP_LEN + BTH_LEN];
	size_t n = LRH_LEN, iplen = ip_len(ip);

	set_ones(h, LRH_LEN);
	memcpy(h + n, ip, iplen);
	mask_ip(h + n);
	n += iplen;
	memcpy(h + n, udp, UDP_LEN);
	set_ones(h + n + 6, 2); /* checksum */
	n += UDP_LEN;
	memcpy(h + n, bth, BTH_LEN);
	h[n + 4] = 0xff; /* FECN, BECN, reserved */
	n += BTH_LEN;
	return crc_update(0, h, n);
}

/* Bytes behind the IP header by its length field; 0 when it is not plain UDP. */
static size_t ip_body(const uint8_t *ip, size_t len)
{
	if (len >= IP4_LEN && ip[0] == 0x45 && ip[9] == PROTO_UDP && get_be16(ip + 2) == len)
		return len - IP4_LEN;
	if (len >= IP6_LEN && ip[0] >> 4 == 6 && ip[6] == PROTO_UDP &&
	    get_be16(ip + 4) == len - IP6_LEN)
		return len - IP6_LEN;
	return 0;
}

int icrc_packet(const uint8_t *ip, size_t len, uint32_t *out)
{
	size_t body = ip_body(ip, len);
	const uint8_t *udp = ip + (len - body), *bth = udp + UDP_LEN;

	if (body < UDP_LEN + BTH_LEN + ICRC_LEN || get_be16(udp + 4) != body)
		return EBADMSG;
	*out = icrc_more(icrc_begin(ip, udp, bth), bth + BTH_LEN,
			 body - UDP_LEN - BTH_LEN - ICRC_LEN);
	return 0;
}
