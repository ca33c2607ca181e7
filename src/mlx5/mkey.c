// SPDX-License-Identifier: MIT
/* Mkeys (mlx5dv_create_mkey(3)); work requests set them up (mlx5dv_wr_post(3)). */
#include <infiniband/mlx5dv.h>
#include "verbs/export.h"

EXPORT struct mlx5dv_mkey *mlx5dv_create_mkey(struct mlx5dv_mkey_init_attr *attr)
{
	if (!attr || !attr->pd)
		return null_errno(softhca_refuse(
			EINVAL, "mlx5dv_create_mkey: %s is NULL; an mkey belongs to a PD",
			attr ? "pd" : "mkey_init_attr"));
	return softhca_create_mkey(attr);
}

EXPORT int mlx5dv_destroy_mkey(struct mlx5dv_mkey *mkey)
{
	if (!mkey)
		return positive_errno(softhca_refuse(EINVAL, "mlx5dv_destroy_mkey: mkey is NULL"));
	return softhca_destroy_mkey(mkey);
}
