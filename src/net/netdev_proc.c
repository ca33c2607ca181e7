// SPDX-License-Identifier: MIT
/* netdev_scan() where netlink is refused: ioctls and /proc/net. getifaddrs() and if_nameindex() are
 * of no use then, since glibc asks netlink for both. Only IPv4's default route is read. */
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include "net/gid.h"
#include "net/netdev.h"

static int read_dev(int s, const char *name, struct netdev *out)
{
	struct ifreq req = { 0 };

	*out = (struct netdev){ 0 };
	snprintf(out->name, sizeof(out->name), "%s", name);
	snprintf(req.ifr_name, sizeof(req.ifr_name), "%s", name);
	if (ioctl(s, SIOCGIFINDEX, &req))
		return errno;
	out->index = req.ifr_ifindex;
	if (!ioctl(s, SIOCGIFFLAGS, &req)) {
		out->up = req.ifr_flags & IFF_UP;
		out->carrier = req.ifr_flags & IFF_RUNNING;
		out->loopback = req.ifr_flags & IFF_LOOPBACK;
	}
	if (!ioctl(s, SIOCGIFMTU, &req))
		out->mtu = req.ifr_mtu;
	if (!ioctl(s, SIOCGIFHWADDR, &req))
		memcpy(out->mac, req.ifr_hwaddr.sa_data, sizeof(out->mac));
	return 0;
}

/* Lines of /proc/net/dev behind the two of the heading: "  name: counters". */
static int scan_devs(int s, struct netdev_scan *out)
{
	FILE *f = fopen("/proc/net/dev", "re");
	char line[512], name[IF_NAMESIZE];
	struct netdev dev;
	int err = 0;

	if (!f)
		return errno;
	while (!err && fgets(line, sizeof(line), f))
		if (strchr(line, ':') && sscanf(line, " %15[^: ]", name) == 1 &&
		    !read_dev(s, name, &dev))
			err = netdev_scan_add(out, &dev);
	fclose(f);
	return err;
}

static int scan_ipv4(int s, struct netdev_scan *out)
{
	struct ifconf conf = { 0 };
	int err = 0;

	if (ioctl(s, SIOCGIFCONF, &conf))
		return errno;
	conf.ifc_buf = malloc(conf.ifc_len + 1);
	if (!conf.ifc_buf)
		return ENOMEM;
	if (ioctl(s, SIOCGIFCONF, &conf))
		err = errno;
	for (int i = 0; !err && i < conf.ifc_len / (int)sizeof(struct ifreq); i++) {
		struct ifreq *req = &conf.ifc_req[i];
		struct sockaddr_in in;
		union ibv_gid gid;

		memcpy(&in, &req->ifr_addr, sizeof(in));
		gid_of_ipv4(&in.sin_addr, &gid);
		if (!ioctl(s, SIOCGIFINDEX, req))
			err = netdev_scan_add_addr(out, req->ifr_ifindex, &gid);
	}
	free(conf.ifc_buf);
	return err;
}

/* "fe80…: 32 digits, index, prefix, scope, flags, name", all in hex. */
static int scan_ipv6(struct netdev_scan *out)
{
	FILE *f = fopen("/proc/net/if_inet6", "re");
	unsigned int index, flags, dad = 0x40 | 0x08; /* IFA_F_TENTATIVE, IFA_F_DADFAILED */
	char digits[33], two[3] = "";
	union ibv_gid gid;
	int err = 0;

	if (!f)
		return 0; /* no IPv6 */
	/* NOLINTNEXTLINE(cert-err34-c): the kernel wrote these numbers */
	while (!err && fscanf(f, "%32s %x %*x %*x %x %*s", digits, &index, &flags) == 3) {
		for (size_t i = 0; i < sizeof(gid); i++) {
			memcpy(two, digits + 2 * i, 2);
			gid.raw[i] = (uint8_t)strtoul(two, NULL, 16);
		}
		if (!(flags & dad))
			err = netdev_scan_add_addr(out, index, &gid);
	}
	fclose(f);
	return err;
}

static void scan_default(struct netdev_scan *out)
{
	FILE *f = fopen("/proc/net/route", "re");
	unsigned long dst, mask, metric, best = 0;
	char line[256], name[IF_NAMESIZE];

	while (f && fgets(line, sizeof(line), f)) {
		const struct netdev *dev;

		/* NOLINTNEXTLINE(cert-err34-c): the kernel wrote these numbers */
		if (sscanf(line, "%15s %lx %*x %*x %*d %*d %lu %lx", name, &dst, &metric, &mask) !=
			    4 ||
		    dst || mask || (out->default_index && metric >= best))
			continue;
		dev = netdev_by_name(out, name);
		if (dev)
			out->default_index = dev->index;
		best = metric;
	}
	if (f)
		fclose(f);
}

int netdev_scan_proc(struct netdev_scan *out)
{
	struct netdev_scan scan = { 0 };
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int err;

	if (s < 0)
		return errno;
	err = scan_devs(s, &scan);
	if (!err)
		err = scan_ipv4(s, &scan);
	if (!err)
		err = scan_ipv6(&scan);
	scan_default(&scan);
	close(s);
	if (err)
		netdev_scan_free(&scan);
	else
		*out = scan;
	return err;
}
