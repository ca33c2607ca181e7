// SPDX-License-Identifier: MIT
#include "engine/port_events.h"
#include "engine/frames.h"
#include "engine/groups.h"
#include "engine/links.h"
#include "engine/listeners.h"
#include "engine/port_wait.h"
#include "hca/device.h"
#include "util/clock.h"

static const struct {
	unsigned int bit;
	enum ibv_event_type type;
} events[] = {
	{ GID_CHANGE, IBV_EVENT_GID_CHANGE },
	{ GID_PORT_ERR, IBV_EVENT_PORT_ERR },
	{ GID_PORT_ACTIVE, IBV_EVENT_PORT_ACTIVE },
	{ GID_GONE, IBV_EVENT_DEVICE_FATAL }, /* as the kernel when it removes a device */
};

static void raise_all(struct device *d, unsigned int changed)
{
	for (unsigned int i = 0; i < sizeof(events) / sizeof(events[0]); i++)
		if (changed & events[i].bit)
			device_event(&d->hca, events[i].type);
}

/* A program that hears of an event finds everything as it is now. True: but for what is to be tried
 * later. */
static bool follow(struct device *d)
{
	unsigned int changed = gid_table_sync(d->gids);
	bool missing = gid_table_is_behind(d->gids);

	missing |= listeners_follow(d);
	missing |= groups_follow(d);
	frames_follow(d);
	raise_all(d, changed);
	return missing;
}

void port_events_read(struct node *n, int watch_fd)
{
	/* pairs with node_device_make() */
	for (unsigned int i = 0; i < load_acquire(&n->n_devices); i++)
		if (n->devices[i]->watch_fd == watch_fd && follow(n->devices[i]))
			port_wait_begin(n, clock_now());
}

/* links_again() has tried the ports of networks that are open, and records no reasons. @shut: some
 * network was not open. */
static bool again(struct device *d, bool shut)
{
	return shut || gid_table_is_behind(d->gids) ? follow(d) : groups_follow(d);
}

void port_events_retry(struct node *n, uint64_t now)
{
	bool shut, missing;

	if (likely(!port_wait_due(n)))
		return;
	shut = !links_are_open(n);
	missing = links_again(n);
	for (unsigned int i = 0; i < load_acquire(&n->n_devices); i++) /* as above */
		missing |= again(n->devices[i], shut);
	if (missing)
		port_wait_longer(n, now);
}
