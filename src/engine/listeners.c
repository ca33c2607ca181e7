// SPDX-License-Identifier: MIT
#include "engine/listeners.h"
#include <errno.h>
#include "engine/links.h"
#include "engine/port_wait.h"
#include "net/rtnl.h"
#include "obs/explain.h"
#include "util/clock.h"
#include "util/log.h"

/* Another program has the port, or this process lacks a descriptor at this moment. */
static bool may_pass(int err)
{
	return err == EADDRINUSE || rtnl_is_passing(err);
}

/* @loud: says which ports cannot be had now. */
static void listen_all(struct device *d, bool loud)
{
	struct gid_entry entry;
	struct netdev dev;
	char why[EXPLAIN_TEXT];
	bool taken = false;

	gid_table_netdev(d->gids, &dev);
	if (dev.loopback || !dev.up || links_open(d->node))
		return;
	for (unsigned int i = 1; i < GID_TABLE_LEN; i += 2) {
		if (gid_table_get(d->gids, i, &entry) || !entry.used ||
		    !may_pass(links_listen(d->node, &entry.gid, entry.ifindex)))
			continue;
		taken = true;
		if (loud && !explain_last(why, sizeof(why)))
			log_warn("%s", why);
	}
	if (taken)
		port_wait_begin(d->node, clock_now());
}

void listeners_add(struct eqp *e)
{
	struct device *d = device_of(&e->q);

	if (!xchg_acq_rel(&e->listens, 1))
		fetch_add_relaxed(&d->listeners, 1);
	listen_all(d, true);
}

void listeners_hold(struct device *d)
{
	fetch_add_relaxed(&d->listeners, 1);
	listen_all(d, true);
}

void listeners_del(struct eqp *e)
{
	if (xchg_acq_rel(&e->listens, 0))
		fetch_sub_acq_rel(&device_of(&e->q)->listeners, 1);
}

void listeners_follow(struct device *d)
{
	links_tidy(d->node);
	if (load_relaxed(&d->listeners))
		listen_all(d, false);
}
