// SPDX-License-Identifier: MIT
/* Faults that are changed while a program runs (softhca fault PID SPEC): a page of text in a memfd,
 * which the tool finds among the process's descriptors, with the rights of a tracer. The fault link
 * looks at a number in the page with each segment. Any thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "link/fault.h"

enum { FAULT_TEXT = 1024 }; /* with the final 0 */

/* Makes the page, once in a process; without it the faults cannot be changed. */
void fault_live_start(void);
void fault_live_fork_begin(void); /* around fork() */
void fault_live_fork_end(bool child); /* a child has no page until it makes its own */
/* True: the text has changed since *@seen, which was 0 at first. A text that cannot be parsed
 * changes nothing. */
bool fault_live_changed(uint32_t *seen, struct fault_config *out);

/* For the tool. ESRCH: no such process. ENOENT: it has no page. EMSGSIZE: too long. … */
int fault_live_write(pid_t pid, const char *text);
