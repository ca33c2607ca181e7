// SPDX-License-Identifier: MIT
/* Memory whose stores are calls: it has no rights, and the handler of util/guard_trap.h decodes
 * the instruction that faulted, tells of it, and lets the program go on behind it. What is stored
 * is not kept. docs/design/memory-doorbells.md
 *
 * What cannot be decoded (a load, another architecture's or an unknown instruction) opens the
 * memory for good: then stores are stores, and nobody is told. So does a thread that blocks
 * SIGSEGV, whose store would end the process. Under a debugger and on other machines than x86-64 it
 * is open from the beginning. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A store of @bytes bytes (0: more than 8, or of an unknown value) at offset @at. Called in the
 * thread that stores, in a signal handler, between two instructions of the program's: it may do
 * what a function may that the program would call there. @cramped: it runs on a signal stack, which
 * may be small. errno is kept. */
typedef void (*page_trap_fn)(size_t at, unsigned int bytes, uint64_t value, bool cramped);

/* @len bytes, a multiple of the page size, that stay for the life of the process. One at a time; a
 * second call gives the first one's. @on: false: open from the beginning. NULL: no memory. */
void *page_trap_make(size_t len, page_trap_fn stored, bool on);
/* Opens the memory if a thread of the process blocks SIGSEGV. One system call while no thread
 * begins or ends, but all are looked at now and then. One caller at a time. */
void page_trap_recheck(void);
bool page_trap_closed(void); /* are stores told of? */
