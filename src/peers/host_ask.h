// SPDX-License-Identifier: MIT
/* Contacts to the slots that destinations lead to are begun, again and again until a deadline.
 * Under host->control. */
#pragma once
#include <stdint.h>

struct host;

void host_ask_targets(struct host *h, uint64_t now);
