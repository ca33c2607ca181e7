// SPDX-License-Identifier: MIT
#include "engine/port_wait.h"
#include <errno.h>
#include "engine/timers.h"
#include "hca/limits.h"
#include "hca/mcast.h"
#include "net/rtnl.h"

#define STEP_FIRST 1000000000ULL
#define STEP_MOST  8000000000ULL

bool port_wait_helps(int err)
{
	return err == EADDRINUSE || rtnl_is_passing(err);
}

static void fire(struct timer *t, uint64_t now __attribute__((unused)))
{
	store_release(&container_of(t, struct node, ports.timer)->ports.due, 1);
}

static void wait_for(struct node *n, uint64_t now, uint64_t step)
{
	store_relaxed(&n->ports.step, step);
	timers_add(n, &n->ports.timer, fire, now + step);
}

void port_wait_begin(struct node *n, uint64_t now)
{
	wait_for(n, now, STEP_FIRST);
}

void port_wait_longer(struct node *n, uint64_t now)
{
	uint64_t step = load_relaxed(&n->ports.step);

	wait_for(n, now, step < STEP_MOST ? 2 * step : STEP_MOST);
}

static bool is_needed(const struct node *n)
{
	union ibv_gid gid;

	for (unsigned int i = 0; i < LIMIT_MCAST_GRP; i++)
		if (mcast_group(n->mcast, i, &gid))
			return true;
	/* pairs with node_device_make() */
	for (unsigned int i = 0; i < load_acquire(&n->n_devices); i++)
		if (load_relaxed(&n->devices[i]->listeners) ||
		    gid_table_is_behind(n->devices[i]->gids))
			return true;
	return false;
}

bool port_wait_due(struct node *n)
{
	return unlikely(load_relaxed(&n->ports.due)) && xchg_acq_rel(&n->ports.due, 0) &&
	       is_needed(n);
}
