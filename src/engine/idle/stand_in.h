// SPDX-License-Identifier: MIT
/* Beside an engine thread that is late: it copies from a peer's memory that does not answer, or has
 * no core. A thread that polls does meanwhile what is otherwise the engine's alone: contacts begin
 * and end, and the watchdog looks at queue pairs. */
#pragma once
#include "engine/node_state.h"

/* For a thread that polls in vain, outside any quiesce section; @now: ns. */
void stand_in(struct node *n, uint64_t now);
