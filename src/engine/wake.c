// SPDX-License-Identifier: MIT
#include "engine/wake.h"
#include <unistd.h>
#include "util/uncancelled.h"

void wake_kick(struct node *n)
{
	uint64_t one = 1;
	ssize_t got;

	UNCANCELLED(got, write(n->kick_fd, &one, sizeof(one)));
	if (got < 0)
		return; /* its count is full: the engine is awake */
}

void wake_engine(struct node *n)
{
	full_fence(); /* pairs with armed(), under_leader(): they see what is new, or we them */
	if (load_acquire(&n->asleep) != LOOP_AWAKE)
		wake_kick(n);
}
