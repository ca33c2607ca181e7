// SPDX-License-Identifier: MIT
/* softhca list: the devices that a program started here would find, and their GIDs. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "device_view.h"
#include "net/netdev.h"
#include "softhca.h"
#include "terminal.h"
#include "util/settings.h"

static void print_gid(const struct device_view *v, unsigned int index)
{
	char text[INET6_ADDRSTRLEN];
	struct gid_entry e;

	if (gid_table_get(v->gids, index, &e) || !e.used)
		return;
	gid_text(&e.gid, text, sizeof(text));
	printf("  gid %-2u  RoCE %s  %s\n", index, e.type == GID_V1 ? "v1" : "v2", text);
}

static void print_device(const struct device_view *v)
{
	printf("%s on %s: port 1 %s, path MTU %u B (interface %u B)\n", v->name, v->netdev.name,
	       v->port.state == IBV_PORT_ACTIVE ? "active" : "down", 128U << v->port.active_mtu,
	       v->netdev.mtu);
	for (unsigned int i = 0; i < GID_TABLE_LEN; i++)
		print_gid(v, i);
}

static int print_devices(void)
{
	struct netdev_scan scan;
	struct netdev_map map;
	struct device_view view;
	int err = netdev_scan(&scan);

	if (err)
		return err;
	err = netdev_map_get(&scan, &map);
	netdev_scan_free(&scan);
	for (unsigned int i = 0; !err && i < map.count; i++) {
		err = device_view_open(map.entry[i].device, map.entry[i].netdev, i, &view);
		if (err)
			break;
		terminal_clean(view.netdev.name); /* the kernel takes control characters */
		print_device(&view);
		device_view_close(&view);
	}
	return err;
}

int cmd_list(int argc, char **argv)
{
	int err;

	if (argc > 1) {
		complain("%s takes no argument", argv[0]);
		return EXIT_USAGE;
	}
	settings_check();
	err = print_devices();
	if (err)
		complain("no device: %s; SOFTHCA_DEVICES=mlx5_0=lo binds one to an interface",
			 strerror(err));
	return err ? 1 : 0;
}
