// SPDX-License-Identifier: MIT
/* Whether the peer's process has ended, as the kernel tells. Under host->control. */
#pragma once
#include <stdint.h>

struct contact;

/* From now on the end of the process whose pid is visible ends the contact at once. */
void contact_watch_pid(struct contact *c);
/* Where that cannot be (no pid, and a forked child may keep its connection open) its memory is
 * asked now and then. */
void contact_look_alive(struct contact *c, uint64_t now);
