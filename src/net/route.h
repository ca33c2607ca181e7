// SPDX-License-Identifier: MIT
/* Whether an address is this host's own or a way leads to it, as the kernel's routing says: the
 * address of any interface counts as own, and 127.0.0.0/8. Rules may ask for the source address
 * (`ip rule add from`): the way is that of packets from there. Each answer comes from one question;
 * the last few that say "own" are kept until the cache is flushed.
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

/* Two ends of a way. */
struct route_ends {
	union ibv_gid to;
	union ibv_gid from; /* all zero, or of the other family: any */
	uint32_t oif; /* the interface of link-local addresses, else not used */
};

struct route_cache {
	uint32_t epoch; /* counts flushes */
	struct spin lock; /* guards what follows */
	unsigned int next; /* the entry to be replaced next */
	struct { /* to addresses of this host */
		struct route_ends ends; /* all zero: free */
		uint32_t epoch; /* the cache's when the kernel was asked; another: too old */
	} known[ROUTE_CACHE_LEN];
};

/* @out: what the kernel said; zero where it was not asked or knows no route. */
enum route_kind route_ask(const struct route_ends *ends, struct rtnl_route *out);
/* The question alone: a positive errno as rtnl_route()'s. */
int route_of(const struct route_ends *ends, struct rtnl_route *out);
/* As route_ask() with a cache. @c NULL: no answer is kept. */
enum route_kind route_kind(struct route_cache *c, const struct route_ends *ends);
void route_cache_flush(struct route_cache *c);
