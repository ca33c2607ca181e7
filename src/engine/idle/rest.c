// SPDX-License-Identifier: MIT
#include "engine/idle/rest.h"
#include "engine/backlog.h"
#include "engine/leader.h"
#include "engine/links.h"
#include "engine/progress.h"
#include "engine/timers.h"
#include "engine/unanswered.h"
#include "engine/wake.h"

#define SHORTEST 20000 /* ns: a sleep as long as two switches of threads is none */

/* When the thread has to be back, ns. What is the engine's it leaves to the engine. */
static uint64_t due(struct node *n)
{
	uint64_t timer = timers_next(n), backlog = backlog_deadline(n);

	return timer < backlog ? timer : backlog;
}

static bool work_waits(struct node *n)
{
	return host_has_inbound(n->host) || host_own_waits(n->host) || backlog_any(n) ||
	       unanswered_any(n);
}

/* Back from the sleep. An engine thread that fell asleep meanwhile took our mode for its own: from
 * here on no sender would ring for it. */
static void awake(struct node *n)
{
	fetch_sub_acq_rel(&n->resting, 1);
	host_change_mode(n->host, HOST_ARMED, HOST_POLLED);
	wake_engine(n);
}

static bool take_what_came(struct node *n)
{
	unsigned int got;

	leader_take_ring(n);
	quiesce_enter();
	got = progress_network(n, LINKS_ALL);
	quiesce_exit();
	links_chores(n);
	return got || host_has_inbound(n->host);
}

bool rest(struct node *n, uint64_t now, uint64_t ns)
{
	uint64_t end = due(n);
	bool came;

	end = end < now + ns ? end : now + ns;
	if (!rest_possible(n) || end < now + SHORTEST ||
	    !host_change_mode(n->host, HOST_POLLED, HOST_ARMED))
		return false;
	store_relaxed(&n->rest_until, end);
	fetch_add_relaxed(&n->resting, 1);
	/* Pairs with contact_wake(): it sees the mode, or we its record; and with corks_wait(): it
	 * sees that we rest, or we what it has listed. */
	full_fence();
	came = !work_waits(n) && links_wait(n, host_doorbell_fd(n->host), end - now);
	awake(n);
	return !came || take_what_came(n);
}
