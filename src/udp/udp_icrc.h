// SPDX-License-Identifier: MIT
/* The ICRC of a packet of the udp link, and the IPv4 identification that it covers. A packet alone
 * has identification 0. The kernel counts the packets of a train from 0; since a UDP socket does
 * not show the identification, it stands in six reserved bits of the BTH, too, which the ICRC does
 * not cover. */
#pragma once
#include <stddef.h>
#include "wire/grh.h"

enum { UDP_TRAIN_MAX = 64 }; /* packets */

/* @area has the addresses, and becomes the IP header with identification 0; ports are in host
 * order; @packet is @len bytes from the BTH to the ICRC, which is not read. */
uint32_t udp_icrc(uint8_t area[GRH_LEN], uint16_t sport, uint16_t dport, const uint8_t *packet,
		  size_t len);

unsigned int udp_index_get(const uint8_t *packet);
void udp_index_put(uint8_t *packet, unsigned int index);
