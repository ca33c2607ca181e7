// SPDX-License-Identifier: MIT
/* Work queues with what only mlx5 devices have (mlx5dv_create_wq(3)). */
#include <infiniband/mlx5dv.h>
#include "mlx5/given.h"

static int check(const struct mlx5dv_wq_init_attr *dv)
{
	uint64_t unknown = dv->comp_mask & ~(uint64_t)MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ;

	if (unknown)
		return softhca_refuse(EINVAL,
				      "mlx5dv_create_wq: comp_mask 0x%llx, of which 0x%llx is not "
				      "known; leave it out",
				      (unsigned long long)dv->comp_mask,
				      (unsigned long long)unknown);
	if (dv->comp_mask)
		return softhca_refuse(EINVAL, "mlx5dv_create_wq: receives of several strides, and "
					      "this device has none (striding_rq_caps is 0); leave "
					      "out MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ");
	return 0;
}

EXPORT struct ibv_wq *mlx5dv_create_wq(struct ibv_context *context, struct ibv_wq_init_attr *attr,
				       struct mlx5dv_wq_init_attr *dv)
{
	int err = given(context, "mlx5dv_create_wq", "the context");

	err = err ? err : given(attr, "mlx5dv_create_wq", "the queue's attribute");
	err = err || !dv ? err : check(dv);
	return err ? null_errno(err) : ibv_create_wq(context, attr);
}
