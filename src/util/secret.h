// SPDX-License-Identifier: MIT
/* Numbers that no other process can guess, from the kernel: cookies, nonces, proofs, variants of
 * keys. Where a filter of system calls refuses getrandom() they come from /dev/urandom. Where that
 * is missing as well there are none, and calls that need one fail. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* @n: at most 256 bytes. Otherwise the errno of getrandom(). */
int secret_fill(void *p, size_t n);
int secret_number(uint64_t *out); /* not 0 */
