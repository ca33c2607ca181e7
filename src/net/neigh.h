// SPDX-License-Identifier: MIT
/* Whether the kernel knows the link address of the next hop to a network address. Nothing is
 * cached: no locks. */
#pragma once
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include "net/rtnl.h"

/* @oif: the interface of a link-local address, else not used. @route: what route_ask() said of the
 * address just now; NULL: it is asked. True also for interfaces that have no neighbours, and where
 * netlink is refused. */
bool neigh_known(const union ibv_gid *gid, uint32_t oif, const struct rtnl_route *route);
