// SPDX-License-Identifier: MIT
/* Segments that go to every process of this host: which those are is read from the names, and
 * senders wait until the contacts that are being made are up. */
#pragma once
#include <stdbool.h>

struct host;
struct waiter;

void host_cast_init(struct host *h);
/* False: no contact is being made. True: @w (may be NULL) waits for contacts to come up. */
bool host_cast_wait(struct host *h, struct waiter *w);
bool host_cast_look(struct host *h); /* reads the names for new processes; false: too soon */
void host_cast_resume(struct host *h); /* resumes multicast that waited for contacts */
