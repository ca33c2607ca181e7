// SPDX-License-Identifier: MIT
/* The leader: a thread that is blocked in a call (wait.h) and is the engine meanwhile. There is one
 * at most; meanwhile the engine thread only naps (loop.h, docs/design/wakeups.md). */
#pragma once
#include "engine/node_state.h"

bool leader_begin(struct node *n); /* false: another thread leads */
void leader_end(struct node *n);
bool leader_is_me(void); /* does the calling thread lead? */
/* Another thread was woken by the doorbell, and looks at everything. The doorbell's count is worth
 * nothing to it; but a leader that has begun meanwhile sleeps in the doorbell, and senders ring
 * once for it: its ring goes back. */
void leader_take_ring(struct node *n);
