// SPDX-License-Identifier: MIT
#include "net/netdev.h"
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "util/log.h"

#define HEADERS_MAX 80 /* IPv6, UDP, BTH, the longest extension headers, ICRC */

int netdev_scan(struct netdev_scan *out)
{
	int err = netdev_scan_rtnl(out, true);

	if (!err || err == ENOMEM)
		return err;
	log_warn_once("netlink is refused (%s): interfaces are read from /proc/net, and changes of "
		      "addresses go unnoticed",
		      strerror(err));
	return netdev_scan_proc(out);
}

const struct netdev *netdev_choose(const struct netdev_scan *s)
{
	const struct netdev *dev = s->default_index ? netdev_by_index(s, s->default_index) : NULL;
	const struct netdev *lo = NULL;

	if (dev)
		return dev;
	for (unsigned int i = 0; i < s->devs; i++) {
		if (s->dev[i].loopback)
			lo = &s->dev[i];
		else if (s->dev[i].up)
			return &s->dev[i];
	}
	return lo;
}

/* A word of 1 to @size - 1 characters that may stand in a path; the rest of the text, or NULL. */
static const char *take_word(const char *text, char end, char *out, size_t size)
{
	size_t n = 0;

	while (text[n] && text[n] != end && text[n] != ',') {
		if (!isgraph((unsigned char)text[n]) || text[n] == '/' || text[n] == '=')
			return NULL;
		n++;
	}
	if (!n || n >= size || text[0] == '.')
		return NULL;
	memcpy(out, text, n);
	out[n] = '\0';
	return text + n;
}

static bool map_has(const struct netdev_map *map, const char *device)
{
	for (unsigned int i = 0; i < map->count; i++)
		if (!strcmp(map->entry[i].device, device))
			return true;
	return false;
}

int netdev_map_parse(const char *text, struct netdev_map *out)
{
	struct netdev_map map = { 0 };
	const char *p = text;

	for (;;) {
		char device[sizeof(map.entry[0].device)], netdev[sizeof(map.entry[0].netdev)];

		p = take_word(p, '=', device, sizeof(device));
		if (!p || *p != '=')
			return EINVAL;
		p = take_word(p + 1, ',', netdev, sizeof(netdev));
		if (!p || map.count == NETDEV_MAP_MAX || map_has(&map, device))
			return EINVAL;
		memcpy(map.entry[map.count].device, device, sizeof(device));
		memcpy(map.entry[map.count++].netdev, netdev, sizeof(netdev));
		if (!*p)
			break;
		p++;
	}
	*out = map;
	return 0;
}

static int map_default(const struct netdev_scan *s, struct netdev_map *out)
{
	const struct netdev *dev = netdev_choose(s);

	if (!dev) {
		log_warn_once("this network namespace has no interface, not even lo: no device");
		return ENODEV;
	}
	*out = (struct netdev_map){ .count = 1, .entry[0].device = "mlx5_0" };
	memcpy(out->entry[0].netdev, dev->name, sizeof(dev->name));
	return 0;
}

int netdev_map_get(const struct netdev_scan *s, struct netdev_map *out)
{
	const char *text = secure_getenv("SOFTHCA_DEVICES");
	struct netdev_map map;

	if (!text || !*text)
		return map_default(s, out);
	if (netdev_map_parse(text, &map)) {
		log_warn_once("SOFTHCA_DEVICES=%s is not of the form mlx5_0=eth0,mlx5_1=lo", text);
		return EINVAL;
	}
	for (unsigned int i = 0; i < map.count; i++) {
		if (netdev_by_name(s, map.entry[i].netdev))
			continue;
		log_warn_once("SOFTHCA_DEVICES=%s: there is no interface %s", text,
			      map.entry[i].netdev);
		return ENODEV;
	}
	*out = map;
	return 0;
}

bool netdev_active(const struct netdev *dev)
{
	return dev->loopback || (dev->up && dev->carrier);
}

enum ibv_mtu netdev_active_mtu(const struct netdev *dev)
{
	enum ibv_mtu mtu = IBV_MTU_4096;

	while (mtu > IBV_MTU_256 && dev->mtu < (128u << mtu) + HEADERS_MAX)
		mtu--;
	return mtu;
}

static bool has_mac(const struct netdev *dev)
{
	static const uint8_t none[sizeof(dev->mac)];

	return memcmp(dev->mac, none, sizeof(none)) != 0;
}

/* Modified EUI-64: the universal/local bit turned over, ff:fe in the middle. */
static void eui64(const uint8_t mac[6], uint8_t out[8])
{
	const uint8_t id[8] = { mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5] };

	memcpy(out, id, sizeof(id));
}

void netdev_link_local(const struct netdev *dev, union ibv_gid *out)
{
	uint8_t mac[6] = { 2, 0, 0, dev->index >> 16, dev->index >> 8, dev->index };

	memset(out, 0, sizeof(*out));
	out->raw[0] = 0xfe;
	out->raw[1] = 0x80;
	eui64(has_mac(dev) ? dev->mac : mac, out->raw + 8);
}

uint64_t netdev_guid(const struct netdev *dev, unsigned int ordinal)
{
	struct stat st = { 0 };
	uint8_t id[8];
	uint64_t guid;

	if (has_mac(dev)) {
		eui64(dev->mac, id);
	} else {
		(void)stat("/proc/self/ns/net", &st);
		eui64((uint8_t[6]){ 2, dev->index, st.st_ino >> 24, st.st_ino >> 16, st.st_ino >> 8,
				    st.st_ino },
		      id);
	}
	id[4] -= ordinal;
	memcpy(&guid, id, sizeof(guid));
	return guid;
}
