// SPDX-License-Identifier: MIT
/* Completion queues with what only mlx5 devices have (mlx5dv_create_cq(3)). */
#include <infiniband/mlx5dv.h>
#include "driver/dcq.h"
#include "hca/limits.h"
#include "mlx5/given.h"

#define MASK(name)  MLX5DV_CQ_INIT_ATTR_MASK_##name
#define KNOWN_MASKS ((uint64_t)(MASK(COMPRESSED_CQE) | MASK(FLAGS) | MASK(CQE_SIZE)))
#define VERBS_MASKS ((uint32_t)(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD))
#define VERBS_FLAGS                                                                                \
	((uint32_t)(IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN))

static bool padded(const struct mlx5dv_cq_init_attr *dv)
{
	return dv->comp_mask & MASK(FLAGS) && dv->flags & MLX5DV_CQ_INIT_ATTR_FLAGS_CQE_PAD;
}

static uint16_t size_of(const struct mlx5dv_cq_init_attr *dv)
{
	return dv->comp_mask & MASK(CQE_SIZE) ? dv->cqe_size : 0;
}

/* What is not known of the verbs' attribute is EINVAL here. */
static int check_verbs(const struct ibv_cq_init_attr_ex *attr)
{
	if (attr->comp_mask & ~VERBS_MASKS)
		return softhca_refuse(EINVAL,
				      "mlx5dv_create_cq: the verbs' comp_mask 0x%x, of which 0x%x "
				      "is not known; leave it out",
				      attr->comp_mask, attr->comp_mask & ~VERBS_MASKS);
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS && attr->flags & ~VERBS_FLAGS)
		return softhca_refuse(EINVAL,
				      "mlx5dv_create_cq: the verbs' flags 0x%x, of which 0x%x are "
				      "not known; leave them out",
				      attr->flags, attr->flags & ~VERBS_FLAGS);
	return 0;
}

static int check_size(const struct mlx5dv_cq_init_attr *dv)
{
	if (dv->comp_mask & MASK(CQE_SIZE) && dv->cqe_size != 64 && dv->cqe_size != 128)
		return softhca_refuse(EINVAL,
				      "mlx5dv_create_cq: cqe_size %u; entries have 64 or 128 B",
				      dv->cqe_size);
	if (padded(dv) && size_of(dv) != 128)
		return softhca_refuse(EINVAL,
				      "mlx5dv_create_cq: MLX5DV_CQ_INIT_ATTR_FLAGS_CQE_PAD with "
				      "cqe_size %u; entries of 128 B alone are padded",
				      size_of(dv));
	return 0;
}

static bool is_offered(uint8_t format)
{
	return format & LIMIT_CQE_FORMATS && !(format & (format - 1));
}

static int check(const struct mlx5dv_cq_init_attr *dv)
{
	if (dv->comp_mask & ~KNOWN_MASKS)
		return softhca_refuse(EINVAL,
				      "mlx5dv_create_cq: comp_mask 0x%llx, of which 0x%llx is not "
				      "known; leave it out",
				      (unsigned long long)dv->comp_mask,
				      (unsigned long long)(dv->comp_mask & ~KNOWN_MASKS));
	if (dv->comp_mask & MASK(COMPRESSED_CQE) && !is_offered(dv->cqe_comp_res_format))
		return softhca_refuse(EINVAL,
				      "mlx5dv_create_cq: cqe_comp_res_format 0x%x; use one bit of "
				      "cqe_comp_caps.supported_format (mlx5dv_query_device)",
				      dv->cqe_comp_res_format);
	if (dv->comp_mask & MASK(FLAGS) && dv->flags & ~(uint32_t)MLX5DV_CQ_INIT_ATTR_FLAGS_CQE_PAD)
		return softhca_refuse(EINVAL,
				      "mlx5dv_create_cq: flags 0x%x, of which 0x%x are not known; "
				      "leave them out",
				      dv->flags,
				      dv->flags & ~(uint32_t)MLX5DV_CQ_INIT_ATTR_FLAGS_CQE_PAD);
	return check_size(dv);
}

EXPORT struct ibv_cq_ex *mlx5dv_create_cq(struct ibv_context *context,
					  struct ibv_cq_init_attr_ex *attr,
					  struct mlx5dv_cq_init_attr *dv)
{
	static const struct mlx5dv_cq_init_attr none;
	const struct mlx5dv_cq_init_attr *with = dv ? dv : &none;
	int err = softhca_context_alive(context, "mlx5dv_create_cq");

	err = err ? err : given(attr, "mlx5dv_create_cq", "the queue's attribute");
	err = err ? err : check_verbs(attr);
	err = err ? err : check(with);
	if (err)
		return null_errno(err);
	const struct dcq_form form = { .cqe_size = size_of(with),
				       .padded = padded(with),
				       .compressed = with->comp_mask & MASK(COMPRESSED_CQE)
							     ? with->cqe_comp_res_format
							     : 0 };

	return softhca_create_cq(context, attr, &form);
}
