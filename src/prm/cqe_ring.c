// SPDX-License-Identifier: MIT
#include "prm/cqe_ring.h"
#include <string.h>

#define OWNER 1

struct mlx5_cqe64 *cqe_ring_at(const struct cqe_ring *r, uint32_t i)
{
	uint8_t *end = r->buf + (size_t)((i & (r->cnt - 1)) + 1) * r->size;

	return (struct mlx5_cqe64 *)(end - sizeof(struct mlx5_cqe64));
}

static void put(const struct cqe_ring *r, uint32_t to, const struct mlx5_cqe64 *entry)
{
	struct mlx5_cqe64 *at = cqe_ring_at(r, to);

	memcpy(at, entry, sizeof(*at));
	at->op_own = (at->op_own & ~OWNER) | !!(to & r->cnt);
}

void cqe_ring_move(const struct cqe_ring *r, uint32_t from, uint32_t to)
{
	put(r, to, cqe_ring_at(r, from));
}

void cqe_ring_copy(const struct cqe_ring *from, const struct cqe_ring *to, uint32_t ci, uint32_t pi)
{
	for (uint32_t i = ci; i != pi; i++)
		put(to, i, cqe_ring_at(from, i));
}
