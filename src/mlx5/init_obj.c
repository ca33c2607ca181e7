// SPDX-License-Identifier: MIT
/* What objects consist of (mlx5dv_init_obj(3)). */
#include <infiniband/mlx5dv.h>
#include "mlx5/given.h"

EXPORT int mlx5dv_init_obj(struct mlx5dv_obj *obj, uint64_t obj_type)
{
	int err = given(obj, "mlx5dv_init_obj", "obj");

	return positive_errno(err ? err : softhca_init_obj(obj, obj_type));
}

/* The form of 2017, bound by programs that were built then: cq_uar is where the address of the
 * doorbell page stands. */
EXPORT int old_init_obj(struct mlx5dv_obj *obj, uint64_t obj_type);
EXPORT int old_init_obj(struct mlx5dv_obj *obj, uint64_t obj_type)
{
	static void *page; /* the same for all queues */
	int err = mlx5dv_init_obj(obj, obj_type);

	if (err || !(obj_type & MLX5DV_OBJ_CQ))
		return err;
	page = obj->cq.out->cq_uar;
	obj->cq.out->cq_uar = &page;
	return 0;
}
__asm__(".symver old_init_obj, mlx5dv_init_obj@MLX5_1.0");
