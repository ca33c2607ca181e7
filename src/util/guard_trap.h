// SPDX-License-Identifier: MIT
/* The SIGSEGV and SIGBUS handlers behind util/guard.h: a fault in the routines of guard_asm.h
 * becomes EFAULT, one that page_trap.h has provoked becomes a call, and every other signal goes to
 * the handler that was set before. */
#pragma once
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

/* Sets the handlers, or sets them again in front of those that have replaced them. Two system calls
 * when there is nothing to do. Calls are serialised by the caller; a forked child inherits the
 * handlers. 0, or a positive errno: the earlier handlers stay. */
int guard_trap_set(void);

/* Calls @fn for each SIGSEGV and SIGBUS by a load or a store of other code (not by a jump to where
 * there is no code) before the earlier handler. If it returns
 * true the fault is mended, and the program goes on as @ctx says. For the life of the process;
 * there is room for two, and the same one counts once. */
typedef bool (*guard_trap_fn)(const siginfo_t *info, ucontext_t *ctx);
void guard_trap_watch(guard_trap_fn fn);

/* May this thread fault now: are the handlers set, and neither signal blocked? A system call. */
bool guard_trap_open(void);
/* Unblocks both signals for this thread; *@saved is for guard_trap_restore(). */
int guard_trap_unblock(uint64_t *saved);
void guard_trap_restore(uint64_t saved);
