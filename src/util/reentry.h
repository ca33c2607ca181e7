// SPDX-License-Identifier: MIT
/* A thread that waits for itself: a signal handler calls a verb and has interrupted another verb of
 * its own thread, which has a lock. Verbs may not be called in signal handlers, here as with an
 * adapter, but a program must not hang without a message: a wait that lasts looks down the stack of
 * its thread, and says so, once in a process. It costs nothing where no thread waits. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct reentry { /* of one wait; all zero at its beginning */
	uint64_t since; /* ns: first reentry_look(); UINT64_MAX: the stack has been looked at */
};

#define REENTRY_NS UINT64_C(1000000000) /* a wait that lasts */

/* Between two tries of a wait. */
void reentry_look(struct reentry *r);
/* Is this a signal handler that has interrupted this library? Not async-signal-safe. */
bool reentry_inside(void);
