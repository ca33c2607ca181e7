// SPDX-License-Identifier: MIT
/* Addresses as the tests of the udp link write them. */
#pragma once
#include "net/gid.h"
#include "util/be.h"

static inline union ibv_gid gid_at(uint32_t address) /* IPv4 in host order */
{
	uint8_t ip[4];
	union ibv_gid gid;

	put_be32(ip, address);
	gid_of_ipv4(ip, &gid);
	return gid;
}
