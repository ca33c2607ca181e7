// SPDX-License-Identifier: MIT
#include "engine/node_self.h"
#include "engine/node_state.h"
#include "util/fork.h"

struct node *node_current;

struct node *node_self(void)
{
	struct node *n = load_acquire(&node_current);

	return n && fork_is_ours(n->epoch) ? n : NULL;
}
