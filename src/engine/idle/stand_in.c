// SPDX-License-Identifier: MIT
#include "engine/idle/stand_in.h"
#include "engine/links.h"
#include "engine/progress.h"
#include "util/uncancelled.h"

#define LATE UINT64_C(20000000) /* ns: an engine that does not sleep is back far sooner */

static bool is_late(struct node *n, uint64_t now)
{
	uint32_t rounds = load_relaxed(&n->rounds);

	if (rounds == load_relaxed(&n->rounds_seen) && load_relaxed(&n->asleep) == LOOP_AWAKE)
		return now >= load_relaxed(&n->rounds_since) + LATE;
	store_relaxed(&n->rounds_seen, rounds);
	store_relaxed(&n->rounds_since, now);
	return false;
}

void stand_in(struct node *n, uint64_t now)
{
	int was;

	if (likely(!is_late(n, now)))
		return;
	store_relaxed(&n->rounds_since, now); /* it is late again after the same time */
	was = uncancelled_begin();
	links_tend(n, now);
	progress_watch(n, now);
	uncancelled_end(was);
}
