// SPDX-License-Identifier: MIT
/* Gather and scatter over pieces of this process's memory, by guarded copies (util/guard.h): 0 or
 * EFAULT. @skip: bytes at the start of the pieces to leave out. The last cache line of the bytes
 * becomes visible last. */
#pragma once
#include <stddef.h>
#include <string.h>
#include "link/seg.h"

int copy_gather(void *dst, const struct piece *pieces, unsigned int n, uint64_t skip, size_t len);
int copy_scatter(const struct piece *pieces, unsigned int n, uint64_t skip, const void *src,
		 size_t len);
/* Both sides are pieces of this process (loopback). */
int copy_pieces(const struct piece *dst, unsigned int ndst, const struct piece *src,
		unsigned int nsrc, uint64_t src_skip);

/* The whole payload of @s, which lies in its pieces or in its bytes. */
static inline int copy_payload(void *dst, const struct seg *s)
{
	if (!s->len)
		return 0;
	if (s->npieces)
		return copy_gather(dst, s->pieces, s->npieces, 0, s->len);
	memcpy(dst, s->data, s->len);
	return 0;
}
