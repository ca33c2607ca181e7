// SPDX-License-Identifier: MIT
#include "engine/port_wait.h"
#include "engine/groups.h"
#include "engine/timers.h"
#include "udp/udp.h"

#define STEP_FIRST 1000000000ULL
#define STEP_MOST  8000000000ULL

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

static bool is_needed(const struct node *n)
{
	for (unsigned int i = 0; i < load_acquire(&n->n_devices); i++) /* device_make() */
		if (load_relaxed(&n->devices[i]->listeners))
			return true;
	return false;
}

void port_wait_run(struct node *n, uint64_t now)
{
	uint64_t step = load_relaxed(&n->ports.step);
	unsigned int taken;

	if (likely(!load_relaxed(&n->ports.due)) || !xchg_acq_rel(&n->ports.due, 0) ||
	    !is_needed(n))
		return;
	if (udp_again(n->udp, &taken))
		wait_for(n, now, step < STEP_MOST ? 2 * step : STEP_MOST);
	for (unsigned int i = 0; taken && i < load_acquire(&n->n_devices); i++) /* the same */
		groups_follow(n->devices[i]);
}
