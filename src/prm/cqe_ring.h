// SPDX-License-Identifier: MIT
/* Rings of completion entries: where entry number i stands, and moving entries that are not read
 * yet. Numbers run on over the passes; an entry's owner bit is the parity of its pass, so an entry
 * that moves gets the bit of its new place. Pure: the caller owns both places. */
#pragma once
#include "prm/cqe.h"

struct cqe_ring {
	uint8_t *buf;
	uint32_t cnt; /* entries; a power of two */
	uint32_t size; /* bytes of an entry, whose last 64 are the cqe64 */
};

/* The cqe64 of entry @i. */
struct mlx5_cqe64 *cqe_ring_at(const struct cqe_ring *r, uint32_t i);
/* Entry @from becomes entry @to. */
void cqe_ring_move(const struct cqe_ring *r, uint32_t from, uint32_t to);
/* Copies entries @ci to @pi - 1 to the same numbers of another ring; none is compressed. */
void cqe_ring_copy(const struct cqe_ring *from, const struct cqe_ring *to, uint32_t ci,
		   uint32_t pi);
