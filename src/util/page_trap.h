// SPDX-License-Identifier: MIT
/* Memory in which a store makes a call: it is mapped without rights, and the handler of
 * util/guard_trap.h decodes the instruction that faulted, calls a function with the value, and lets
 * the program go on behind the store. The value is not kept. docs/design/memory-doorbells.md
 *
 * An instruction that cannot be decoded (a load, or one that is not known) opens the memory for
 * good: then a store is a plain store, without a call. It is open, too, while a thread blocks
 * SIGSEGV, whose store would end the process, and while it cannot be known whether one does (there
 * is no /proc, or no descriptor is free). Under a debugger, or where that cannot be known at first,
 * and on other machines than x86-64 it is open from the beginning, for good.
 *
 * Memory that the program unmaps comes back, open, at the next access that is not skipped. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A store of @bytes bytes (0: more than 8, or of an unknown value) at offset @at. Called in the
 * thread that stores, in a signal handler, between two instructions of the program: it may do what
 * a function could do that the program called there. @delicate: the thread runs on a signal stack,
 * which may be small, or blocks a signal: it may be in a handler of the program's, which has
 * interrupted malloc(), so nothing may be done that needs a lock or memory. errno is kept. */
typedef void (*page_trap_fn)(size_t at, unsigned int bytes, uint64_t value, bool delicate);

/* @len bytes, a multiple of the page size, that stay for the life of the process. A process has one
 * such memory: a second call returns the first one's. @on false: it is open from the beginning.
 * NULL: no memory. */
void *page_trap_make(size_t len, page_trap_fn stored, bool on);
/* Opens the memory if a thread of the process blocks SIGSEGV, and closes it again when none does: a
 * thread that is being made blocks all signals for a moment. One system call while no thread begins
 * or ends, but now and then all are looked at, for 2 % of the time at most. One caller at a
 * time. */
void page_trap_recheck(void);
/* True: stores are plain ones until false is said; the caller looks at what they announce itself.
 * Behind false it sees what was stored before. By the thread that rechecks. */
void page_trap_rest(bool rests);
/* Around fork(): a child does not inherit a page that another thread was making. */
void page_trap_fork_begin(void);
void page_trap_fork_end(void); /* in the parent and in the child */
bool page_trap_closed(void); /* does a store make a call? */
