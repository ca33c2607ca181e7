// SPDX-License-Identifier: MIT
/* The network interface behind a device: which one it is, and what the kernel says about it.
 * netdev_scan() takes a snapshot of the network namespace (interfaces, addresses, default route) by
 * rtnetlink, or where netlink is refused (seccomp) by ioctl and /proc/net. Choosing and reading are
 * pure functions of that snapshot. Nothing here is cached or shared: no locks. */
#pragma once
#include "net/netdev_scan.h"

#define NETDEV_MAP_MAX 8

/* Which device sits on which interface. Plain data. */
struct netdev_map {
	unsigned int count;
	struct {
		char device[IBV_SYSFS_NAME_MAX];
		char netdev[IF_NAMESIZE];
	} entry[NETDEV_MAP_MAX];
};

/* By rtnetlink, or where that is refused from /proc. 0 or a positive errno. */
int netdev_scan(struct netdev_scan *out);
/* The two ways of netdev_scan(), each for itself. @routes: look for the default route, which costs
 * a look at each route of the host. */
int netdev_scan_rtnl(struct netdev_scan *out, bool routes);
int netdev_scan_proc(struct netdev_scan *out);

/* The default route's interface, else the first that is up and not lo, else lo; NULL: none. */
const struct netdev *netdev_choose(const struct netdev_scan *s);

/* SOFTHCA_DEVICES, "mlx5_0=eth0,mlx5_1=lo". EINVAL: malformed, a device twice, or too many. */
int netdev_map_parse(const char *text, struct netdev_map *out);
/* The map of this process: SOFTHCA_DEVICES where it is set, else mlx5_0 on netdev_choose(). ENODEV:
 * an interface that it names is missing, or there is no interface. The log says what is wrong. */
int netdev_map_get(const struct netdev_scan *s, struct netdev_map *out);

/* The port's state: lo counts as active even while it is down, since links on one host do not need
 * it. */
bool netdev_active(const struct netdev *dev);
/* The largest path MTU that fits with headers: <= mtu - 80; never below 256. */
enum ibv_mtu netdev_active_mtu(const struct netdev *dev);
/* fe80::/64 and the EUI-64 of the MAC; without a MAC, of 02:00:00:00:00:<index>. */
void netdev_link_local(const struct netdev *dev, union ibv_gid *out);
/* Big-endian node GUID of device number @ordinal on @dev: the EUI-64 of the MAC. Without a MAC the
 * network namespace's inode makes it differ between hosts. */
uint64_t netdev_guid(const struct netdev *dev, unsigned int ordinal);
