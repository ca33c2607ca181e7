// SPDX-License-Identifier: MIT
/* Mkeys (mlx5dv_create_mkey(3)); work requests set them up (mlx5dv_wr_post(3)). */
#include <infiniband/mlx5dv.h>
#include <string.h>
#include "mlx5/given.h"

EXPORT struct mlx5dv_mkey *mlx5dv_create_mkey(struct mlx5dv_mkey_init_attr *attr)
{
	if (!attr || !attr->pd)
		return null_errno(softhca_refuse(
			EINVAL, "mlx5dv_create_mkey: %s is NULL; an mkey belongs to a PD",
			attr ? "pd" : "mkey_init_attr"));
	return softhca_create_mkey(attr);
}

/* @size: of the caller's struct, which may be older or newer than ours. */
EXPORT int _mlx5dv_mkey_check(struct mlx5dv_mkey *mkey, struct mlx5dv_mkey_err *err_info,
			      size_t size)
{
	struct mlx5dv_mkey_err found;
	int err = given(mkey, "mlx5dv_mkey_check", "the mkey");

	err = err ? err : given(err_info, "mlx5dv_mkey_check", "err_info");
	err = err ? err : softhca_mkey_check(mkey, &found);
	if (!err)
		memcpy(err_info, &found, size < sizeof(found) ? size : sizeof(found));
	return positive_errno(err);
}

EXPORT int mlx5dv_destroy_mkey(struct mlx5dv_mkey *mkey)
{
	if (!mkey)
		return positive_errno(softhca_refuse(EINVAL,
						     "mlx5dv_destroy_mkey: mkey is NULL; pass what "
						     "mlx5dv_create_mkey() returned"));
	return softhca_destroy_mkey(mkey);
}
