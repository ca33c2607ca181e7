// SPDX-License-Identifier: MIT
/* The network interface behind a device: which one it is, and what the kernel says about it.
 * netdev_scan() takes one picture of the network namespace (interfaces, addresses, default route)
 * by rtnetlink, or where netlink is refused (seccomp) by ioctl and /proc/net. Choosing and reading
 * are pure functions of that picture. Nothing here is cached or shared: no locks. */
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

#define NETDEV_MAP_MAX 8

/* Which device sits on which interface: plain data, one process can hand it to another. */
struct netdev_map {
	unsigned int count;
	struct {
		char device[IBV_SYSFS_NAME_MAX];
		char netdev[IF_NAMESIZE];
	} entry[NETDEV_MAP_MAX];
};

int netdev_scan(struct netdev_scan *out); /* 0 or a positive errno */
void netdev_scan_free(struct netdev_scan *s);
/* The two ways of netdev_scan(), each for itself. @routes: look for the default route, which costs
 * a look at each route of the host. */
int netdev_scan_rtnl(struct netdev_scan *out, bool routes);
int netdev_scan_proc(struct netdev_scan *out);
/* For the two: append one, ENOMEM. */
int netdev_scan_add(struct netdev_scan *s, const struct netdev *dev);
int netdev_scan_add_addr(struct netdev_scan *s, uint32_t index, const union ibv_gid *gid);

const struct netdev *netdev_by_name(const struct netdev_scan *s, const char *name); /* or NULL */
const struct netdev *netdev_by_index(const struct netdev_scan *s, uint32_t index);
/* The default route's interface, else the first that is up and not lo, else lo; NULL: none. */
const struct netdev *netdev_choose(const struct netdev_scan *s);

/* SOFTHCA_DEVICES, "mlx5_0=eth0,mlx5_1=lo". EINVAL: malformed, a device twice, or too many. */
int netdev_map_parse(const char *text, struct netdev_map *out);
/* The map of this process: SOFTHCA_DEVICES where it is set, else mlx5_0 on netdev_choose(). ENODEV:
 * an interface that it names, or any interface, is missing. Says in the log what is wrong. */
int netdev_map_get(const struct netdev_scan *s, struct netdev_map *out);

/* The port's state: lo counts as active even while down, links on one host do not need it. */
bool netdev_active(const struct netdev *dev);
/* The largest path MTU that fits with headers: <= mtu - 80; never below 256. */
enum ibv_mtu netdev_active_mtu(const struct netdev *dev);
/* fe80::/64 and the EUI-64 of the MAC; without a MAC, of 02:00:00:00:00:<index>. */
void netdev_link_local(const struct netdev *dev, union ibv_gid *out);
/* Big-endian node GUID of device number @ordinal on @dev: the EUI-64 of the MAC. Without a MAC the
 * network namespace's inode makes it differ between hosts. */
uint64_t netdev_guid(const struct netdev *dev, unsigned int ordinal);
