// SPDX-License-Identifier: MIT
/* Memory regions by flags of mlx5's own. */
#include "mlx5/newer.h"
#include "mlx5/given.h"

/* gate: parameters: those of the public call */
EXPORT struct ibv_mr *mlx5dv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
					   uint64_t iova, int fd, int access, int mlx5_access)
{
	static const char call[] = "mlx5dv_reg_dmabuf_mr";
	int err = given(pd, call, "the PD");

	if (!err && (mlx5_access & ~REG_DATA_DIRECT))
		err = softhca_refuse(EOPNOTSUPP,
				     "%s: mlx5_access 0x%x has unknown bits; the one that there is "
				     "is MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT (0x%x)",
				     call, (unsigned int)mlx5_access, REG_DATA_DIRECT);
	else if (!err && mlx5_access)
		err = softhca_refuse(EOPNOTSUPP,
				     "%s: MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT: no data direct "
				     "device is beside this one; give mlx5_access 0",
				     call);
	return err ? null_errno(err) : ibv_reg_dmabuf_mr(pd, offset, length, iova, fd, access);
}
