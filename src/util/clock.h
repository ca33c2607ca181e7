// SPDX-License-Identifier: MIT
/* Time in ns on the scale of CLOCK_MONOTONIC, the same for every process of the host. Where the CPU
 * counts at a constant rate (invariant TSC) it is read without a call into the kernel's clock code
 * and tied to CLOCK_MONOTONIC again at least every second of use; elsewhere it is that clock.
 * Never goes back within a thread; between threads it may differ by less than a microsecond, so
 * take care with differences of times from two threads. Thread safe; works in a forked child. */
#pragma once
#include <stdint.h>

uint64_t clock_now(void);

/* ns since @since; 0 if that is later than @now: another thread, or a later step of the same turn,
 * has read the clock for it. */
static inline uint64_t clock_elapsed(uint64_t since, uint64_t now)
{
	return now > since ? now - since : 0;
}

/* The HCA's free running counter (hca_core_clock 1 GHz: its unit is the ns), which completion
 * timestamps and ibv_query_rt_values_ex() show. */
static inline uint64_t clock_raw(void)
{
	return clock_now();
}

/* CLOCK_REALTIME minus clock_raw(), in ns, as it stands now: the wall clock may be set. */
uint64_t clock_wall_offset(void);
