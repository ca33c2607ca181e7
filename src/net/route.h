// SPDX-License-Identifier: MIT
/* Whether an address is this host's own, as the kernel's routing says: the address of any interface
 * counts, and 127.0.0.0/8. The last few answers are kept until the cache is flushed.
 * Locking: the cache has one; a thread that finds it taken asks the kernel instead of waiting. A
 * flush takes no lock: it makes every answer kept so far too old. */
#pragma once
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include "util/spin.h"

#define ROUTE_CACHE_LEN 8

struct route_cache {
	uint32_t epoch; /* counts flushes */
	struct spin lock; /* guards what follows */
	unsigned int next; /* the entry to be replaced next */
	struct {
		union ibv_gid gid; /* all zero: free */
		uint32_t oif;
		uint32_t epoch; /* the cache's when the kernel was asked; another: too old */
		bool local;
	} known[ROUTE_CACHE_LEN];
};

/* @oif: the interface of a link-local address, else not used. @c NULL: no answer is kept. */
bool route_is_local(struct route_cache *c, const union ibv_gid *gid, uint32_t oif);
void route_cache_flush(struct route_cache *c);
