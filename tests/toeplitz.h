// SPDX-License-Identifier: MIT
/* The hash by which packets are spread over receive queues, as its specification defines it: each
 * bit of the input that is set adds the 32 bits of the key that begin there. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* @key has 4 bytes more than @in, which has @n. */
static inline uint32_t toeplitz(const uint8_t *key, const uint8_t *in, size_t n)
{
	uint32_t hash = 0;

	for (size_t bit = 0; bit < 8 * n; bit++)
		for (size_t i = 0; (in[bit / 8] >> (7 - bit % 8) & 1) && i < 32; i++)
			hash ^= (uint32_t)(key[(bit + i) / 8] >> (7 - (bit + i) % 8) & 1)
				<< (31 - i);
	return hash;
}
