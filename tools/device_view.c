// SPDX-License-Identifier: MIT
#include "device_view.h"
#include <stdio.h>
#include "hca/device.h"
#include "hca/limits.h"

_Static_assert(LIMIT_GIDS == GID_TABLE_LEN, "what a query says and what there is");

static bool port_active(void *arg)
{
	const struct device_view *v = arg;

	return netdev_active(&v->netdev);
}

static enum ibv_mtu port_active_mtu(void *arg)
{
	const struct device_view *v = arg;

	return netdev_active_mtu(&v->netdev);
}

int device_view_open(const char *name, const char *netdev, unsigned int ordinal,
		     struct device_view *out)
{
	static const struct hca_ports ports = { .active = port_active,
						.active_mtu = port_active_mtu };
	struct hca hca = { .ports = &ports, .ports_arg = out };
	int err = gid_table_create(netdev, &out->gids);

	if (err)
		return err;
	snprintf(out->name, sizeof(out->name), "%s", name);
	snprintf(hca.name, sizeof(hca.name), "%s", name);
	gid_table_netdev(out->gids, &out->netdev);
	hca.node_guid = netdev_guid(&out->netdev, ordinal);
	device_query(&hca, &out->attr);
	return device_query_port(&hca, 1, &out->port, sizeof(out->port));
}

void device_view_close(struct device_view *v)
{
	gid_table_destroy(v->gids);
	v->gids = NULL;
}
