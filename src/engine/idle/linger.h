// SPDX-License-Identifier: MIT
/* How long the engine thread goes on looking at the network behind a request that it has served,
 * before it sleeps again (docs/design/wakeups.md). The requester may wait for the answer, and send
 * its next request then: to look for that one costs less than to sleep and be woken, and the answer
 * leaves at once.
 *
 * It costs the core, so it has to pay. A look that finds nothing is followed by a yield, and a
 * yield that takes long says that others want the core: then the engine sleeps, and does not linger
 * for a while (vain.h). Where it has lingered in vain it leaves out the next time, then the next 2,
 * 4, ... 64 times: so a requester that comes seldom, or that shares the core and cannot run while
 * the engine looks, costs next to nothing. A look that finds something begins the count anew.
 *
 * A struct lingering is the engine thread's alone, zeroed at first. */
#pragma once
#include "engine/node_state.h"

enum {
	LINGER_NS = 50000, /* without work: then the engine sleeps */
	LINGER_MOST = 2000000, /* ns: then all descriptors have their turn */
	LINGER_LEFT_OUT = 64, /* times at most, in a row */
};

struct lingering {
	struct vain vain; /* of which only the crowd is used */
	uint64_t until, end; /* ns: it ends unless a look finds something; it ends in any case */
	bool paid; /* a look has found something */
	uint32_t leave_out; /* times that it is still left out */
	uint32_t in_vain; /* times that it was left out when it had last been in vain */
};

/* Pure. False: this time the engine does not linger. */
bool linger_begin(struct lingering *l, uint64_t now);
/* A look has ended, and from @before to @now a yield when it found nothing. False: that was the
 * last look. */
bool linger_looked(struct lingering *l, bool found, uint64_t before, uint64_t now);

/* Looks as long as it pays, and until the program polls or a thread leads. Senders of this host see
 * that the engine is awake. Outside any quiesce section. True: it has looked, and the caller has to
 * look once more, behind a full fence: pairs with contact_wake(). */
bool linger(struct node *n, struct lingering *l);
