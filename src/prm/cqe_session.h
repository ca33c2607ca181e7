// SPDX-License-Identifier: MIT
/* Compressed completion entries. A session of n completions takes n entries of a ring: first the
 * title, an entry of format 3 that says n where others have a byte count, and whose other fields
 * all n share; then arrays of eight mini entries: a byte count each, and a hash, a checksum, or a
 * checksum and the WQE counter, which of a striding queue is the stride. The first array is entry 1
 * of the session, array k is entry 8 k. The device leaves the other entries as they were in the
 * pass before, so the consumer has to make all n its own, or invalid, before it goes on. Pure. */
#pragma once
#include "prm/cqe_ring.h"

enum {
	CQE_SESSION_MAX = 64, /* completions */
	CQE_MINIS = 8, /* in an array */
};

struct cqe_mini { /* big-endian */
	uint32_t brief; /* the hash; or the checksum, and in the second half 0 or the WQE counter */
	uint32_t byte_cnt;
};

struct cqe_session { /* completions that are not in the ring yet */
	uint8_t format; /* the one bit of enum mlx5dv_cqe_comp_res_format: what minis carry */
	bool padded; /* first halves of entries are zeroed */
	uint32_t n;
	struct cqe title; /* the first */
	struct cqe_mini mini[CQE_SESSION_MAX];
};

/* Can @c follow those of @s, or be its first? Receives without error can, whose fields are the same
 * but for the time and what a mini carries, and whose WQE is the next if a mini does not say it;
 * those of a striding queue only where it does. */
bool cqe_session_takes(const struct cqe_session *s, const struct cqe *c);
void cqe_session_add(struct cqe_session *s, const struct cqe *c);
/* Writes the completions, 1 or more, to entry @i and those behind it; the first one's op_own is
 * stored last, as by cqe_write(). A single one becomes an ordinary entry. Then @s has none. */
void cqe_session_write(struct cqe_session *s, const struct cqe_ring *r, uint32_t i);

static inline bool cqe_is_title(const struct mlx5_cqe64 *e)
{
	enum { COMPRESSED = 3 << 2 };

	return (e->op_own & COMPRESSED) == COMPRESSED;
}

/* The consumer, whose entry @i is a title: makes each entry of the session an ordinary one, as the
 * device would have written it. @format: that of the queue. */
void cqe_session_expand(const struct cqe_ring *r, uint32_t i, uint8_t format);
/* Every session in entries @ci to @pi - 1, of which @ci is in the middle of none. */
void cqe_session_expand_all(const struct cqe_ring *r, uint32_t ci, uint32_t pi, uint8_t format);
