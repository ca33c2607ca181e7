// SPDX-License-Identifier: MIT
#include "sysfs.h"
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include "device_view.h"
#include "net/netdev.h"
#include "obs/counters.h"
#include "tree.h"

/* The device's folder, from /sys/class; PCI function number = device number. */
#define PCI_BUS	 "pci0000:c0"
#define PCI_SLOT "0000:c1:00"

struct sysfs_host {
	unsigned int count;
	struct device_view device[NETDEV_MAP_MAX];
};

int sysfs_host_read(struct sysfs_host **out)
{
	struct sysfs_host *host = calloc(1, sizeof(*host));
	struct netdev_scan scan;
	struct netdev_map map;
	int err;

	if (!host)
		return ENOMEM;
	err = netdev_scan(&scan);
	if (err)
		goto fail;
	err = netdev_map_get(&scan, &map);
	netdev_scan_free(&scan);
	for (unsigned int i = 0; !err && i < map.count; i++) {
		err = device_view_open(map.entry[i].device, map.entry[i].netdev, i,
				       &host->device[i]);
		host->count += !err;
	}
	if (err)
		goto fail;
	*out = host;
	return 0;
fail:
	sysfs_host_free(host);
	return err;
}

void sysfs_host_free(struct sysfs_host *host)
{
	if (!host)
		return;
	for (unsigned int i = 0; i < host->count; i++)
		device_view_close(&host->device[i]);
	free(host);
}

unsigned int sysfs_host_devices(const struct sysfs_host *host)
{
	return host->count;
}

const char *sysfs_host_name(const struct sysfs_host *host, unsigned int i, const char **netdev)
{
	*netdev = host->device[i].netdev.name;
	return host->device[i].name;
}

static void put_guid(struct tree *t, const char *name, uint64_t guid)
{
	const uint8_t *b = (const uint8_t *)&guid;

	tree_put(t, name, "%02x%02x:%02x%02x:%02x%02x:%02x%02x", b[0], b[1], b[2], b[3], b[4], b[5],
		 b[6], b[7]);
}

/* All processors, as a mask in groups of 32 bits, the highest first, and as a list. */
static void put_cpus(struct tree *t)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	char mask[1024] = "";
	size_t n = 0;

	for (long base = (cpus - 1) / 32 * 32; base >= 0 && n < sizeof(mask); base -= 32) {
		uint32_t bits = cpus - base >= 32 ? UINT32_MAX : (1u << (cpus - base)) - 1;

		n += snprintf(mask + n, sizeof(mask) - n, "%s%08x", n ? "," : "", bits);
	}
	tree_put(t, "local_cpus", "%s", mask);
	tree_put(t, "local_cpulist", "0-%ld", cpus - 1);
}

/* As a kernel shows a ConnectX-7's PCI function. */
static void put_pci(struct tree *t, const struct device_view *v, unsigned int n)
{
	static const char *const words[][2] = {
		{ "vendor", "0x15b3" },
		{ "device", "0x1021" },
		{ "subsystem_vendor", "0x15b3" },
		{ "subsystem_device", "0x0000" },
		{ "class", "0x020000" },
		{ "revision", "0x00" },
		{ "numa_node", "-1" },
		{ "current_link_speed", "32.0 GT/s PCIe" },
		{ "current_link_width", "16" },
		{ "max_link_speed", "32.0 GT/s PCIe" },
		{ "max_link_width", "16" },
	};
	char path[64], target[64];
	struct stat st;

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		tree_put(t, words[i][0], "%s", words[i][1]);
	put_cpus(t);
	tree_put(t, "uevent",
		 "DRIVER=mlx5_core\nPCI_CLASS=20000\nPCI_ID=15B3:1021\n"
		 "PCI_SLOT_NAME=" PCI_SLOT ".%u",
		 n);
	tree_link(t, "driver", "../../drivers/mlx5_core");
	/* Where /sys is another network namespace's, the interface has no folder to point at. */
	snprintf(path, sizeof(path), "net/%s", v->netdev.name);
	snprintf(target, sizeof(target), "/sys/class/net/%s", v->netdev.name);
	if (stat(target, &st)) {
		tree_folder(t, path);
	} else {
		snprintf(target, sizeof(target), "../../../../net/%s", v->netdev.name);
		tree_link(t, path, target);
	}
}

