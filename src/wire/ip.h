// SPDX-License-Identifier: MIT
/* The headers in front of the BTH: lengths of IP and UDP, and RoCEv2's UDP ports. Pure. */
#pragma once
#include <stdint.h>

enum {
	IP4_LEN = 20, /* bytes, without options */
	IP6_LEN = 40,
	UDP_LEN = 8,
	UDP_ROCE_PORT = 4791, /* destination of every packet */
	UDP_SPORT_FIRST = 0xc000, /* a flow's source port is this and 14 bits */
	UDP_SPORT_MASK = 0x3fff,
};

static inline uint16_t udp_sport(uint64_t bits)
{
	return (uint16_t)(UDP_SPORT_FIRST | (bits & UDP_SPORT_MASK));
}

/* RoCEv2's rule for the source port of a flow: its label, 20 bits, folded to 14. */
static inline uint16_t udp_flow_sport(uint32_t flow_label)
{
	return udp_sport(flow_label ^ (flow_label & 0xfc000) >> 14);
}
