// SPDX-License-Identifier: MIT
/* A GID table of `lo` with one address, whatever this machine has. */
#pragma once
#include "fuzz.h"
#include "net/gid_table.h"

static inline void lo_open(const union ibv_gid *address, struct gid_table **out)
{
	struct netdev dev = { .index = 7, .name = "lo", .mtu = 1500, .up = true, .carrier = true };
	struct netdev_scan picture = { 0 };

	must(!gid_table_create("lo", out));
	must(!netdev_scan_add(&picture, &dev) && !netdev_scan_add_addr(&picture, 7, address));
	gid_table_apply(*out, &picture);
	netdev_scan_free(&picture);
}
