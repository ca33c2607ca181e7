// SPDX-License-Identifier: MIT
/* A network namespace of the test's own, and the changes that the tests make in it. */
#pragma once
#include <arpa/inet.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sched.h>
#include <unistd.h>
#include <libmnl/libmnl.h>
#include "net/netdev.h"
#include "test.h"

static inline void netns_enter(void)
{
	if (unshare(geteuid() ? CLONE_NEWUSER | CLONE_NEWNET : CLONE_NEWNET))
		skip_all("no network namespace can be made");
}

struct netns_request {
	char buf[512];
	struct nlmsghdr *msg;
};

/* The message's head with @len bytes of family header, zeroed. */
static inline void *netns_start(struct netns_request *r, uint16_t type, uint16_t flags, size_t len)
{
	r->msg = mnl_nlmsg_put_header(r->buf);
	r->msg->nlmsg_type = type;
	r->msg->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags;
	return mnl_nlmsg_put_extra_header(r->msg, len);
}

static inline void netns_do(struct netns_request *r)
{
	struct mnl_socket *nl = mnl_socket_open(NETLINK_ROUTE);
	ssize_t n;

	check(nl && !mnl_socket_bind(nl, 0, MNL_SOCKET_AUTOPID));
	check(mnl_socket_sendto(nl, r->msg, r->msg->nlmsg_len) > 0);
	n = mnl_socket_recvfrom(nl, r->buf, sizeof(r->buf));
	check(n > 0);
	if (mnl_cb_run(r->buf, n, 0, mnl_socket_get_portid(nl), NULL, NULL) < 0)
		fail_msg("rtnetlink: %s", strerror(errno));
	mnl_socket_close(nl);
}

static inline void netns_addr(uint16_t type, const char *dev, const char *text)
{
	bool ipv6 = strchr(text, ':');
	struct netns_request r;
	struct ifaddrmsg *m = netns_start(
		&r, type, type == RTM_NEWADDR ? NLM_F_CREATE | NLM_F_EXCL : 0, sizeof(*m));
	uint8_t addr[16];

	check_eq(inet_pton(ipv6 ? AF_INET6 : AF_INET, text, addr), 1);
	m->ifa_family = ipv6 ? AF_INET6 : AF_INET;
	m->ifa_prefixlen = ipv6 ? 128 : 32;
	m->ifa_flags = ipv6 ? IFA_F_NODAD : 0;
	m->ifa_index = if_nametoindex(dev);
	mnl_attr_put(r.msg, IFA_LOCAL, ipv6 ? 16 : 4, addr);
	mnl_attr_put(r.msg, IFA_ADDRESS, ipv6 ? 16 : 4, addr);
	netns_do(&r);
}

static inline void netns_add(const char *dev, const char *addr)
{
	netns_addr(RTM_NEWADDR, dev, addr);
}

static inline void netns_del(const char *dev, const char *addr)
{
	netns_addr(RTM_DELADDR, dev, addr);
}

static inline void netns_up(const char *dev, bool up)
{
	struct netns_request r;
	struct ifinfomsg *m = netns_start(&r, RTM_NEWLINK, 0, sizeof(*m));

	m->ifi_index = if_nametoindex(dev);
	m->ifi_change = IFF_UP;
	m->ifi_flags = up ? IFF_UP : 0;
	netns_do(&r);
}

static inline void netns_mtu(const char *dev, uint32_t mtu)
{
	struct netns_request r;
	struct ifinfomsg *m = netns_start(&r, RTM_NEWLINK, 0, sizeof(*m));

	m->ifi_index = if_nametoindex(dev);
	mnl_attr_put_u32(r.msg, IFLA_MTU, mtu);
	netns_do(&r);
}

static inline void netns_remove(const char *dev)
{
	struct netns_request r;
	struct ifinfomsg *m = netns_start(&r, RTM_DELLINK, 0, sizeof(*m));

	m->ifi_index = if_nametoindex(dev);
	netns_do(&r);
}

/* The kernel gives @dev no IPv6 address of its own accord. */
static inline void netns_no_autoconf(const char *dev)
{
	struct netns_request r;
	struct ifinfomsg *m = netns_start(&r, RTM_NEWLINK, 0, sizeof(*m));
	struct nlattr *af, *inet6;

	m->ifi_index = if_nametoindex(dev);
	af = mnl_attr_nest_start(r.msg, IFLA_AF_SPEC);
	inet6 = mnl_attr_nest_start(r.msg, AF_INET6);
	mnl_attr_put_u8(r.msg, IFLA_INET6_ADDR_GEN_MODE, IN6_ADDR_GEN_MODE_NONE);
	mnl_attr_nest_end(r.msg, inet6);
	mnl_attr_nest_end(r.msg, af);
	netns_do(&r);
}

/* A pair of Ethernet interfaces, down and without addresses, @a with the MAC 02:00:00:aa:bb:cc. */
static inline void netns_veth(const char *a, const char *b)
{
	static const uint8_t mac[] = { 2, 0, 0, 0xaa, 0xbb, 0xcc };
	struct netns_request r;
	struct ifinfomsg *m = netns_start(&r, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, sizeof(*m));
	struct nlattr *info, *data, *peer;

	mnl_attr_put_strz(r.msg, IFLA_IFNAME, a);
	mnl_attr_put(r.msg, IFLA_ADDRESS, sizeof(mac), mac);
	info = mnl_attr_nest_start(r.msg, IFLA_LINKINFO);
	mnl_attr_put_strz(r.msg, IFLA_INFO_KIND, "veth");
	data = mnl_attr_nest_start(r.msg, IFLA_INFO_DATA);
	peer = mnl_attr_nest_start(r.msg, VETH_INFO_PEER);
	mnl_nlmsg_put_extra_header(r.msg, sizeof(*m));
	mnl_attr_put_strz(r.msg, IFLA_IFNAME, b);
	mnl_attr_nest_end(r.msg, peer);
	mnl_attr_nest_end(r.msg, data);
	mnl_attr_nest_end(r.msg, info);
	netns_do(&r);
	netns_no_autoconf(a);
	netns_no_autoconf(b);
}

static inline void netns_default_route(const char *dev)
{
	struct netns_request r;
	struct rtmsg *m = netns_start(&r, RTM_NEWROUTE, NLM_F_CREATE, sizeof(*m));

	m->rtm_family = AF_INET;
	m->rtm_table = RT_TABLE_MAIN;
	m->rtm_protocol = RTPROT_STATIC;
	m->rtm_scope = RT_SCOPE_LINK;
	m->rtm_type = RTN_UNICAST;
	mnl_attr_put_u32(r.msg, RTA_OIF, if_nametoindex(dev));
	netns_do(&r);
}

static inline union ibv_gid netns_gid(const char *text)
{
	union ibv_gid gid = { .raw = { [10] = 0xff, 0xff } };
	bool ipv6 = strchr(text, ':');

	check_eq(inet_pton(ipv6 ? AF_INET6 : AF_INET, text, gid.raw + (ipv6 ? 0 : 12)), 1);
	return gid;
}
