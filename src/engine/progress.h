// SPDX-License-Identifier: MIT
/* One round of the device's work by the calling thread: the program's when it posts or polls, a
 * leader (leader.h), or the engine thread (loop.h). */
#pragma once
#include "engine/node_state.h"

/* Drains the links once, and acts on what is due: timers, QPs to go on with, ACKs when nothing came
 * in. Inside a quiesce section. Returns the segments that came in. */
unsigned int progress_round(struct node *n);
/* Drains the networks, and does nothing else; @all: links_drain(). Inside a quiesce section. */
unsigned int progress_network(struct node *n, bool all);
/* Looks at the QPs whose watchdog is due. The engine's thread, outside any section. */
void progress_watch(struct node *n, uint64_t now);

/* Behind a turn: segments of this process to itself are delivered at once. In a quiesce section. */
static inline void progress_own(struct node *n)
{
	if (unlikely(host_has_own(n->host)))
		progress_round(n);
}
