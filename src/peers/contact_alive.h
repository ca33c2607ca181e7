// SPDX-License-Identifier: MIT
/* Whether the peer's process has ended, as the kernel tells. Under host->control. */
#pragma once
#include <stdint.h>

struct contact;

/* From now on the end of the peer's process, if its pid is visible, ends the contact at once. */
void contact_watch_pid(struct contact *c);
/* For a peer without a visible pid, whose connection a forked child may keep open: reads its memory
 * now and then, to see whether it is still there. */
void contact_look_alive(struct contact *c, uint64_t now);
