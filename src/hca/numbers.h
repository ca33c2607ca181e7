// SPDX-License-Identifier: MIT
/* Numbers of objects (PDs, CQs, SRQs), unique in the process, next-fit, never 0. Lock-free, so that
 * a forked child can take numbers; those of its parent's objects stay taken. */
#pragma once
#include <stdint.h>

struct numbers {
	uint64_t *words;
	uint32_t n; /* of bits; numbers are 1..n-1 */
	uint32_t next;
};

/* A pool called @name with numbers below @count, a multiple of 64. */
#define NUMBERS(name, count)                                                                       \
	static uint64_t name##_words[(count) / 64];                                                \
	static struct numbers name = { name##_words, (count), 1 }

int numbers_take(struct numbers *p, uint32_t *out); /* ENOSPC */
void numbers_give(struct numbers *p, uint32_t number);
