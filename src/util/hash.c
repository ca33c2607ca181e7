// SPDX-License-Identifier: MIT
#include <errno.h>
#include <stdlib.h>
#include "util/hash.h"

enum { MIN_SIZE = 16 };

/* Where the search for @key begins: the upper half of a product mixes all bits of the key. */
static size_t home(const struct hash *h, uint64_t key)
{
	key = (key ^ (key >> 32)) * UINT64_C(0x9e3779b97f4a7c15);
	return (size_t)(key >> 32) & (h->size - 1);
}

/* The slot that has @key, or the free one where it would go. The map is never full. */
static struct hash_slot *find(const struct hash *h, uint64_t key)
{
	size_t i = home(h, key);

	while (h->slots[i].val && h->slots[i].key != key)
		i = (i + 1) & (h->size - 1);
	return &h->slots[i];
}

static int grow(struct hash *h)
{
	struct hash old = *h;

	h->size = old.size ? old.size * 2 : MIN_SIZE;
	h->slots = calloc(h->size, sizeof(*h->slots));
	if (!h->slots) {
		*h = old;
		return ENOMEM;
	}
	for (size_t i = 0; i < old.size; i++)
		if (old.slots[i].val)
			*find(h, old.slots[i].key) = old.slots[i];
	free(old.slots);
	return 0;
}

void hash_init(struct hash *h)
{
	*h = (struct hash){ 0 };
}

void hash_fini(struct hash *h)
{
	free(h->slots);
	hash_init(h);
}

int hash_put(struct hash *h, uint64_t key, void *val)
{
	struct hash_slot *s = h->size ? find(h, key) : NULL;
	int err;

	if (!val)
		return EINVAL;
	if (s && s->val)
		return EEXIST;
	if (h->count + 1 > h->size / 4 * 3) {
		err = grow(h);
		if (err)
			return err;
		s = find(h, key);
	}
	*s = (struct hash_slot){ .key = key, .val = val };
	h->count++;
	return 0;
}

void *hash_get(const struct hash *h, uint64_t key)
{
	return h->size ? find(h, key)->val : NULL;
}

/* Fills the hole at @i from the cluster behind it, so that no search stops too early. */
static void close_hole(struct hash *h, size_t i)
{
	size_t mask = h->size - 1;

	for (size_t j = (i + 1) & mask; h->slots[j].val; j = (j + 1) & mask) {
		size_t way = (j - home(h, h->slots[j].key)) & mask; /* how far from home it is */

		if (way < ((j - i) & mask))
			continue;
		h->slots[i] = h->slots[j];
		i = j;
	}
	h->slots[i] = (struct hash_slot){ 0 };
}

void *hash_del(struct hash *h, uint64_t key)
{
	struct hash_slot *s = h->size ? find(h, key) : NULL;
	void *val = s ? s->val : NULL;

	if (!val)
		return NULL;
	close_hole(h, (size_t)(s - h->slots));
	h->count--;
	return val;
}

void *hash_next(const struct hash *h, size_t *pos)
{
	while (*pos < h->size) {
		void *val = h->slots[(*pos)++].val;

		if (val)
			return val;
	}
	return NULL;
}
