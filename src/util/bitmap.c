// SPDX-License-Identifier: MIT
#include <errno.h>
#include <stdlib.h>
#include "util/bitmap.h"

static uint32_t word_count(const struct bitmap *b)
{
	return (uint32_t)(((uint64_t)b->n + 63) / 64);
}

static bool test(const struct bitmap *b, uint32_t i)
{
	return b->words[i / 64] >> (i % 64) & 1;
}

static void set(struct bitmap *b, uint32_t i)
{
	b->words[i / 64] |= UINT64_C(1) << (i % 64);
	b->used++;
}

int bitmap_init(struct bitmap *b, uint32_t first, uint32_t n)
{
	if (!n || (uint64_t)first + n > UINT64_C(1) << 32)
		return EINVAL;
	*b = (struct bitmap){ .first = first, .n = n };
	b->words = calloc(word_count(b), sizeof(*b->words));
	return b->words ? 0 : ENOMEM;
}

void bitmap_begin_at(struct bitmap *b, uint32_t number)
{
	b->next = number - b->first < b->n ? number - b->first : 0;
}

void bitmap_fini(struct bitmap *b)
{
	free(b->words);
	*b = (struct bitmap){ 0 };
}

/* The first free number in [from, to), relative; @to when there is none. */
static uint32_t find_free(const struct bitmap *b, uint32_t from, uint32_t to)
{
	uint64_t i = from;

	while (i < to) {
		uint64_t free_bits = ~b->words[i / 64] >> (i % 64);

		if (free_bits) {
			i += (uint64_t)__builtin_ctzll(free_bits);
			break;
		}
		i = (i | 63) + 1;
	}
	return i < to ? (uint32_t)i : to;
}

int bitmap_alloc(struct bitmap *b, uint32_t *out)
{
	uint32_t i;

	if (b->used == b->n)
		return ENOSPC;
	i = find_free(b, b->next, b->n);
	if (i == b->n)
		i = find_free(b, 0, b->next);
	set(b, i);
	b->next = i + 1 == b->n ? 0 : i + 1;
	*out = b->first + i;
	return 0;
}

int bitmap_take(struct bitmap *b, uint32_t number)
{
	uint32_t i = number - b->first;

	if (i >= b->n)
		return EINVAL;
	if (test(b, i))
		return EBUSY;
	set(b, i);
	return 0;
}

bool bitmap_taken(const struct bitmap *b, uint32_t number)
{
	uint32_t i = number - b->first;

	return i < b->n && test(b, i);
}

void bitmap_free(struct bitmap *b, uint32_t number)
{
	uint32_t i = number - b->first;

	if (!bitmap_taken(b, number))
		return;
	b->words[i / 64] &= ~(UINT64_C(1) << (i % 64));
	b->used--;
}
