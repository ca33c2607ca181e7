// SPDX-License-Identifier: MIT
#include "engine/linger.h"
#include <sched.h>
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
	l->last = now;
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

bool linger_looked(struct lingering *l, bool found, uint64_t now)
{
	bool goes_on = true;

	if (found) {
		l->paid = true;
		l->in_vain = 0;
		l->until = now + LINGER_NS;
	} else {
		vain_yielded(&l->vain, l->last, now);
		goes_on = now >= l->vain.crowd_end && now < l->until;
		if (!goes_on)
			judge(l);
	}
	l->last = now;
	return goes_on && now < l->end;
}

/* True: it found something. */
static bool look(struct node *n)
{
	unsigned int got;

	quiesce_enter();
	got = progress_round(n);
	quiesce_exit();
	if (!got)
		sched_yield(); /* the requester may need this very CPU */
	return got != 0;
}

bool linger(struct node *n, struct lingering *l)
{
	uint32_t seq = load_relaxed(&n->poll_seq);

	if (!linger_begin(l, clock_now()) || !host_change_mode(n->host, HOST_POLLED, HOST_WATCHED))
		return false;
	while (!load_relaxed(&n->led) && load_relaxed(&n->poll_seq) == seq &&
	       linger_looked(l, look(n), clock_now()))
		;
	host_change_mode(n->host, HOST_WATCHED, HOST_POLLED);
	return true;
}
