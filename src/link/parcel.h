// SPDX-License-Identifier: MIT
/* A segment that is kept beyond the call that brought it: a copy on the heap, with its payload if
 * that stands in the link's buffer, and with a reference on its sender. QPs that are busy, the
 * loopback queue and the fault link keep segments in parcels. */
#pragma once
#include "link/link.h"
#include "util/list.h"

struct parcel {
	union { /* for the owner's list, of one direction or of two */
		struct parcel *next;
		struct list node;
	};
	uint64_t at; /* ns: for the owner's use */
	struct seg seg; /* data, pieces, av, grh point into this allocation */
};

/* ENOMEM. @by_value: pieces of this process are gathered into data now; EFAULT: one is not
 * mapped. */
int parcel_make(const struct seg *s, bool by_value, struct parcel **out);
void parcel_free(struct parcel *p);
