// SPDX-License-Identifier: MIT
/* How often something that strangers cause is done: so many times in each second of the clock. Any
 * thread; two that meet at the end of a second may take one more. */
#pragma once
#include "util/barrier.h"
#include "util/clock.h"

struct allowance { /* all zero: nothing is taken; atomic */
	uint64_t second, taken;
};

static inline bool allowance_take(struct allowance *a, uint64_t a_second)
{
	uint64_t now = clock_now() / 1000000000;

	if (xchg_acq_rel(&a->second, now) != now)
		store_relaxed(&a->taken, 0);
	return fetch_add_relaxed(&a->taken, 1) < a_second;
}
