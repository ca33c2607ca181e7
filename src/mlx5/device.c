// SPDX-License-Identifier: MIT
/* The first question of a program. As long as the answer is no, programs use the plain verbs. */
#include <infiniband/mlx5dv.h>
#include "verbs/export.h"

EXPORT bool mlx5dv_is_supported(struct ibv_device *device)
{
	(void)device;
	return false;
}
