// SPDX-License-Identifier: MIT
/* One round of the device's work by the calling thread: the program's when it posts or polls, a
 * leader (leader.h), or the engine thread (loop.h). */
#pragma once
#include "engine/links.h"

/* Drains the links once, and acts on what is due: timers, QPs to go on with, ACKs when nothing came
 * in. Inside a quiesce section. Returns the segments that came in. */
unsigned int progress_round(struct node *n);
/* links_drain(), and does nothing else. Inside a quiesce section. */
unsigned int progress_network(struct node *n, enum links_sources which);
/* Looks at the QPs whose watchdog is due: the engine's thread, or who stands in for it. */
void progress_watch(struct node *n, uint64_t now);

/* Behind a turn: segments of this process to itself are delivered at once. In a quiesce section. */
static inline void progress_own(struct node *n)
{
	if (unlikely(host_has_own(n->host)))
		progress_round(n);
}
