// SPDX-License-Identifier: MIT
/* ibv_advise_mr(): brings pages of on-demand regions in before they are used. With
 * IBV_ADVISE_MR_FLAG_FLUSH the call does that before it returns, and fails where a page cannot be
 * had; without it the advice is a hint. Errors, in the order of the checks:
 * EOPNOTSUPP: unknown advice; EINVAL: flags, no SGE, a window's key, a region that is not
 * on-demand; ENOENT: no such key; EPERM: the region is of another PD, or lacks the right to be
 * written; EFAULT: outside the region, or not mapped. */
#pragma once
#include "hca/mr.h"

int mr_advise(struct pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
	      const struct ibv_sge *sg, uint32_t n);
