// SPDX-License-Identifier: MIT
#include "net/route.h"
#include <errno.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>
#include "net/gid.h"
#include "net/netdev.h"
#include "net/rtnl.h"
#include "util/barrier.h"

/* Without netlink: only an address of this host can be bound. */
static bool can_bind(const union ibv_gid *gid, uint32_t oif)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_scope_id = oif };
	bool ipv4 = gid_is_ipv4(gid);
	int s = socket(ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int err;

	if (s < 0)
		return false;
	memcpy(&in.sin_addr, gid->raw + 12, sizeof(in.sin_addr));
	memcpy(&in6.sin6_addr, gid, sizeof(in6.sin6_addr));
	err = ipv4 ? bind(s, (struct sockaddr *)&in, sizeof(in))
		   : bind(s, (struct sockaddr *)&in6, sizeof(in6));
	close(s);
	return !err;
}

/* A link-local GID made from the MAC of an interface here, which the kernel may not know. */
static bool is_own_link_local(const union ibv_gid *gid)
{
	struct netdev_scan scan;
	union ibv_gid own;
	bool found = false;

	if (netdev_scan(&scan))
		return false;
	for (unsigned int i = 0; i < scan.devs && !found; i++) {
		netdev_link_local(&scan.dev[i], &own);
		found = !memcmp(&own, gid, sizeof(own));
	}
	netdev_scan_free(&scan);
	return found;
}

static bool ask_kernel(const union ibv_gid *gid, uint32_t oif)
{
	bool ipv4 = gid_is_ipv4(gid), link_local = gid_is_link_local(gid);
	struct rtnl_route route = { 0 };
	int err;

	if (link_local && is_own_link_local(gid))
		return true;
	err = rtnl_route(ipv4 ? AF_INET : AF_INET6, ipv4 ? gid->raw + 12 : gid->raw,
			 link_local ? oif : 0, &route);
	if (rtnl_refused(err))
		return can_bind(gid, link_local ? oif : 0);
	return !err && route.type == RTN_LOCAL;
}

static bool cache_get(struct route_cache *c, const union ibv_gid *gid, uint32_t oif, bool *local)
{
	uint32_t epoch = load_acquire(&c->epoch); /* pairs with route_cache_flush() */
	bool known = false;

	if (!spin_trylock(&c->lock))
		return false;
	for (unsigned int i = 0; i < ROUTE_CACHE_LEN && !known; i++) {
		known = c->known[i].epoch == epoch && c->known[i].oif == oif &&
			!memcmp(&c->known[i].gid, gid, sizeof(*gid));
		*local = known && c->known[i].local;
	}
	spin_unlock(&c->lock);
	return known;
}

bool route_is_local(struct route_cache *c, const union ibv_gid *gid, uint32_t oif)
{
	static const union ibv_gid zero;
	uint32_t epoch;
	bool local;

	if (!memcmp(gid, &zero, sizeof(zero)))
		return false;
	if (!c)
		return ask_kernel(gid, oif);
	if (cache_get(c, gid, oif, &local))
		return local;
	epoch = load_acquire(&c->epoch); /* before the question; pairs with route_cache_flush() */
	local = ask_kernel(gid, oif);
	/* Only a yes is kept: the route of a new IPv6 address comes a little after the address. */
	if (local && spin_trylock(&c->lock)) {
		c->known[c->next].gid = *gid;
		c->known[c->next].oif = oif;
		c->known[c->next].epoch = epoch;
		c->known[c->next].local = local;
		c->next = (c->next + 1) % ROUTE_CACHE_LEN;
		spin_unlock(&c->lock);
	}
	return local;
}

void route_cache_flush(struct route_cache *c)
{
	fetch_add_acq_rel(&c->epoch, 1);
}
