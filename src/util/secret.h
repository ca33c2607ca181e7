// SPDX-License-Identifier: MIT
/* Numbers that nobody may guess, from the kernel: cookies, nonces, proofs, variants of keys. A
 * filter of system calls that refuses getrandom() leaves /dev/urandom. Where that is missing as
 * well there are no such numbers, and what needs one is refused. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* @n: at most 256 bytes. Otherwise the errno of getrandom(). */
int secret_fill(void *p, size_t n);
int secret_number(uint64_t *out); /* not 0 */
