// SPDX-License-Identifier: MIT
/* Memory regions: an address range, its rights, its key (lkey == rkey, as on mlx5).
 * Lifetime: published by mr_create()'s last step; mr_destroy() and mr_rereg() return when nobody in
 * this process or a peer touches the old range any more (quiesce, then the key table's hook).
 * Memory: unmapped, or read-only where the rights need writing, is refused with EFAULT as a kernel
 * would; pages are populated as pinning would do. The MR follows the address space afterwards
 * (ODP's semantics, M9). */
#pragma once
#include "hca/pd.h"

struct mr {
	struct ibv_mr ib; /* first */
	struct pd *pd;
	uint32_t epoch;
	uint64_t iova;
	unsigned int access;
};

struct mr_attr {
	void *addr;
	uint64_t len; /* bytes */
	uint64_t iova;
	unsigned int access; /* IBV_ACCESS_*; optional ones (bits 20..29) are taken and ignored */
};

int mr_create(struct pd *pd, const struct mr_attr *attr, struct mr **out);
int mr_destroy(struct mr *mr);
/* @flags: IBV_REREG_MR_*. Only the members that @flags names are looked at (pd may be garbage).
 * Returns 0, or an IBV_REREG_MR_ERR_* code with errno set; the key stays. */
int mr_rereg(struct mr *mr, int flags, struct pd *pd, const struct mr_attr *attr);
