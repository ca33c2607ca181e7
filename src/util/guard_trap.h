// SPDX-License-Identifier: MIT
/* The SIGSEGV and SIGBUS handlers behind util/guard.h: a fault in the routines of guard_asm.h
 * becomes EFAULT, every other signal goes to the handler that was set before. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* Sets them, or goes in front again where they have been replaced. Two system calls when there
 * is nothing to do. Calls are serialised by the caller; a forked child inherits the handlers. 0
 * or a positive errno: what was set before stays. */
int guard_trap_set(void);

/* May this thread fault here and now: handlers set, neither signal blocked. A system call. */
bool guard_trap_open(void);
/* Unblocks both signals for this thread; *@saved is for guard_trap_restore(). */
int guard_trap_unblock(uint64_t *saved);
void guard_trap_restore(uint64_t saved);
