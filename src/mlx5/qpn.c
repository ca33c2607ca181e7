// SPDX-License-Identifier: MIT
/* Numbers that no queue pair gets: names of connections that have none of their own. */
#include <infiniband/mlx5dv.h>
#include "mlx5/given.h"

EXPORT int mlx5dv_reserved_qpn_alloc(struct ibv_context *ctx, uint32_t *qpn)
{
	int err = softhca_context_alive(ctx, "mlx5dv_reserved_qpn_alloc");

	err = err ? err : given(qpn, "mlx5dv_reserved_qpn_alloc", "the place of the number");
	return positive_errno(err ? err : softhca_qpn_reserve(ctx, qpn));
}

EXPORT int mlx5dv_reserved_qpn_dealloc(struct ibv_context *ctx, uint32_t qpn)
{
	int err = softhca_context_alive(ctx, "mlx5dv_reserved_qpn_dealloc");

	return positive_errno(err ? err : softhca_qpn_release(ctx, qpn));
}
