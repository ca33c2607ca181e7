// SPDX-License-Identifier: MIT
/* Memory windows: remote rights to a part of a memory region, given and taken by work requests.
 * Type 1 is open to every QP of its PD and changes by ibv_bind_mw(); type 2B belongs to the QP that
 * bound it and ends by invalidation, of that QP or by its peer. A window has no lkey.
 * Locking: @lock guards what bind and invalidate change. They run inside turns, so they find the
 * window in a quiesce section and wait for no other process: what a peer may do by a window always
 * runs in the owner's turns (never directly, READs by value), which hold the lock from the check to
 * the end of the copy (mw_enter()). So nobody touches a window's memory by an old key when its bind
 * or invalidation has completed. Of the leaf locks it is the outermost. */
#pragma once
#include "hca/key_table.h"
#include "hca/mr.h"

struct mw {
	struct ibv_mw ib; /* first; ib.rkey is the program's view: the last bind that was posted */
	struct pd *pd;
	uint32_t epoch;
	struct spin lock;
	uint32_t rkey; /* as the device sees it */
	struct mr *mr; /* bound to; NULL: not bound */
	uint32_t qpn; /* which QP has bound it */
	bool dead; /* being deallocated */
};

static inline struct mw *to_mw(struct ibv_mw *ib)
{
	return (struct mw *)ib;
}

int mw_create(struct pd *pd, enum ibv_mw_type type, struct mw **out); /* EINVAL: unknown type */
int mw_destroy(struct mw *mw); /* unbinds */

/* What a bind WQE says. */
struct mw_bind {
	uint32_t window; /* any rkey of the window: its index counts */
	uint32_t rkey; /* from now on */
	uint32_t lkey; /* of the region */
	uint32_t access; /* IBV_ACCESS_REMOTE_*, IBV_ACCESS_ZERO_BASED */
	uint64_t addr, len; /* as the region's keys name it; len 0: unbind (type 1) */
	uint32_t pdn, qpn; /* of the QP */
};

/* Both: NULL, or what is wrong, for a reason's text. Inside a quiesce section. */
const char *mw_bind(struct key_table *keys, const struct mw_bind *b);
const char *mw_invalidate(struct key_table *keys, uint32_t rkey, uint32_t pdn, uint32_t qpn);
/* Before a key that a peer names is checked and used, until mw_leave(). NULL: it is no window's.
 * Inside a quiesce section. */
struct mw *mw_enter(struct key_table *keys, uint32_t rkey);
void mw_leave(struct mw *mw); /* NULL is fine */
