// SPDX-License-Identifier: MIT
/* Numbers out of [first, first + n). bitmap_alloc() goes round (next fit), so a freed number is
 * handed out again as late as possible, and for a long time a stale number names no new object. Not
 * thread safe: the caller's lock guards it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct bitmap {
	uint64_t *words;
	uint32_t first, n;
	uint32_t next; /* where the search begins, relative to first */
	uint32_t used;
};

int bitmap_init(struct bitmap *b, uint32_t first, uint32_t n); /* EINVAL: empty or over 2^32 */
void bitmap_begin_at(struct bitmap *b, uint32_t number); /* the next search begins there */
void bitmap_fini(struct bitmap *b); /* fine on an all-zero or finished one */
int bitmap_alloc(struct bitmap *b, uint32_t *out); /* ENOSPC when all are taken */
int bitmap_take(struct bitmap *b, uint32_t number); /* EBUSY: taken; EINVAL: outside the range */
void bitmap_free(struct bitmap *b, uint32_t number); /* one that is not taken is ignored */
bool bitmap_taken(const struct bitmap *b, uint32_t number);

/* How many are taken. */
static inline uint32_t bitmap_count(const struct bitmap *b)
{
	return b->used;
}