static void put_gids(struct tree *t, const struct device_view *v)
{
	for (unsigned int i = 0; i < GID_TABLE_LEN; i++) {
		struct gid_entry e;
		char path[64], text[40];

		if (gid_table_get(v->gids, i, &e))
			continue;
		for (int j = 0; j < 8; j++)
			snprintf(text + 5 * j, sizeof(text) - 5 * j, "%02x%02x:", e.gid.raw[2 * j],
				 e.gid.raw[2 * j + 1]);
		snprintf(path, sizeof(path), "gids/%u", i);
		tree_put(t, path, "%.39s", text);
		if (!e.used)
			continue; /* a kernel's file answers EINVAL, here there is none */
		snprintf(path, sizeof(path), "gid_attrs/types/%u", i);
		tree_put(t, path, "%s", e.type == GID_V2 ? "RoCE v2" : "IB/RoCE v1");
		snprintf(path, sizeof(path), "gid_attrs/ndevs/%u", i);
		tree_put(t, path, "%s", v->netdev.name);
	}
}

static void put_rate(struct tree *t, const struct ibv_port_attr *port)
{
	static const struct {
		uint8_t speed;
		const char *name;
		double gbps; /* one lane */
	} speeds[] = {
		{ 1, "SDR", 2.5 }, { 2, "DDR", 5 },   { 4, "QDR", 10 },	 { 8, "FDR10", 10 },
		{ 16, "FDR", 14 }, { 32, "EDR", 25 }, { 64, "HDR", 50 }, { 128, "NDR", 100 },
	};
	static const uint8_t lanes[] = { [1] = 1, [2] = 4, [4] = 8, [8] = 12, [16] = 2 };
	int width = port->active_width < sizeof(lanes) ? lanes[port->active_width] : 0;

	for (size_t i = 0; i < sizeof(speeds) / sizeof(*speeds); i++)
		if (speeds[i].speed == port->active_speed)
			tree_put(t, "rate", "%g Gb/sec (%dX %s)", speeds[i].gbps * width, width,
				 speeds[i].name);
}

/* All that a kernel's files show. The programs of this user add to those that we count
 * (engine/port_counts). */
static void put_counters(struct tree *t)
{
	/* What does not happen here. */
	static const char *const never[] = {
		"counters/port_xmit_wait",
		"counters/symbol_error",
		"counters/link_downed",
		"counters/link_error_recovery",
		"counters/local_link_integrity_errors",
		"counters/excessive_buffer_overrun_errors",
		"counters/port_rcv_constraint_errors",
		"counters/port_xmit_constraint_errors",
		"counters/port_rcv_remote_physical_errors",
		"counters/port_rcv_switch_relay_errors",
		"counters/VL15_dropped",
		"hw_counters/roce_adp_retrans_to",
		"hw_counters/roce_slow_restart",
		"hw_counters/roce_slow_restart_cnps",
		"hw_counters/roce_slow_restart_trans",
		"hw_counters/rp_cnp_ignored",
	};
	char path[64];

	for (int i = 0; i < COUNTER_N; i++) {
		snprintf(path, sizeof(path), "%s/%s",
			 counters_folder(i) == COUNTER_HW ? "hw_counters" : "counters",
			 counters_name(i));
		tree_put(t, path, "0");
		if (!t->err && fchmodat(t->dir, path, 0644, 0))
			t->err = errno;
	}
	for (size_t i = 0; i < sizeof(never) / sizeof(*never); i++)
		tree_put(t, never[i], "0");
	tree_put(t, "hw_counters/lifespan", "1000");
}

