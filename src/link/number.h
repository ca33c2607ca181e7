// SPDX-License-Identifier: MIT
/* Numbers of queue pairs and SRQs, 24 bits: slot << 14 | index. The slot names the process of this
 * host that handed the number out; a process that needs more numbers takes another slot. */
#pragma once
#include <stdint.h>

enum {
	NUMBER_SLOTS = 1024,
	NUMBER_INDEX_BITS = 14,
	NUMBER_INDEXES = 1 << NUMBER_INDEX_BITS, /* of one slot */
};

static inline uint32_t number_make(uint32_t slot, uint32_t index)
{
	return slot << NUMBER_INDEX_BITS | index;
}

/* Not below NUMBER_SLOTS if @number is longer than 24 bits. */
static inline uint32_t number_slot(uint32_t number)
{
	return number >> NUMBER_INDEX_BITS;
}

static inline uint32_t number_index(uint32_t number)
{
	return number & (NUMBER_INDEXES - 1);
}
