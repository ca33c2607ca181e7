// SPDX-License-Identifier: MIT
/* What of the network keeps devices from working, or is worth a look. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "doctor.h"
#include "net/gid.h"
#include "net/netdev.h"
#include "udp/udp.h"
#include "wire/ip.h"

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

static int try_port(const struct netdev_addr *a)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} at = { 0 };
	bool v4 = gid_is_ipv4(&a->gid);
	int fd = socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0), err = 0;

	if (fd < 0)
		return errno;
	if (v4) {
		at.v4 = (struct sockaddr_in){ .sin_family = AF_INET,
					      .sin_port = htons(UDP_ROCE_PORT) };
		memcpy(&at.v4.sin_addr, a->gid.raw + 12, sizeof(at.v4.sin_addr));
	} else {
		at.v6 = (struct sockaddr_in6){ .sin6_family = AF_INET6,
					       .sin6_port = htons(UDP_ROCE_PORT),
					       .sin6_scope_id = a->index };
		memcpy(&at.v6.sin6_addr, a->gid.raw, sizeof(at.v6.sin6_addr));
	}
	if (bind(fd, &at.any, v4 ? sizeof(at.v4) : sizeof(at.v6)))
		err = errno;
	close(fd);
	return err;
}

/* An address on which another user has no socket. */
static void look_at_own_port(const struct netdev_addr *a)
{
	uint32_t uid;
	int err;

	if (!udp_port_user(&a->gid, &uid)) {
		doctor_say(FINDING_OK, "UDP 4791",
			   geteuid() ? "programs of this user have it, and share it"
				     : "root's programs have it, and share it; or the kernel's "
				       "rdma_rxe does");
		return;
	}
	err = try_port(a);
	if (err)
		doctor_say(FINDING_WRONG, "UDP 4791",
			   "cannot be bound (%s); without it there is no link to the network",
			   strerror(err));
	else
		doctor_say(FINDING_OK, "UDP 4791", "free");
}

/* Another user may have an address of its own. */
static bool is_held(const struct netdev_addr *a)
{
	char text[INET6_ADDRSTRLEN];
	uint32_t uid;

	if (udp_port_user(&a->gid, &uid) || uid == geteuid())
		return false;
	gid_text(&a->gid, text, sizeof(text));
	doctor_say(FINDING_NOTE, "UDP 4791",
		   "uid %u%s has it on %s, from where this user does not reach the network; use "
		   "the GID of another address",
		   uid, uid ? "" : " (root, or the kernel's rdma_rxe)", text);
	return true;
}

static void look_at_port(const char *device, const struct netdev *dev,
			 const struct netdev_scan *scan)
{
	const struct netdev_addr all = { .gid.raw = { [10] = 0xff, [11] = 0xff } }, *own = NULL;
	unsigned int held = 0;

	for (unsigned int i = 0; i < scan->addrs; i++) {
		if (scan->addr[i].index != dev->index)
			continue;
		if (is_held(&scan->addr[i]))
			held++;
		else if (!own)
			own = &scan->addr[i];
	}
	if (own || !held)
		look_at_own_port(own ? own : &all);
	else
		doctor_say(FINDING_WRONG, "UDP 4791",
			   "%s has no address where it is free, so there is no link to the "
			   "network; give %s one more (ip address add), end the other programs, or "
			   "run as their user",
			   device, dev->name);
}

static void look_at_devices(void)
{
	struct netdev_scan scan = { 0 };
	const struct netdev *dev;
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
		if (!dev)
			continue;
		look_at_device(map.entry[i].device, dev);
		look_at_port(map.entry[i].device, dev, &scan);
	}
	netdev_scan_free(&scan);
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
	if (!access("/etc/systemd/system/sysinit.target.wants/nftables.service", F_OK))
		return "nftables is enabled";
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
	if (found)
		doctor_say(FINDING_NOTE, "firewall", "%s; %s", found, remedy);
	else
		doctor_say(FINDING_OK, "firewall",
			   "no sign of one on this host; between hosts UDP 4791 must pass");
}
