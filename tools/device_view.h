// SPDX-License-Identifier: MIT
/* One device as a query through the libraries shows it. */
#pragma once
#include <infiniband/verbs.h>
#include "net/gid_table.h"

struct device_view {
	char name[IBV_SYSFS_NAME_MAX];
	struct netdev netdev;
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	struct gid_table *gids;
};

int device_view_open(const char *name, const char *netdev, unsigned int ordinal,
		     struct device_view *out);
void device_view_close(struct device_view *v);
