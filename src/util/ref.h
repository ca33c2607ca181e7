// SPDX-License-Identifier: MIT
/* Reference count. The caller to which ref_put() returns true has given the last reference back,
 * and frees the object. */
#pragma once
#include "util/barrier.h"

struct ref {
	uint32_t count;
};

static inline void ref_init(struct ref *r)
{
	store_relaxed(&r->count, 1);
}

/* The caller has a reference, or holds a lock under which the count is not 0. */
static inline void ref_get(struct ref *r)
{
	fetch_add_relaxed(&r->count, 1);
}

/* For a table that has no references on its objects. False: the object is about to be freed. */
static inline bool ref_get_unless_zero(struct ref *r)
{
	uint32_t n = load_relaxed(&r->count);

	while (n)
		if (cas_acq_rel(&r->count, &n, n + 1))
			return true;
	return false;
}

/* True for the last reference. Every put releases, the last acquires: its caller sees what all
 * callers wrote before their puts. */
static inline bool ref_put(struct ref *r)
{
	return fetch_sub_acq_rel(&r->count, 1) == 1;
}

static inline uint32_t ref_count(const struct ref *r)
{
	return load_relaxed(&r->count);
}
