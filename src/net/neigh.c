// SPDX-License-Identifier: MIT
#include "net/neigh.h"
#include <errno.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "net/gid.h"
#include "util/uncancelled.h"

enum { VALID = NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE | NUD_DELAY };

/* Tunnels and the like: each packet just leaves. */
static bool asks_nobody(uint32_t oif)
{
	struct ifreq r = { 0 };
	bool silent;
	int s;

	if (!if_indextoname(oif, r.ifr_name))
		return true;
	s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (s < 0)
		return true;
	silent = ioctl(s, SIOCGIFFLAGS, &r) || (r.ifr_flags & (IFF_NOARP | IFF_LOOPBACK));
	close(s);
	return silent;
}

/* An interface without neighbours is asked about only if the kernel knows none: seldom. */
static bool is_known(const struct route_ends *ends, const struct rtnl_route *route)
{
	bool ipv4 = gid_is_ipv4(&ends->to);
	unsigned char family = ipv4 ? AF_INET : AF_INET6;
	const uint8_t *addr = ends->to.raw + (ipv4 ? 12 : 0);
	struct rtnl_route asked = { 0 };
	uint16_t state = 0;
	int err = 0;

	if (!route) {
		err = route_of(ends, &asked);
		route = &asked;
	}
	if (err || route->type != RTN_UNICAST)
		return true;
	if (route->via_family) {
		family = route->via_family;
		addr = route->via;
	}
	err = rtnl_neigh(family, addr, route->oif, &state);
	if (err ? err != ENOENT : (state & VALID) != 0)
		return true;
	return asks_nobody(route->oif);
}

/* A requester that gives up asks under its turn. */
bool neigh_known(const struct route_ends *ends, const struct rtnl_route *route)
{
	bool known;

	UNCANCELLED(known, is_known(ends, route));
	return known;
}
