// SPDX-License-Identifier: MIT
#include <errno.h>
#include <string.h>
#include "util/be.h"
#include "wire/grh.h"
#include "wire/ip.h"

enum { IP4_AT = GRH_LEN - IP4_LEN, IP4_DF = 0x4000, IP4_CHECKSUM_AT = 10 };

static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

bool grh_gid_is_ipv4(const uint8_t gid[16])
{
	return !memcmp(gid, mapped, sizeof(mapped));
}

bool grh_gid_is_group(const uint8_t gid[16])
{
	return gid[0] == 0xff || (grh_gid_is_ipv4(gid) && gid[12] >> 4 == 0xe);
}

uint16_t grh_ipv4_checksum(const uint8_t ip[20])
{
	uint32_t sum = 0;

	for (int i = 0; i < IP4_LEN; i += 2)
		if (i != IP4_CHECKSUM_AT)
			sum += get_be16(ip + i);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t) ~(sum + (sum >> 16));
}

static void resize_ipv4(uint8_t *ip, uint16_t payload_len)
{
	put_be16(ip + 2, (uint16_t)(IP4_LEN + payload_len));
	put_be16(ip + IP4_CHECKSUM_AT, grh_ipv4_checksum(ip));
}

static void build_ipv4(const struct grh *g, uint8_t *ip)
{
	ip[0] = 0x45;
	ip[1] = g->tclass;
	put_be16(ip + 6, IP4_DF);
	ip[8] = g->hop_limit;
	ip[9] = g->next_hdr;
	memcpy(ip + 12, g->sgid + 12, 4);
	memcpy(ip + 16, g->dgid + 12, 4);
	resize_ipv4(ip, g->payload_len);
}

void grh_build(const struct grh *g, uint8_t area[GRH_LEN])
{
	memset(area, 0, GRH_LEN);
	if (g->next_hdr == GRH_NEXT_UDP && grh_gid_is_ipv4(g->sgid) && grh_gid_is_ipv4(g->dgid)) {
		build_ipv4(g, area + IP4_AT);
		return;
	}
	put_be32(area, UINT32_C(6) << 28 | (uint32_t)g->tclass << 20 | (g->flow_label & 0xfffff));
	put_be16(area + 4, g->payload_len);
	area[6] = g->next_hdr;
	area[7] = g->hop_limit;
	memcpy(area + 8, g->sgid, 16);
	memcpy(area + 24, g->dgid, 16);
}

void grh_resize(uint8_t area[GRH_LEN], uint16_t payload_len)
{
	if (area[0])
		put_be16(area + 4, payload_len);
	else
		resize_ipv4(area + IP4_AT, payload_len);
}

enum grh_version grh_version(const uint8_t area[GRH_LEN])
{
	const uint8_t *ip = area + IP4_AT;

	if (area[0] >> 4 != 6)
		return ip[0] >> 4 == 4 ? GRH_IPV4 : GRH_NONE;
	if (ip[0] == 0x45 && get_be16(ip + IP4_CHECKSUM_AT) == grh_ipv4_checksum(ip))
		return GRH_IPV4;
	return GRH_IPV6;
}

static void parse_ipv4(const uint8_t *ip, struct grh *g)
{
	uint16_t total = get_be16(ip + 2);

	memcpy(g->sgid, mapped, sizeof(mapped));
	memcpy(g->sgid + 12, ip + 12, 4);
	memcpy(g->dgid, mapped, sizeof(mapped));
	memcpy(g->dgid + 12, ip + 16, 4);
	g->tclass = ip[1];
	g->hop_limit = ip[8];
	g->next_hdr = ip[9];
	g->payload_len = total > IP4_LEN ? (uint16_t)(total - IP4_LEN) : 0;
}

int grh_parse(const uint8_t area[GRH_LEN], struct grh *out)
{
	struct grh g = { .next_hdr = 0 };
	uint32_t word = get_be32(area);

	switch (grh_version(area)) {
	case GRH_NONE:
		return EBADMSG;
	case GRH_IPV4:
		parse_ipv4(area + IP4_AT, &g);
		break;
	case GRH_IPV6:
		g.tclass = (uint8_t)(word >> 20);
		g.flow_label = word & 0xfffff;
		g.payload_len = get_be16(area + 4);
		g.next_hdr = area[6];
		g.hop_limit = area[7];
		memcpy(g.sgid, area + 8, 16);
		memcpy(g.dgid, area + 24, 16);
		break;
	}
	*out = g;
	return 0;
}
