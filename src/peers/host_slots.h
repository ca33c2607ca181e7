// SPDX-License-Identifier: MIT
/* The slots of this process: which numbers it hands out. A slot is a block of NUMBER_INDEXES
 * numbers; host_listen.c takes them. Any thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct host;

/* The place, in the order of taking, of our slot that @number belongs to; HOST_PAGE_SLOTS: not one
 * of ours. */
unsigned int host_slot_block(struct host *h, uint32_t number);
bool host_slot_is_ours(const struct host *h, unsigned int slot);
