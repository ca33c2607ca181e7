// SPDX-License-Identifier: MIT
/* The device's clock, for programs that convert timestamps themselves (mlx5dv_ts_to_ns()). */
#include <infiniband/mlx5dv.h>
#include "mlx5/given.h"

#define MASK ((1ULL << 63) - 1) /* completion_timestamp_mask */

/* A tick is a nanosecond, so nothing is lost by conversion. */
EXPORT int mlx5dv_get_clock_info(struct ibv_context *context, struct mlx5dv_clock_info *info)
{
	int err = softhca_context_alive(context, "mlx5dv_get_clock_info");

	err = err ? err : given(info, "mlx5dv_get_clock_info", "the clock's structure");
	if (err)
		return positive_errno(err);
	*info = (struct mlx5dv_clock_info){ .mult = 1, .mask = MASK };
	softhca_clock(&info->last_cycles, &info->nsec);
	return 0;
}
