// SPDX-License-Identifier: MIT
/* A word in shared memory by which another process sees, at the cost of a load, that this one has
 * ended or has become another program. The kernel changes the word when the thread that marked it
 * ends, however it ends: before the thread's memory is given up, and before a wait for the process
 * can return. Robust futexes work the same way (docs/design/death-of-a-process.md). */
#pragma once
#include <linux/futex.h>
#include "util/barrier.h"

/* From now on @word, in memory shared with other processes, says that the calling thread lives. The
 * thread uses no robust mutexes and marks one word in its life, which stays mapped as long as the
 * thread lives. 0, or an errno where the kernel cannot do it: the word stays 0. */
int death_mark(uint32_t *word);

/* False for 0, too: no thread has marked the word. */
static inline bool death_alive(const uint32_t *word)
{
	uint32_t v = load_acquire(word);

	return v && !(v & FUTEX_OWNER_DIED);
}