static void put_port(struct tree *t, const struct device_view *v)
{
	bool active = v->port.state == IBV_PORT_ACTIVE;

	tree_put(t, "state", "%s", active ? "4: ACTIVE" : "1: DOWN");
	tree_put(t, "phys_state", "%s", active ? "5: LinkUp" : "3: Disabled");
	tree_put(t, "link_layer", "Ethernet");
	tree_put(t, "lid", "0x%x", v->port.lid);
	tree_put(t, "sm_lid", "0x%x", v->port.sm_lid);
	tree_put(t, "sm_sl", "%u", v->port.sm_sl);
	tree_put(t, "lid_mask_count", "%u", v->port.lmc);
	tree_put(t, "cap_mask", "0x%08x", v->port.port_cap_flags);
	tree_put(t, "pkeys/0", "0xffff");
	put_rate(t, &v->port);
	put_gids(t, v);
	put_counters(t);
}

static void put_device(struct tree *home, const struct device_view *v, unsigned int n)
{
	struct tree pci = tree_below(home, PCI_BUS "/" PCI_SLOT ".%u", n);
	struct tree dev = tree_below(&pci, "infiniband/%s", v->name);
	struct tree port = tree_below(&dev, "ports/1");
	struct tree verbs = tree_below(&pci, "infiniband_verbs/uverbs%u", n);
	struct stat node = { 0 };

	put_pci(&pci, v, n);
	put_port(&port, v);
	tree_link(&dev, "device", "../..");
	tree_put(&dev, "node_type", "1: CA");
	tree_put(&dev, "node_desc", "%s", v->name);
	tree_put(&dev, "fw_ver", "%s", v->attr.fw_ver);
	tree_put(&dev, "hca_type", "MT%u", v->attr.vendor_part_id);
	tree_put(&dev, "hw_rev", "%x", v->attr.hw_ver);
	tree_put(&dev, "board_id", "softhca");
	put_guid(&dev, "node_guid", v->attr.node_guid);
	put_guid(&dev, "sys_image_guid", v->attr.sys_image_guid);
	(void)stat(SYSFS_UVERBS_NODE, &node);
	tree_link(&verbs, "device", "../..");
	tree_put(&verbs, "ibdev", "%s", v->name);
	tree_put(&verbs, "abi_version", "1");
	tree_put(&verbs, "dev", "%u:%u", major(node.st_rdev), minor(node.st_rdev));
	tree_close(&port, &dev);
	tree_close(&dev, &pci);
	tree_close(&verbs, &pci);
	tree_close(&pci, home);
}

int sysfs_write(const struct sysfs_host *host, int dir, uint64_t *sum)
{
	struct tree top = { .dir = dir }, home = tree_below(&top, SYSFS_HOME);
	char path[128], target[256];

	tree_folder(&home, "drivers/mlx5_core");
	tree_put(&top, "infiniband_verbs/abi_version", "6");
	for (unsigned int i = 0; i < host->count; i++) {
		const char *name = host->device[i].name;

		put_device(&home, &host->device[i], i);
		snprintf(path, sizeof(path), "infiniband/%s", name);
		snprintf(target, sizeof(target),
			 "../" SYSFS_HOME "/" PCI_BUS "/" PCI_SLOT ".%u/infiniband/%s", i, name);
		tree_link(&top, path, target);
		snprintf(path, sizeof(path), "infiniband_verbs/uverbs%u", i);
		snprintf(target, sizeof(target),
			 "../" SYSFS_HOME "/" PCI_BUS "/" PCI_SLOT ".%u/infiniband_verbs/uverbs%u",
			 i, i);
		tree_link(&top, path, target);
	}
	tree_close(&home, &top);
	if (sum)
		*sum = top.sum;
	return top.err;
}
