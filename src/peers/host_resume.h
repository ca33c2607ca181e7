// SPDX-License-Identifier: MIT
/* Resuming senders that wait for room at another process, or for a contact to come up. Any thread,
 * outside all locks. */
#pragma once
#include "peers/host_state.h"

void host_resume_all(struct host *h);
/* Calls the waiters that can go on. */
static inline void host_resume(struct host *h)
{
	if (unlikely(load_relaxed(&h->waiting_words)))
		host_resume_all(h);
}
bool host_waiters_can_go_on(struct host *h); /* can any of them? */
