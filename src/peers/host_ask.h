// SPDX-License-Identifier: MIT
/* Begins contacts to the slots that destinations lead to, again and again until a deadline. Under
 * host->control. */
#pragma once
#include <stdint.h>

struct host;

void host_ask_targets(struct host *h, uint64_t now);
