// SPDX-License-Identifier: MIT
/* Indirect mkeys (mlx5dv_create_mkey()): a program makes them, and UMR work requests set them up,
 * change and free them, inside turns. An mkey that is free allows no access.
 * Locking: @lock guards the members behind it. As with memory windows, a peer's access is carried
 * out in the owner's turns and holds the lock from the check to the end of the copy (fleeting.h).
 * So when a UMR or an invalidation has completed, no access by the former key or layout is under
 * way, except one by another mkey of which this one is a part: that access holds the other mkey's
 * lock. Lookups of lkeys take no lock: they see one whole state of the key's entry, and a layout
 * that was replaced is freed when no section of another thread can see it any more. */
#pragma once
#include <infiniband/mlx5dv.h>
#include "hca/key_table.h"
#include "hca/mkey/mkey_layout.h"
#include "hca/mkey/signature.h"
#include "hca/pd.h"
#include "prm/umr.h"
#include "util/quiesce.h"
#include "util/spin.h"

struct mkey_state {
	uint32_t key;
	unsigned int access; /* IBV_ACCESS_* */
	uint64_t start, len; /* first address as work requests name it; bytes of memory */
	bool free; /* no access is allowed */
	bool is_signed;
	struct signature sig; /* if it is */
	struct mkey_layout *layout; /* NULL: none yet */
	uint64_t covers; /* bytes of the layout */
};

/* What transfers have found of the mkey's signature */
struct mkey_found {
	struct spin lock; /* a leaf; guards the rest */
	bool disarmed; /* an error was recorded, and no other is until a UMR arms it again */
	struct sig_error first; /* the error that mlx5dv_mkey_check() has not told yet */
	struct sig_rest rest; /* first bytes of a field whose other bytes are still to come */
};

struct mkey {
	struct mlx5dv_mkey dv; /* first */
	struct pd *pd;
	uint32_t epoch;
	uint32_t flags; /* MLX5DV_MKEY_INIT_ATTR_FLAGS_* */
	uint16_t max_entries; /* of a list, its head included */
	struct spin lock;
	struct mkey_state now;
	bool dead; /* being destroyed */
	struct mkey_layout *old; /* layouts that were replaced; freed when @grace has passed */
	struct mkey_layout *newly; /* those that were replaced after @grace began */
	struct quiesce_grace grace;
	struct mkey_found found;
};

static inline struct mkey *to_mkey(struct mlx5dv_mkey *dv)
{
	return (struct mkey *)dv;
}

/* Writes the granted max_entries back. EOPNOTSUPP: flags that do not work. */
int mkey_create(struct pd *pd, struct mlx5dv_mkey_init_attr *attr, struct mkey **out);
int mkey_destroy(struct mkey *m);

/* mlx5dv_mkey_check(3): tells the first error since the last call and forgets it. EINVAL: an mkey
 * without BLOCK_SIGNATURE. */
int mkey_check(struct mkey *m, struct mlx5dv_mkey_err *out);
/* Records that a transfer has found the error @e. False: an earlier one is recorded. Any thread. */
bool mkey_found(struct mkey *m, const struct sig_error *e);
/* Returns the kept part of a field that has come in part, and keeps @next in its place (NULL: keeps
 * the old one). Messages that arrive through one mkey at the same time overwrite each other's. */
struct sig_rest mkey_rest(struct mkey *m, const struct sig_rest *next);

/* Both return NULL, or what is wrong, for the text of a reason. Inside a turn. @remote: a peer asks
 * for it. */
const char *mkey_umr(struct key_table *keys, const struct umr *u, uint32_t pdn);
const char *mkey_invalidate(struct key_table *keys, uint32_t key, uint32_t pdn, bool remote);
