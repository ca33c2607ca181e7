// SPDX-License-Identifier: MIT
/* Random numbers from the kernel that cannot be guessed: cookies, nonces, proofs. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/random.h>

static inline void secret_fill(void *p, size_t n) /* @n: 256 at most, which come whole */
{
	while (getrandom(p, n, 0) != (ssize_t)n)
		;
}

static inline uint64_t secret_number(void) /* not 0 */
{
	uint64_t secret;

	do
		secret_fill(&secret, sizeof(secret));
	while (!secret);
	return secret;
}
