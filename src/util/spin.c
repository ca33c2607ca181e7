// SPDX-License-Identifier: MIT
#include <sched.h>
#include "util/reentry.h"
#include "util/spin.h"

enum { TRIES = 1000 };

void spin_wait(struct spin *s)
{
	struct reentry r = { 0 };

	for (;;) {
		for (int i = 0; i < TRIES; i++) {
			if (spin_trylock(s))
				return;
			cpu_relax();
		}
		sched_yield(); /* the thread that has the lock may be waiting for this core */
		reentry_look(&r);
	}
}
