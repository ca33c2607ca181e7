// SPDX-License-Identifier: MIT
/* The destinations of other processes' slots. Any thread but where it says otherwise. */
#pragma once
#include "peers/host_state.h"

/* The slot's destination, with a reference; @wanted: a contact is begun. ENOMEM. */
int host_target(struct host *h, unsigned int slot, bool wanted, struct target **out);
/* The same in place of @old, which is dead. EAGAIN: a contact is begun, now or once all senders
 * have heard of the death, but the slot's process is not the one that @old led to, or is not known
 * yet to be the same. */
int host_target_again(struct host *h, const struct target *old, struct target **out);
/* The target of the slot that is in the table now, with a reference; NULL: none. */
struct target *host_target_now(struct host *h, unsigned int slot);
void host_target_put(struct target *t);
/* Sets the target's state for senders: UP with @c, or DEAD; host_resume() then resumes its waiters.
 * Under host->control. */
void host_target_settle(struct target *t, enum target_state state, struct contact *c);
