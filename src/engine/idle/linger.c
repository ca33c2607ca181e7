// SPDX-License-Identifier: MIT
#include "engine/idle/linger.h"
#include <sched.h>
#include "engine/gsi/gsi_own.h"
#include "engine/progress.h"
#include "util/clock.h"

bool linger_begin(struct lingering *l, uint64_t now)
{
	if (now < l->vain.crowd_end)
		return false;
	if (l->leave_out) {
		l->leave_out--;
		return false;
	}
	l->paid = false;
	l->until = now + LINGER_NS;
	l->end = now + LINGER_MOST;
	return true;
}

static void judge(struct lingering *l)
{
	uint32_t twice = l->in_vain ? 2 * l->in_vain : 1;

	if (l->paid)
		return;
	l->in_vain = twice < LINGER_LEFT_OUT ? twice : LINGER_LEFT_OUT;
	l->leave_out = l->in_vain;
}

bool linger_looked(struct lingering *l, bool found, uint64_t before, uint64_t now)
{
	bool goes_on = true;

	if (found) {
		l->paid = true;
		l->in_vain = 0;
		l->until = now + LINGER_NS;
	} else {
		vain_yielded(&l->vain, before, now);
		goes_on = now >= l->vain.crowd_end && now < l->until;
		if (!goes_on)
			judge(l);
	}
	return goes_on && now < l->end;
}

/* Looks once; false: that was the last time. */
static bool look(struct node *n, struct lingering *l)
{
	uint64_t before;
	bool found;

	quiesce_enter();
	found = progress_round(n) != 0;
	quiesce_exit();
	gsi_own_flush();
	before = clock_now();
	if (!found)
		sched_yield(); /* the requester may need this very CPU */
	return linger_looked(l, found, before, clock_now());
}

bool linger(struct node *n, struct lingering *l)
{
	uint32_t seq = load_relaxed(&n->poll_seq);

	if (!linger_begin(l, clock_now()) || !host_change_mode(n->host, HOST_POLLED, HOST_WATCHED))
		return false;
	while (!load_relaxed(&n->led) && load_relaxed(&n->poll_seq) == seq && look(n, l))
		;
	host_change_mode(n->host, HOST_WATCHED, HOST_POLLED);
	return true;
}
