// SPDX-License-Identifier: MIT
#include "net/neigh.h"
#include <errno.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "net/gid.h"
#include "net/rtnl.h"

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

bool neigh_known(const union ibv_gid *gid, uint32_t oif)
{
	bool ipv4 = gid_is_ipv4(gid);
	unsigned char family = ipv4 ? AF_INET : AF_INET6;
	const uint8_t *addr = ipv4 ? gid->raw + 12 : gid->raw;
	struct rtnl_route route = { 0 };
	uint16_t state = 0;
	int err;

	err = rtnl_route(family, addr, gid_is_link_local(gid) ? oif : 0, &route);
	if (err || route.type != RTN_UNICAST || asks_nobody(route.oif))
		return true;
	if (route.via_family) {
		family = route.via_family;
		addr = route.via;
	}
	err = rtnl_neigh(family, addr, route.oif, &state);
	return err ? err != ENOENT : (state & VALID) != 0;
}
