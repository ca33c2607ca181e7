// SPDX-License-Identifier: MIT
/* Whether the kernel knows the link address of the next hop to a network address. Nothing is
 * cached: no locks. */
#pragma once
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include "net/route.h"

/* The next hop from @ends->from to @ends->to. @route: what route_ask() said of them just now; NULL:
 * it is asked. True also for interfaces that have no neighbours, and where netlink is refused. */
bool neigh_known(const struct route_ends *ends, const struct rtnl_route *route);
