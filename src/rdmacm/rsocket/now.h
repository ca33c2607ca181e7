// SPDX-License-Identifier: MIT
/* The time that waits of a socket are measured by. */
#pragma once
#include <stdint.h>
#include <time.h>

static inline uint64_t now_ns(void) /* of CLOCK_MONOTONIC */
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}
