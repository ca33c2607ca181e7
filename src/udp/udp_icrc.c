// SPDX-License-Identifier: MIT
#include "udp/udp_icrc.h"
#include "util/be.h"
#include "wire/icrc.h"
#include "wire/ip.h"
#include "wire/opcode.h"

enum { IP4_LENGTH = 2, IP4_IDENT = 4, IP6_LENGTH = 4, BTH_BITS = 4 };

unsigned int udp_index_get(const uint8_t *packet)
{
	return packet[BTH_BITS] & (UDP_TRAIN_MAX - 1);
}

void udp_index_put(uint8_t *packet, unsigned int index)
{
	packet[BTH_BITS] = (uint8_t)((packet[BTH_BITS] & ~(UDP_TRAIN_MAX - 1)) | index);
}

uint32_t udp_icrc(uint8_t area[GRH_LEN], uint16_t sport, uint16_t dport, const uint8_t *packet,
		  size_t len)
{
	bool ipv4 = !area[0]; /* twenty zero bytes before an IPv4 header */
	uint8_t *ip = area + (ipv4 ? GRH_LEN - IP4_LEN : 0), udp[UDP_LEN] = { 0 };
	uint16_t body = (uint16_t)(UDP_LEN + len);
	uint32_t crc;

	put_be16(udp, sport);
	put_be16(udp + 2, dport);
	put_be16(udp + 4, body);
	if (ipv4) {
		put_be16(ip + IP4_LENGTH, (uint16_t)(IP4_LEN + body));
		put_be16(ip + IP4_IDENT, (uint16_t)udp_index_get(packet));
	} else {
		put_be16(ip + IP6_LENGTH, body);
	}
	crc = icrc_begin(ip, udp, packet);
	if (ipv4)
		put_be16(ip + IP4_IDENT, 0);
	return icrc_more(crc, packet + BTH_LEN, len - BTH_LEN - ICRC_LEN);
}
