// SPDX-License-Identifier: MIT
#include "net/netdev_scan.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Room for one more in an array that grows in steps of 16. */
static void *grown(void *array, unsigned int count, size_t size)
{
	return count % 16 ? array : realloc(array, (count + 16) * size);
}

int netdev_scan_add(struct netdev_scan *s, const struct netdev *dev)
{
	struct netdev *more = grown(s->dev, s->devs, sizeof(*more));

	if (!more)
		return ENOMEM;
	s->dev = more;
	s->dev[s->devs++] = *dev;
	return 0;
}

int netdev_scan_add_addr(struct netdev_scan *s, uint32_t index, const union ibv_gid *gid)
{
	struct netdev_addr *more = grown(s->addr, s->addrs, sizeof(*more));

	if (!more)
		return ENOMEM;
	s->addr = more;
	s->addr[s->addrs++] = (struct netdev_addr){ .index = index, .gid = *gid };
	return 0;
}

void netdev_scan_free(struct netdev_scan *s)
{
	free(s->dev);
	free(s->addr);
	*s = (struct netdev_scan){ 0 };
}

const struct netdev *netdev_by_name(const struct netdev_scan *s, const char *name)
{
	for (unsigned int i = 0; i < s->devs; i++)
		if (!strcmp(s->dev[i].name, name))
			return &s->dev[i];
	return NULL;
}

const struct netdev *netdev_by_index(const struct netdev_scan *s, uint32_t index)
{
	for (unsigned int i = 0; i < s->devs; i++)
		if (s->dev[i].index == index)
			return &s->dev[i];
	return NULL;
}
