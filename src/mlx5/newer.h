// SPDX-License-Identifier: MIT
/* Calls that headers newer than rdma-core 44 declare. Where the installed header declares them too,
 * the compiler compares. */
#pragma once
#include <infiniband/mlx5dv.h>

struct ibv_mr *mlx5dv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
				    uint64_t iova, int fd, int access, int mlx5_access);

enum { REG_DATA_DIRECT = 1 << 0 }; /* MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT */
#ifdef MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT
_Static_assert((int)MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT == (int)REG_DATA_DIRECT,
	       "value of the installed header");
#endif
