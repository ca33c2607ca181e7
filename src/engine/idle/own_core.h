// SPDX-License-Identifier: MIT
/* The engine thread as an adapter's own processor: while programs write and read their rings
 * themselves (unrung.h) and a core is free, it looks at records, rings and networks all the time.
 * Stores to the doorbell page are plain ones meanwhile. docs/design/memory-doorbells.md
 *
 * It begins behind a sign of work, and ends when nothing has come for a while, when the program
 * polls by a call or blocks in one, or when a yield finds that others want the core (vain.h). By
 * itself it begins only where each process of this host that it has met, and each engine thread,
 * may have a core.
 *
 * A struct own_core is the engine thread's alone, zeroed at first. */
#pragma once
#include "engine/node_state.h"

enum {
	OWN_CORE_NS = 10000000, /* without work: then it ends; or until it may begin again */
	OWN_CORE_LOOKS = 32, /* between two looks at the clock */
};

struct own_core {
	struct vain vain; /* of which only the crowd is used */
	uint64_t until; /* ns: it ends unless a look finds something */
	uint64_t not_before; /* ns: the program has just made progress by a call */
	uint32_t polls; /* node->poll_seq at its beginning */
};

/* Pure: may it begin? @cpus that the thread may use; @processes of this host, this one too. */
bool own_core_may(const struct own_core *o, enum unrung_spin how, unsigned int cpus,
		  unsigned int processes, uint64_t now);
/* Pure. Some looks have ended, the last at @before; since then, until @now, a yield if all of them
 * found nothing. False: it ends. */
bool own_core_looked(struct own_core *o, enum unrung_spin how, bool found, uint64_t before,
		     uint64_t now);

/* True: it has begun. */
bool own_core_begin(struct node *n, struct own_core *o);
/* OWN_CORE_LOOKS of them. Outside any quiesce section. False: it ends. */
bool own_core_look(struct node *n, struct own_core *o);
/* The caller has to look once more at rings and networks, behind a full fence, as linger(). */
void own_core_end(struct node *n);
