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
#include "util/uncancelled.h"

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

static const union ibv_gid zero;

int route_of(const struct route_ends *ends, struct rtnl_route *out)
{
	bool ipv4 = gid_is_ipv4(&ends->to), any = !memcmp(&ends->from, &zero, sizeof(zero));
	unsigned int at = ipv4 ? 12 : 0;
	uint32_t oif = gid_is_link_local(&ends->to) ? ends->oif : 0;

	if (gid_is_ipv4(&ends->from) != ipv4)
		any = true;
	return rtnl_route(ipv4 ? AF_INET : AF_INET6, ends->to.raw + at,
			  any ? NULL : ends->from.raw + at, oif, out);
}

/* IPv4 has no way from a source that this host has lost just now, even to itself. */
static bool is_local_from_any(const struct route_ends *ends)
{
	const struct route_ends from_any = { .to = ends->to, .oif = ends->oif };
	struct rtnl_route route;

	return !route_of(&from_any, &route) && route.type == RTN_LOCAL;
}

static enum route_kind ask(const struct route_ends *ends, struct rtnl_route *out)
{
	const union ibv_gid *to = &ends->to;
	bool link_local = gid_is_link_local(to);
	int err;

	*out = (struct rtnl_route){ 0 };
	if (link_local && is_own_link_local(to))
		return ROUTE_LOCAL;
	err = route_of(ends, out);
	if (rtnl_refused(err))
		return can_bind(to, link_local ? ends->oif : 0) ? ROUTE_LOCAL : ROUTE_OUT;
	if (rtnl_is_passing(err))
		return ROUTE_UNKNOWN;
	if (err)
		return is_local_from_any(ends) ? ROUTE_LOCAL : ROUTE_NONE;
	if (out->type == RTN_LOCAL)
		return ROUTE_LOCAL;
	return out->type == RTN_UNICAST ? ROUTE_OUT : ROUTE_NONE;
}

/* Paths are looked at under turns. */
enum route_kind route_ask(const struct route_ends *ends, struct rtnl_route *out)
{
	enum route_kind kind;

	UNCANCELLED(kind, ask(ends, out));
	return kind;
}

static bool same(const struct route_ends *a, const struct route_ends *b)
{
	return a->oif == b->oif && !memcmp(&a->to, &b->to, sizeof(a->to)) &&
	       !memcmp(&a->from, &b->from, sizeof(a->from));
}

/* Only addresses of this host are kept: the route of a new IPv6 address comes a little after the
 * address, and ways through interfaces change without a message that flushes the cache. */
static bool cache_has(struct route_cache *c, const struct route_ends *ends)
{
	uint32_t epoch = load_acquire(&c->epoch); /* pairs with route_cache_flush() */
	bool known = false;

	if (!spin_trylock(&c->lock))
		return false;
	for (unsigned int i = 0; i < ROUTE_CACHE_LEN && !known; i++)
		known = c->known[i].epoch == epoch && same(&c->known[i].ends, ends);
	spin_unlock(&c->lock);
	return known;
}

enum route_kind route_kind(struct route_cache *c, const struct route_ends *ends)
{
	struct rtnl_route route;
	enum route_kind kind;
	uint32_t epoch;

	if (!memcmp(&ends->to, &zero, sizeof(zero)))
		return ROUTE_OUT; /* no address: what sends to it is told */
	if (!c)
		return route_ask(ends, &route);
	if (cache_has(c, ends))
		return ROUTE_LOCAL;
	epoch = load_acquire(&c->epoch); /* before the question; pairs with route_cache_flush() */
	kind = route_ask(ends, &route);
	if (kind == ROUTE_LOCAL && spin_trylock(&c->lock)) {
		c->known[c->next].ends = *ends;
		c->known[c->next].epoch = epoch;
		c->next = (c->next + 1) % ROUTE_CACHE_LEN;
		spin_unlock(&c->lock);
	}
	return kind;
}

void route_cache_flush(struct route_cache *c)
{
	fetch_add_acq_rel(&c->epoch, 1);
}
