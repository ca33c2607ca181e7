// SPDX-License-Identifier: MIT
/* Ids whose peer's next hop is not known to the kernel yet. Under cm.lock. */
#pragma once
#include "cm/cm_state.h"
#include "net/rtnl.h"

/* Calls @done with 0 when the neighbour on the way of @id is known, at once if it is, or after @ms
 * with -ETIMEDOUT; the id is in PHASE_ADDR_QUERY meanwhile. @route: what route_ask() has just said
 * of the way, for the first look; later ones ask anew. */
void cm_neigh_await(struct cm_id *id, int ms, const struct rtnl_route *route,
		    void (*done)(struct cm_id *id, int status));
