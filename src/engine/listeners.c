// SPDX-License-Identifier: MIT
#include "engine/listeners.h"
#include "engine/links.h"
#include "engine/port_wait.h"
#include "obs/explain.h"
#include "util/clock.h"
#include "util/log.h"

/* @err of a port, or of the networks as a whole. True: it cannot be had now. @loud: says so. */
static bool is_missing(int err, bool loud)
{
	char why[EXPLAIN_TEXT];

	if (!port_wait_helps(err))
		return false;
	if (loud && !explain_last(why, sizeof(why)))
		log_warn("%s", why);
	return true;
}

/* True: some port cannot be had now. */
static bool listen_all(struct device *d, bool loud)
{
	struct gid_entry entry;
	struct netdev dev;
	bool missing = false;
	int err;

	gid_table_netdev(d->gids, &dev);
	if (dev.loopback || !dev.up)
		return false;
	err = links_open(d->node);
	if (err)
		return is_missing(err, loud);
	for (unsigned int i = 1; i < GID_TABLE_LEN; i += 2)
		if (!gid_table_get(d->gids, i, &entry) && entry.used)
			missing |=
				is_missing(links_listen(d->node, &entry.gid, entry.ifindex), loud);
	return missing;
}

static void begin(struct device *d)
{
	if (listen_all(d, true))
		port_wait_begin(d->node, clock_now());
}

void listeners_add(struct eqp *e)
{
	struct device *d = device_of(&e->q);

	if (!xchg_acq_rel(&e->listens, 1))
		fetch_add_relaxed(&d->listeners, 1);
	begin(d);
}

void listeners_hold(struct device *d)
{
	fetch_add_relaxed(&d->listeners, 1);
	begin(d);
}

void listeners_del(struct eqp *e)
{
	if (xchg_acq_rel(&e->listens, 0))
		fetch_sub_acq_rel(&device_of(&e->q)->listeners, 1);
}

bool listeners_follow(struct device *d)
{
	links_tidy(d->node);
	return load_relaxed(&d->listeners) && listen_all(d, false);
}
