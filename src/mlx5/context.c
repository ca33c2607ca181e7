// SPDX-License-Identifier: MIT
/* Open devices: opening one by mlx5's attributes, what applies to all of its objects, its port. */
#include <infiniband/mlx5dv.h>
#include <string.h>
#include "mlx5/given.h"

static int check_open(const struct mlx5dv_context_attr *attr)
{
	uint32_t unknown = attr->flags & ~(uint32_t)MLX5DV_CONTEXT_FLAGS_DEVX;

	if (attr->comp_mask)
		return softhca_refuse(EINVAL,
				      "mlx5dv_open_device: comp_mask 0x%llx; there is nothing that "
				      "it could name, so leave it 0",
				      (unsigned long long)attr->comp_mask);
	if (unknown)
		return softhca_refuse(EINVAL,
				      "mlx5dv_open_device: flags 0x%x, of which 0x%x are not "
				      "known; leave them out",
				      attr->flags, unknown);
	/* DEVX, device commands: without a reason, since UCX looks whether it may */
	return attr->flags ? EOPNOTSUPP : 0;
}

EXPORT struct ibv_context *mlx5dv_open_device(struct ibv_device *device,
					      struct mlx5dv_context_attr *attr)
{
	int err = given(device, "mlx5dv_open_device", "the device");

	err = err ? err : given(attr, "mlx5dv_open_device", "the attribute");
	err = err ? err : check_open(attr);
	return err ? null_errno(err) : ibv_open_device(device);
}

EXPORT int mlx5dv_set_context_attr(struct ibv_context *context, enum mlx5dv_set_ctx_attr_type type,
				   void *attr)
{
	const struct mlx5dv_ctx_allocators *functions = attr;
	int err = softhca_context_alive(context, "mlx5dv_set_context_attr");

	err = err ? err : given(attr, "mlx5dv_set_context_attr", "the attribute");
	if (!err && type != MLX5DV_CTX_ATTR_BUF_ALLOCATORS)
		err = softhca_refuse(ENOTSUP,
				     "mlx5dv_set_context_attr: type %u is not known; "
				     "MLX5DV_CTX_ATTR_BUF_ALLOCATORS is the only one",
				     type);
	if (!err && (!functions->alloc || !functions->free))
		err = softhca_refuse(EINVAL,
				     "mlx5dv_set_context_attr: alloc or free is NULL; give both");
	if (!err)
		err = softhca_context_memory(context, functions->alloc, functions->free,
					     functions->data);
	return positive_errno(err);
}

/* @size: bytes of *info that the caller has. Nothing that the flags could say of is there: no
 * e-switch, and no device commands that would need their numbers. */
EXPORT int _mlx5dv_query_port(struct ibv_context *context, uint32_t port, struct mlx5dv_port *info,
			      size_t size)
{
	int err = softhca_context_alive(context, "mlx5dv_query_port");

	err = err ? err : given(info, "mlx5dv_query_port", "the port's structure");
	if (!err && port != 1)
		err = softhca_refuse(
			EINVAL, "mlx5dv_query_port: port %u; the device has port 1 alone", port);
	if (!err && size < sizeof(info->flags))
		err = softhca_refuse(EINVAL,
				     "mlx5dv_query_port: a structure of %zu B has no room for the "
				     "flags (%zu B); pass the size of struct mlx5dv_port",
				     size, sizeof(info->flags));
	if (!err)
		memset(info, 0, size);
	return positive_errno(err);
}
