// SPDX-License-Identifier: MIT
/* Fork: one page that a child sees wiped (MADV_WIPEONFORK) has the epoch of this process. It is 0
 * before fork_init() and in a fresh child, else a number that no ancestor of this process has used.
 * An object with state of a process (a node, a QP) keeps the epoch in which it was made, and its
 * functions compare that epoch at each entry: a load and a compare, no system call. An object of
 * another epoch is inherited: nothing of it may be used but plain private memory. Mappings that
 * other processes share are made with MADV_DONTFORK. Why: docs/design/fork.md. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

extern const uint32_t *fork_page; /* never NULL; points to a constant 0 before fork_init() */

/* Makes the page, or after a fork gives this process its own epoch. Idempotent, thread safe.
 * Returns 0 or a positive errno (ENOMEM). */
int fork_init(void);

static inline uint32_t fork_epoch(void)
{
	return *(const volatile uint32_t *)fork_page;
}

static inline bool fork_is_ours(uint32_t epoch)
{
	return epoch && fork_epoch() == epoch;
}
