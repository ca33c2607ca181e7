// SPDX-License-Identifier: MIT
/* mlx5dv_wr_set_mkey_sig_block(3)'s attributes. Pure. */
#pragma once
#include <infiniband/mlx5dv.h>
#include "prm/bsf.h"

/* What sig_attr() takes, as mlx5dv_query_device() tells it. */
extern const struct mlx5dv_sig_caps sig_caps;

/* NULL, or what is wrong, for the text of a reason. */
const char *sig_attr(const struct mlx5dv_sig_block_attr *attr, struct signature *out);
