// SPDX-License-Identifier: MIT
/* Packets from a network that are another process's of this host, on their way to it. A process
 * that is met for the first time cannot take them yet, and one without a core may have no room:
 * they wait in their order, since the sender would send them again after 50 ms at the earliest. At
 * most PASSING_BYTES are kept, payload and headers, of all processes together; what is beyond is
 * lost, as on the way.
 * Locking: node->passing.lock, a leaf. */
#pragma once
#include "engine/node_state.h"

enum { PASSING_BYTES = 1 << 20 };

/* Takes the reference on @to. One thread at a time. */
void passing_send(struct node *n, struct dest *to, const struct seg *s);
