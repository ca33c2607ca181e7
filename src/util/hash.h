// SPDX-License-Identifier: MIT
/* Map from a 64-bit number to a pointer: open addressing, grows at three quarters full. All zero
 * is an empty map, without an allocation until the first hash_put(). Values are never NULL. Not
 * thread safe: the caller's lock guards it. */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct hash_slot {
	uint64_t key;
	void *val; /* NULL: the slot is free */
};

struct hash {
	struct hash_slot *slots;
	size_t size; /* 0 or a power of two */
	size_t count;
};

void hash_init(struct hash *h);
void hash_fini(struct hash *h); /* frees the map, not the values */
int hash_put(struct hash *h, uint64_t key, void *val); /* EEXIST, ENOMEM, EINVAL for NULL */
void *hash_get(const struct hash *h, uint64_t key); /* NULL when absent */
void *hash_del(struct hash *h, uint64_t key); /* returns what was there, or NULL */

/* Walks the map: *@pos starts as 0; NULL at the end. No put or del in between. */
void *hash_next(const struct hash *h, size_t *pos);
