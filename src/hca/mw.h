// SPDX-License-Identifier: MIT
/* Memory windows: remote rights to a part of a memory region, given and taken by work requests.
 * Every QP of its PD may use a window of type 1, which ibv_bind_mw() binds; a window of type 2B
 * belongs to the QP that bound it until that QP or its peer invalidates it. A window has no lkey.
 * Locking: @lock guards the members that bind and invalidate change. They run inside turns, so they
 * find the window in a quiesce section and must not wait for another process. So a peer's access by
 * a window is always carried out in the owner's turns (never directly, READs by value), and holds
 * the lock from the check to the end of the copy (mkey/fleeting.h): when a bind or an invalidation
 * has completed, no access by the old key is under way. It is taken before any other leaf lock. */
#pragma once
#include "hca/key_table.h"
#include "hca/mr.h"

struct mw {
	struct ibv_mw ib; /* first; ib.rkey is that of the last bind that the program posted */
	struct pd *pd;
	uint32_t epoch;
	struct spin lock;
	uint32_t rkey; /* that of the last bind or invalidation that was carried out */
	struct mr *mr; /* region that it is bound to; NULL: none */
	uint32_t qpn; /* QP that has bound it */
	bool dead; /* being deallocated */
};

static inline struct mw *to_mw(struct ibv_mw *ib)
{
	return (struct mw *)ib;
}

int mw_create(struct pd *pd, enum ibv_mw_type type, struct mw **out); /* EINVAL: unknown type */
int mw_destroy(struct mw *mw); /* unbinds */

/* The contents of a bind WQE. */
struct mw_bind {
	uint32_t window; /* any rkey of the window: its index counts */
	uint32_t rkey; /* the new one: its low 8 bits are taken, the others are the window's */
	uint32_t lkey; /* of the region */
	uint32_t access; /* IBV_ACCESS_REMOTE_*, IBV_ACCESS_ZERO_BASED */
	uint64_t addr, len; /* as the region's keys name it; len 0: unbind (type 1) */
	uint32_t pdn, qpn; /* of the QP */
};

/* Both return NULL, or what is wrong, for the text of a reason. Inside a quiesce section. */
const char *mw_bind(struct key_table *keys, const struct mw_bind *b);
const char *mw_invalidate(struct key_table *keys, uint32_t rkey, uint32_t pdn, uint32_t qpn);
