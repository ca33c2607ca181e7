// SPDX-License-Identifier: MIT
/* Pseudo-random numbers that a seed reproduces on every machine, for seeded tests and the fault
 * link: xoshiro256** seeded by splitmix64. Never for secrets. Not thread safe: each user has a
 * state of its own. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct rand {
	uint64_t s[4];
};

/* splitmix64: the next number of a sequence whose state is *@x; also mixes a number by itself. */
static inline uint64_t rand_mix(uint64_t *x)
{
	uint64_t z = *x += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static inline void rand_init(struct rand *r, uint64_t seed)
{
	for (int i = 0; i < 4; i++)
		r->s[i] = rand_mix(&seed);
}

static inline uint64_t rand_rotl(uint64_t x, int k)
{
	return x << k | x >> (64 - k);
}

static inline uint64_t rand_u64(struct rand *r)
{
	uint64_t *s = r->s, out = rand_rotl(s[1] * 5, 7) * 9, t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rand_rotl(s[3], 45);
	return out;
}

/* Evenly from [0, n); 0 when @n is 0. */
static inline uint64_t rand_below(struct rand *r, uint64_t n)
{
	uint64_t x, skip = n ? -n % n : 0; /* 2^64 mod n: these would make small results likelier */

	do
		x = rand_u64(r);
	while (x < skip);
	return n ? x % n : 0;
}

/* True with probability @p: never at 0, always at 1. */
static inline bool rand_chance(struct rand *r, double p)
{
	return (double)(rand_u64(r) >> 11) * 0x1p-53 < p;
}
