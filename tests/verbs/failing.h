// SPDX-License-Identifier: MIT
/* One call for a resource fails: the n-th allocation, or the n-th system call, that the libraries
 * under test make. failing.c stands in place of the C library's functions in the whole program and
 * looks who calls: what the program does itself never fails. Calls that give something back do not
 * fail: close(), munmap(), shutdown(). Under a sanitizer, which allocates itself, allocations do
 * not fail. */
#pragma once
#include <stdbool.h>

enum failing_kind { FAILING_MEMORY, FAILING_CALLS, FAILING_KINDS };

/* From here on calls of that kind are counted, and the @n-th fails (0: none does). */
void failing_begin(enum failing_kind kind, long n);
/* Nothing fails any more. How many were counted. */
long failing_end(void);
const char *failing_name(void); /* of the call that has failed; NULL: none has */
/* Blocks that the libraries have allocated since failing_begin() and not freed. */
long failing_blocks(void);
bool failing_has_memory(void); /* false: built with a sanitizer */
