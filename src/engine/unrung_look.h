// SPDX-License-Identifier: MIT
/* The engine thread's half of unrung.h. */
#pragma once
#include "engine/node_state.h"

/* ns: when the next look is due; UINT64_MAX: there is nothing to look at. */
static inline uint64_t unrung_due(const struct node *n)
{
	return load_relaxed(&n->unrung.due);
}

void unrung_look(struct node *n); /* if it is due; outside any quiesce section */
/* Whether it is due or not, and without care for threads that block SIGSEGV. True: there was
 * something new. */
bool unrung_look_now(struct node *n);

/* Takes the sign of work that unrung_ask() and looks leave. */
static inline bool unrung_asked(struct node *n)
{
	return unlikely(load_relaxed(&n->unrung.asked)) && xchg_acq_rel(&n->unrung.asked, false);
}
