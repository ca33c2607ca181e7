// SPDX-License-Identifier: MIT
/* netdev_scan() by rtnetlink. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include "net/gid.h"
#include "net/netdev.h"
#include "net/rtnl.h"

#ifndef IFF_LOWER_UP
#define IFF_LOWER_UP 0x10000 /* <net/if.h> and <linux/if.h> exclude each other */
#endif

struct routes {
	struct netdev_scan *scan;
	uint32_t metric; /* of the default route found */
};

static int take_link(const struct nlmsghdr *msg, void *arg)
{
	const struct ifinfomsg *info = mnl_nlmsg_get_payload(msg);
	struct netdev dev = { 0 };
	const struct nlattr *attr;

	if (!rtnl_has(msg, sizeof(*info)))
		return MNL_CB_OK;
	dev.index = info->ifi_index;
	dev.up = info->ifi_flags & IFF_UP;
	dev.carrier = info->ifi_flags & IFF_LOWER_UP;
	dev.loopback = info->ifi_flags & IFF_LOOPBACK;
	mnl_attr_for_each(attr, msg, sizeof(*info))
	{
		uint16_t len = mnl_attr_get_payload_len(attr);
		const void *data = mnl_attr_get_payload(attr);

		switch (mnl_attr_get_type(attr)) {
		case IFLA_IFNAME:
			memcpy(dev.name, data, len < sizeof(dev.name) ? len : 0);
			break;
		case IFLA_MTU:
			dev.mtu = rtnl_u32(attr);
			break;
		case IFLA_ADDRESS:
			memcpy(dev.mac, data, len == sizeof(dev.mac) ? len : 0);
			break;
		}
	}
	if (!netdev_scan_add(arg, &dev))
		return MNL_CB_OK;
	errno = ENOMEM;
	return MNL_CB_ERROR;
}

/* IFA_LOCAL is our address where the link is point to point, IFA_ADDRESS then the peer's. */
static int take_addr(const struct nlmsghdr *msg, void *arg)
{
	const struct ifaddrmsg *info = mnl_nlmsg_get_payload(msg);
	const struct nlattr *attr, *addr = NULL;
	union ibv_gid gid;
	uint32_t flags;

	if (!rtnl_has(msg, sizeof(*info)))
		return MNL_CB_OK;
	flags = info->ifa_flags;
	mnl_attr_for_each(attr, msg, sizeof(*info))
	{
		uint16_t type = mnl_attr_get_type(attr);

		if (type == IFA_LOCAL || (type == IFA_ADDRESS && !addr))
			addr = attr;
		else if (type == IFA_FLAGS)
			flags = rtnl_u32(attr);
	}
	if (!addr || (flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED)) ||
	    mnl_attr_get_payload_len(addr) < (info->ifa_family == AF_INET ? 4 : sizeof(gid)))
		return MNL_CB_OK;
	if (info->ifa_family == AF_INET)
		gid_of_ipv4(mnl_attr_get_payload(addr), &gid);
	else
		memcpy(&gid, mnl_attr_get_payload(addr), sizeof(gid));
	if (!netdev_scan_add_addr(arg, info->ifa_index, &gid))
		return MNL_CB_OK;
	errno = ENOMEM;
	return MNL_CB_ERROR;
}

static uint32_t first_hop(const struct nlattr *multipath)
{
	const struct rtnexthop *hop = mnl_attr_get_payload(multipath);

	return mnl_attr_get_payload_len(multipath) < sizeof(*hop) ? 0 : hop->rtnh_ifindex;
}

static int take_route(const struct nlmsghdr *msg, void *arg)
{
	const struct rtmsg *rt = mnl_nlmsg_get_payload(msg);
	uint32_t metric = 0, oif = 0;
	const struct nlattr *attr;
	struct routes *routes = arg;

	if (!rtnl_has(msg, sizeof(*rt)) || rt->rtm_dst_len || rt->rtm_type != RTN_UNICAST ||
	    rt->rtm_table != RT_TABLE_MAIN)
		return MNL_CB_OK;
	mnl_attr_for_each(attr, msg, sizeof(*rt))
	{
		if (mnl_attr_get_type(attr) == RTA_OIF)
			oif = rtnl_u32(attr);
		else if (mnl_attr_get_type(attr) == RTA_MULTIPATH)
			oif = first_hop(attr);
		else if (mnl_attr_get_type(attr) == RTA_PRIORITY)
			metric = rtnl_u32(attr);
	}
	if (oif && (!routes->scan->default_index || metric < routes->metric)) {
		routes->scan->default_index = oif;
		routes->metric = metric;
	}
	return MNL_CB_OK;
}

/* IPv4 first: its addresses come first in a GID table, its default route counts before IPv6's. A
 * family that the kernel lacks has no addresses. */
int netdev_scan_rtnl(struct netdev_scan *out, bool routes)
{
	static const unsigned char families[] = { AF_INET, AF_INET6 };
	struct netdev_scan s = { 0 };
	struct routes found = { .scan = &s };
	int err = rtnl_dump(RTM_GETLINK, AF_UNSPEC, take_link, &s);

	for (int i = 0; i < 2 && !err; i++) {
		err = rtnl_dump(RTM_GETADDR, families[i], take_addr, &s);
		if (!err && routes && !s.default_index)
			err = rtnl_dump(RTM_GETROUTE, families[i], take_route, &found);
		if (families[i] == AF_INET6 && !rtnl_is_passing(err))
			err = 0;
	}
	if (err)
		netdev_scan_free(&s);
	else
		*out = s;
	return err;
}
