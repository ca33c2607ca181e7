// SPDX-License-Identifier: MIT
/* What of the network keeps devices from working, or is worth a look. */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "doctor.h"
#include "net/netdev.h"
#include "udp/udp.h"

enum { MTU_FULL = 4096 + 80 /* of an interface, for a path MTU of 4096 B */ };

static void look_at_device(const char *device, const struct netdev *dev)
{
	unsigned int path = 128U << netdev_active_mtu(dev);

	if (!netdev_active(dev))
		doctor_say(FINDING_NOTE, device, "%s is down; ip link set %s up", dev->name,
			   dev->name);
	else
		doctor_say(FINDING_OK, device, "on %s, active", dev->name);
	if (dev->loopback)
		doctor_say(FINDING_NOTE, device,
			   "lo reaches this host only; SOFTHCA_DEVICES=%s=INTERFACE binds the "
			   "device to another interface",
			   device);
	if (dev->mtu >= MTU_FULL)
		doctor_say(FINDING_OK, "MTU", "%u B on %s: path MTU %u B", dev->mtu, dev->name,
			   path);
	else
		doctor_say(FINDING_NOTE, "MTU",
			   "%u B on %s: path MTU %u B; %d B make it 4096 B and large messages "
			   "faster, where the network carries them",
			   dev->mtu, dev->name, path, MTU_FULL);
}

static void look_at_devices(void)
{
	const struct netdev *dev;
	struct netdev_scan scan;
	struct netdev_map map;
	int err = netdev_scan(&scan);

	if (!err)
		err = netdev_map_get(&scan, &map);
	if (err)
		doctor_say(FINDING_WRONG, "device",
			   "none (%s); SOFTHCA_DEVICES=mlx5_0=lo binds one to an interface",
			   strerror(err));
	for (unsigned int i = 0; !err && i < map.count; i++) {
		dev = netdev_by_name(&scan, map.entry[i].netdev);
		if (dev)
			look_at_device(map.entry[i].device, dev);
	}
	netdev_scan_free(&scan);
}

/* How many sockets have UDP 4791, ours and others'; *@other: the user of one. */
static void count_holders(const char *path, unsigned int *mine, unsigned int *others,
			  unsigned int *other)
{
	FILE *f = fopen(path, "re");
	unsigned int uid, port;
	char line[256];

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, " %*[^:]: %*[^:]:%x %*s %*s %*s %*s %*s %u", &port, &uid) != 2 ||
		    port != UDP_ROCE_PORT)
			continue;
		if (uid == geteuid()) {
			++*mine;
		} else {
			++*others;
			*other = uid;
		}
	}
	if (f)
		fclose(f);
}

static int try_port(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(UDP_ROCE_PORT) };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), err = 0;

	if (fd < 0)
		return errno;
	if (bind(fd, (struct sockaddr *)&any, sizeof(any)))
		err = errno;
	close(fd);
	return err;
}

static void look_at_port(void)
{
	unsigned int mine = 0, others = 0, other = 0;
	int err;

	count_holders("/proc/net/udp", &mine, &others, &other);
	count_holders("/proc/net/udp6", &mine, &others, &other);
	if (others) {
		doctor_say(FINDING_WRONG, "UDP 4791",
			   "uid %u%s has it: on that address there is no link to the network; end "
			   "it, or run as that user",
			   other, other ? "" : " (root, or the kernel's rdma_rxe)");
		return;
	}
	if (mine) {
		doctor_say(FINDING_OK, "UDP 4791",
			   geteuid() ? "programs of this user have it, and share it"
				     : "root's programs have it, and share it; or the kernel's "
				       "rdma_rxe does");
		return;
	}
	err = try_port();
	if (err)
		doctor_say(FINDING_WRONG, "UDP 4791",
			   "cannot be bound (%s); without it there is no link to the network",
			   strerror(err));
	else
		doctor_say(FINDING_OK, "UDP 4791", "free");
}

/* Only root can read the rules; that a firewall is managed here is seen by everybody. */
static const char *firewall(const char **remedy)
{
	char line[128];
	FILE *f = fopen("/etc/ufw/ufw.conf", "re");
	bool ufw = false;

	while (f && fgets(line, sizeof(line), f))
		ufw |= !strncmp(line, "ENABLED=yes", 11);
	if (f)
		fclose(f);
	*remedy = "ufw allow 4791/udp";
	if (ufw)
		return "ufw is enabled";
	*remedy = "firewall-cmd --add-port=4791/udp";
	if (!access("/run/firewalld.pid", F_OK) || !access("/run/firewalld", F_OK))
		return "firewalld runs";
	*remedy = "let UDP 4791 in and out where its policy is to drop";
	f = fopen("/proc/net/ip_tables_names", "re");
	if (f && fgets(line, sizeof(line), f)) {
		fclose(f);
		return "iptables has rules, maybe";
	}
	if (f)
		fclose(f);
	return NULL;
}

void doctor_network(void)
{
	const char *remedy, *found = firewall(&remedy);

	look_at_devices();
	look_at_port();
	if (found)
		doctor_say(FINDING_NOTE, "firewall", "%s; %s", found, remedy);
	else
		doctor_say(FINDING_OK, "firewall",
			   "no sign of one on this host; between hosts UDP 4791 must pass");
}
