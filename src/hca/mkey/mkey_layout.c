// SPDX-License-Identifier: MIT
#include "hca/mkey/mkey_layout.h"

bool mkey_layout_seal(struct mkey_layout *l, uint64_t *len)
{
	uint64_t end = 0;

	for (uint32_t i = 0; i < l->n; i++) {
		if (__builtin_add_overflow(end, l->part[i].len, &end))
			return false;
		l->part[i].end = end;
	}
	l->period = end;
	return end && l->times && !__builtin_mul_overflow(end, l->times, len);
}

/* The first part that ends behind @off; those without bytes are none. */
static uint32_t part_at(const struct mkey_layout *l, uint64_t off)
{
	uint32_t low = 0, high = l->n - 1;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (l->part[mid].end > off)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

struct mkey_step mkey_layout_find(const struct mkey_layout *l, uint64_t off, uint64_t len)
{
	uint64_t time = off / l->period, at = off % l->period;
	const struct mkey_part *p = &l->part[part_at(l, at)];
	uint64_t left = p->end - at;

	return (struct mkey_step){ p->va + time * p->stride + (p->len - left),
				   left < len ? left : len, p->key };
}
