// SPDX-License-Identifier: MIT
/* Whether an address is this host's own or a way leads to it, as the kernel's routing says: the
 * address of any interface counts as own, and 127.0.0.0/8. Each answer comes from one question; the
 * last few that say "own" are kept until the cache is flushed.
 * Locking: the cache has one; a thread that finds it taken asks the kernel instead of waiting. A
 * flush takes no lock: it makes every answer kept so far too old. */
#pragma once
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include "net/rtnl.h"
#include "util/spin.h"

/* ROUTE_OUT: through an interface; also where netlink is refused, since then sending shows it.
 * ROUTE_UNKNOWN: no memory or no descriptor to ask with, at this moment. */
enum route_kind { ROUTE_LOCAL, ROUTE_OUT, ROUTE_NONE, ROUTE_UNKNOWN };

#define ROUTE_CACHE_LEN 8

struct route_cache {
	uint32_t epoch; /* counts flushes */
	struct spin lock; /* guards what follows */
	unsigned int next; /* the entry to be replaced next */
	struct { /* addresses of this host */
		union ibv_gid gid; /* all zero: free */
		uint32_t oif;
		uint32_t epoch; /* the cache's when the kernel was asked; another: too old */
	} known[ROUTE_CACHE_LEN];
};

/* @oif: the interface of a link-local address, else not used. @out: what the kernel said; zero
 * where it was not asked or knows no route. */
enum route_kind route_ask(const union ibv_gid *gid, uint32_t oif, struct rtnl_route *out);
/* The same with a cache. @c NULL: no answer is kept. */
enum route_kind route_kind(struct route_cache *c, const union ibv_gid *gid, uint32_t oif);
bool route_is_local(struct route_cache *c, const union ibv_gid *gid, uint32_t oif);
void route_cache_flush(struct route_cache *c);
