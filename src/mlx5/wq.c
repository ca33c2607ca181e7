// SPDX-License-Identifier: MIT
/* Work queues with what only mlx5 devices have (mlx5dv_create_wq(3)): striding ones. */
#include <infiniband/mlx5dv.h>
#include "hca/limits.h"
#include "hca/strides.h"
#include "mlx5/given.h"

#define KNOWN ((uint64_t)MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ)

static int check_mask(const struct mlx5dv_wq_init_attr *dv)
{
	if (!(dv->comp_mask & ~KNOWN))
		return 0;
	return softhca_refuse(EINVAL,
			      "mlx5dv_create_wq: comp_mask 0x%llx, of which 0x%llx is not known; "
			      "leave it out",
			      (unsigned long long)dv->comp_mask,
			      (unsigned long long)(dv->comp_mask & ~KNOWN));
}

static int check_strides(const struct mlx5dv_striding_rq_init_attr *s)
{
	if (s->single_stride_log_num_of_bytes < LIMIT_STRIDE_LOG_MIN ||
	    s->single_stride_log_num_of_bytes > LIMIT_STRIDE_LOG)
		return softhca_refuse(EINVAL,
				      "mlx5dv_create_wq: single_stride_log_num_of_bytes %u is not "
				      "in %d..%d (striding_rq_caps); ask for a number in it",
				      s->single_stride_log_num_of_bytes, LIMIT_STRIDE_LOG_MIN,
				      LIMIT_STRIDE_LOG);
	if (s->single_wqe_log_num_of_strides < LIMIT_STRIDES_LOG_MIN ||
	    s->single_wqe_log_num_of_strides > LIMIT_STRIDES_LOG)
		return softhca_refuse(EINVAL,
				      "mlx5dv_create_wq: single_wqe_log_num_of_strides %u is not "
				      "in %d..%d (striding_rq_caps); ask for a number in it",
				      s->single_wqe_log_num_of_strides, LIMIT_STRIDES_LOG_MIN,
				      LIMIT_STRIDES_LOG);
	if (s->two_byte_shift_en > 1)
		return softhca_refuse(EINVAL, "mlx5dv_create_wq: two_byte_shift_en %u; pass 0 or 1",
				      s->two_byte_shift_en);
	return 0;
}

static struct ibv_wq *create(struct ibv_context *context, struct ibv_wq_init_attr *attr,
			     const struct mlx5dv_striding_rq_init_attr *s)
{
	const struct stride_form form = { .size_log = (uint8_t)s->single_stride_log_num_of_bytes,
					  .count_log = (uint8_t)s->single_wqe_log_num_of_strides,
					  .shift = s->two_byte_shift_en };
	struct ibv_wq *wq = softhca_create_wq(context, attr, &form);

	if (!wq)
		return NULL;
	wq->wq_context = attr->wq_context;
	wq->events_completed = 0;
	pthread_mutex_init(&wq->mutex, NULL);
	pthread_cond_init(&wq->cond, NULL);
	return wq;
}

EXPORT struct ibv_wq *mlx5dv_create_wq(struct ibv_context *context, struct ibv_wq_init_attr *attr,
				       struct mlx5dv_wq_init_attr *dv)
{
	int err = softhca_context_alive(context, "mlx5dv_create_wq");
	bool strides = dv && dv->comp_mask & MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ;

	err = err ? err : given(attr, "mlx5dv_create_wq", "the queue's attribute");
	err = err || !dv ? err : check_mask(dv);
	err = err || !strides ? err : check_strides(&dv->striding_rq_attrs);
	if (err)
		return null_errno(err);
	return strides ? create(context, attr, &dv->striding_rq_attrs)
		       : ibv_create_wq(context, attr);
}
