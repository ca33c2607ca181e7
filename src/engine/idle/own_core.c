// SPDX-License-Identifier: MIT
#include "engine/idle/own_core.h"
#include <sched.h>
#include "engine/gsi/gsi_own.h"
#include "engine/progress.h"
#include "engine/unrung_look.h"
#include "util/clock.h"
#include "util/page_trap.h"

/* Each process has a thread that spins on its rings, and an engine thread that spins for it. */
static bool room(unsigned int cpus, unsigned int processes)
{
	return cpus / 2 >= processes;
}

bool own_core_may(const struct own_core *o, enum unrung_spin how, unsigned int cpus,
		  unsigned int processes, uint64_t now)
{
	if (now < o->not_before)
		return false;
	if (how == UNRUNG_SPIN_IF_FREE)
		return now >= o->vain.crowd_end && room(cpus, processes);
	return how == UNRUNG_SPIN;
}

bool own_core_looked(struct own_core *o, enum unrung_spin how, bool found, uint64_t before,
		     uint64_t now)
{
	if (found) {
		o->until = now + OWN_CORE_NS;
		return true;
	}
	vain_yielded(&o->vain, before, now);
	if (how == UNRUNG_SPIN_IF_FREE && now < o->vain.crowd_end)
		return false;
	return now < o->until;
}

static unsigned int cpus(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) ? 1 : (unsigned int)CPU_COUNT(&set);
}

static enum unrung_spin how_of(const struct node *n)
{
	return load_relaxed(&n->unrung.spin);
}

bool own_core_begin(struct node *n, struct own_core *o)
{
	uint64_t now;

	if (likely(!unrung_asked(n)))
		return false;
	now = clock_now();
	if (!own_core_may(o, how_of(n), cpus(), host_company(n->host) + 1, now) ||
	    !host_change_mode(n->host, HOST_POLLED, HOST_WATCHED))
		return false;
	o->until = now + OWN_CORE_NS;
	o->polls = load_relaxed(&n->poll_seq);
	page_trap_rest(true);
	return true;
}

static bool look(struct node *n)
{
	bool found = unrung_look_now(n);

	quiesce_enter();
	found |= progress_round(n) != 0;
	quiesce_exit();
	gsi_own_flush();
	return found;
}

bool own_core_look(struct node *n, struct own_core *o)
{
	bool found = false;
	uint64_t before, now;

	for (unsigned int i = 0; i < OWN_CORE_LOOKS; i++)
		found |= look(n);
	before = clock_now();
	if (!found)
		sched_yield(); /* another thread may need this very CPU */
	now = clock_now();
	if (load_relaxed(&n->led) || load_relaxed(&n->poll_seq) != o->polls) {
		o->not_before = now + OWN_CORE_NS;
		return false;
	}
	return own_core_looked(o, how_of(n), found, before, now) && unrung_due(n) != UINT64_MAX;
}

/* A store that came before the page was closed rang nobody, but its record has moved by then. */
void own_core_end(struct node *n)
{
	page_trap_rest(false);
	full_fence();
	unrung_look_now(n);
	host_change_mode(n->host, HOST_WATCHED, HOST_POLLED);
}
