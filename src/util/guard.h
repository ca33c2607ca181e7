// SPDX-License-Identifier: MIT
/* Guarded copies: the only code that dereferences application addresses, and the only code that
 * stores payload (docs/design/guarded-copies.md).
 * Faults: a function returns EFAULT when an address is not mapped (or not writable); it never kills
 * the process. A SIGSEGV/SIGBUS handler knows the instruction ranges of the assembly copy routine;
 * it is set with the raw rt_sigaction at guard_init() and again by guard_recheck(); other faults go
 * on to the handler that was set before. In a thread where one of the signals is blocked, or
 * before the handlers are set, copies go through /proc/self/mem.
 * Order: the last (partial) 64-byte line of a destination becomes visible last, after a release
 * barrier, in ascending aligned 8-byte stores (unaligned ends in ascending smaller ones): a
 * reader that sees the last byte sees all of them. */
#pragma once
#include <stddef.h>
#include <stdint.h>

int guard_init(void); /* idempotent, thread safe; 0 or a positive errno */
void guard_recheck(void); /* sets the handlers again if the program has replaced them; cheap */

/* Copies @n bytes; 0, or EFAULT: an unknown part of them was stored. Either side may be an
 * application address. */
int guard_copy(void *dst, const void *src, size_t n);
/* Without the order of the last line: for copies out of application memory, and for all but the
 * last piece of a message. */
int guard_copy_unordered(void *dst, const void *src, size_t n);

/* Locked operations on an aligned 8-byte application address; *old is the original value. 0 or
 * EFAULT. */
int guard_fetch_add(uint64_t *addr, uint64_t add, uint64_t *old);
int guard_cmp_swap(uint64_t *addr, uint64_t compare, uint64_t swap, uint64_t *old);
