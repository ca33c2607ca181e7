// SPDX-License-Identifier: MIT
/* A snapshot of a network namespace: its interfaces, their addresses, the default route. Plain
 * data, no locks; netdev.h tells how it is taken. */
#pragma once
#include <infiniband/verbs.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

struct netdev {
	char name[IF_NAMESIZE];
	uint32_t index; /* 0: no such interface any more */
	uint32_t mtu;
	uint8_t mac[6]; /* zero where the interface has none (lo, tun) */
	bool up, carrier, loopback;
};

struct netdev_addr {
	uint32_t index; /* of the interface */
	union ibv_gid gid; /* IPv4: ::ffff:a.b.c.d */
};

struct netdev_scan {
	struct netdev *dev;
	struct netdev_addr *addr;
	unsigned int devs, addrs;
	uint32_t default_index; /* interface of the default route with the lowest metric; 0: none */
};

/* Append an interface or an address: 0 or ENOMEM. */
int netdev_scan_add(struct netdev_scan *s, const struct netdev *dev);
int netdev_scan_add_addr(struct netdev_scan *s, uint32_t index, const union ibv_gid *gid);
void netdev_scan_free(struct netdev_scan *s);

/* NULL: the snapshot has no such interface. */
const struct netdev *netdev_by_name(const struct netdev_scan *s, const char *name);
const struct netdev *netdev_by_index(const struct netdev_scan *s, uint32_t index);
