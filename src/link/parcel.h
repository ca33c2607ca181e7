// SPDX-License-Identifier: MIT
/* A segment that outlives its call: a heap copy of the segment, of its payload when that stands in
 * the link's buffer, and with a reference on its sender. For notes, the loopback queue, the fault
 * link. */
#pragma once
#include "link/link.h"

struct parcel {
	struct parcel *next; /* the holder's */
	uint64_t at; /* the holder's: a time */
	struct seg seg; /* data, pieces, av, grh point into this allocation */
};

/* @by_value: pieces of this process are gathered into data now (EFAULT when one is not mapped). */
int parcel_make(const struct seg *s, bool by_value, struct parcel **out);
void parcel_free(struct parcel *p);
