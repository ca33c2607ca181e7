// SPDX-License-Identifier: MIT
/* Queues whose rings the program writes and reads itself (mlx5dv_init_obj(3)). It stores into
 * doorbell records and calls no function, so the engine thread looks at the records again and
 * again: soon after it has found new work, and more and more seldom while it finds none.
 * Locking: node->unrung.lock guards the list and is held during looks; no caller holds another lock
 * or a turn. unrung_del() returns when no look at the entry is under way. */
#pragma once
#include <stdbool.h>
#include "util/list.h"

struct node;

struct unrung { /* zeroed: on no list */
	struct list at;
	struct node *node; /* NULL: on no list; atomic */
	bool (*look)(struct unrung *u); /* true: there was something new, and it is done */
};

/* No effect on one that is listed already. */
void unrung_add(struct unrung *u, bool (*look)(struct unrung *u));
void unrung_del(struct unrung *u); /* of this process; on no list: no effect */

/* The engine thread looks now. From a signal handler, too. */
void unrung_soon(void);

/* Does the engine thread look all the time while there is work (own_core.h)? */
enum unrung_spin {
	UNRUNG_SPIN_NEVER,
	UNRUNG_SPIN_IF_FREE, /* while a core is free */
	UNRUNG_SPIN,
};
void unrung_spins(enum unrung_spin how); /* NEVER until the first call */
void unrung_ask(void); /* there is work: it may begin. From a signal handler, too */

static inline bool unrung_is(const struct unrung *u)
{
	return load_acquire(&u->node) != NULL;
}
