// SPDX-License-Identifier: MIT
/* Data segments of receive WQEs. */
#pragma once
#include <infiniband/mlx5dv.h>
#include "util/be.h"

/* Writes @n SGEs at @p, which has room for @max segments. Empty SGEs are left out, since a byte
 * count of 0 means 2^31; a list shorter than @max gets an end mark. */
static inline void data_segment_list(uint8_t *p, const struct ibv_sge *sg, int n, unsigned int max)
{
	unsigned int used = 0;

	for (int i = 0; i < n; i++) {
		if (!sg[i].length)
			continue;
		put_be32(p, sg[i].length);
		put_be32(p + 4, sg[i].lkey);
		put_be64(p + 8, sg[i].addr);
		p += 16;
		used++;
	}
	if (used < max) {
		put_be32(p, 0);
		put_be32(p + 4, MLX5_INVALID_LKEY);
		put_be64(p + 8, 0);
	}
}
