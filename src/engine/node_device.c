// SPDX-License-Identifier: MIT
#include "engine/node_device.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include "engine/frames.h"
#include "engine/timers.h"
#include "obs/explain.h"

int node_device_watch(struct node *n, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(n->epoll_fd, EPOLL_CTL_ADD, fd, &ev) ? errno : 0;
}

/* --- a port, as its netdev is --- */

static int port_gid(void *arg, unsigned int index, union ibv_gid *gid, bool *v2, uint32_t *ifindex)
{
	struct device *d = arg;
	struct gid_entry e;
	int err = gid_table_get(d->gids, index, &e);

	if (err)
		return err;
	*gid = e.gid;
	*v2 = e.used && e.type == GID_V2;
	*ifindex = e.ifindex;
	return 0;
}

static bool port_active(void *arg)
{
	struct device *d = arg;
	struct netdev dev;

	gid_table_netdev(d->gids, &dev);
	return netdev_active(&dev);
}

static enum ibv_mtu port_mtu(void *arg)
{
	struct device *d = arg;
	struct netdev dev;

	gid_table_netdev(d->gids, &dev);
	return netdev_active_mtu(&dev);
}

static void port_mac(void *arg, uint8_t mac[6])
{
	struct device *d = arg;
	struct netdev dev;

	gid_table_netdev(d->gids, &dev);
	memcpy(mac, dev.mac, 6);
}

static const struct hca_ports ports = {
	.gid = port_gid,
	.active = port_active,
	.active_mtu = port_mtu,
	.mac = port_mac,
};

/* --- making --- */

/* If there is no watch the table stays as it is, which the log says. */
static void watch(struct node *n, struct device *d)
{
	if (gid_table_watch(d->gids, &d->watch_fd)) {
		d->watch_fd = -1;
	} else if (node_device_watch(n, d->watch_fd)) {
		gid_table_unwatch(d->gids);
		d->watch_fd = -1;
	}
}

/* One that was not made whole: nobody has seen it. */
static void give_up(struct device *d)
{
	gid_table_destroy(d->gids); /* closes the watch: it leaves the node's epoll set */
	free(d->hca.counters);
	free(d);
}

static int make(struct node *n, const char *name, const char *netdev, uint64_t guid,
		struct device **out)
{
	struct device *d = calloc(1, sizeof(*d));
	int err;

	if (!d)
		return refuse_memory("ibv_open_device", sizeof(*d));
	err = gid_table_create(netdev, &d->gids);
	if (err) {
		free(d);
		return refuse(
			err,
			"ibv_open_device: %s has no interface %s; name another in SOFTHCA_DEVICES",
			name, netdev);
	}
	watch(n, d);
	snprintf(d->hca.name, sizeof(d->hca.name), "%s", name);
	d->hca.epoch = n->epoch;
	d->hca.ports = &ports;
	d->hca.ports_arg = d;
	d->hca.keys = n->keys;
	d->hca.mcast = n->mcast;
	d->hca.counters = calloc(1, sizeof(*d->hca.counters));
	d->hca.node_guid = guid;
	d->hca.cq_timers = &timers_of_cqs;
	d->node = n;
	if (!d->hca.counters || frames_start(d)) {
		give_up(d);
		return refuse_memory("ibv_open_device", sizeof(*d->hca.counters));
	}
	*out = d;
	return 0;
}

/* The machine's devices as they are now, by index; ENODEV past the end. */
static int map_entry(unsigned int i, char *name, char *netdev, uint64_t *guid)
{
	struct netdev_scan scan;
	struct netdev_map map;
	int err = netdev_scan(&scan);

	if (err)
		return err;
	err = netdev_map_get(&scan, &map);
	if (!err && i >= map.count)
		err = ENODEV;
	if (!err) {
		const struct netdev *dev = netdev_by_name(&scan, map.entry[i].netdev);

		snprintf(name, IBV_SYSFS_NAME_MAX, "%s", map.entry[i].device);
		snprintf(netdev, IF_NAMESIZE, "%s", map.entry[i].netdev);
		*guid = dev ? netdev_guid(dev, i) : 0;
	}
	netdev_scan_free(&scan);
	return err;
}

unsigned int node_device_names(char names[][IBV_SYSFS_NAME_MAX], uint64_t *guids)
{
	char netdev[IF_NAMESIZE];
	unsigned int n = 0;

	while (n < NODE_DEVICES && !map_entry(n, names[n], netdev, &guids[n]))
		n++;
	return n;
}

int node_device_make(struct node *n, const char *name, struct device **out)
{
	char found[IBV_SYSFS_NAME_MAX], netdev[IF_NAMESIZE];
	uint64_t guid;

	for (unsigned int i = 0; n->n_devices < NODE_DEVICES; i++) {
		if (map_entry(i, found, netdev, &guid))
			break;
		if (!strcmp(found, name))
			return make(n, name, netdev, guid, out);
	}
	return refuse(ENODEV, "ibv_open_device: there is no device %s; SOFTHCA_DEVICES names them",
		      name);
}
