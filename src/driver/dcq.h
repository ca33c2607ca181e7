// SPDX-License-Identifier: MIT
/* Life and attributes of completion queues, the driver's half. */
#pragma once
#include "driver/dcq_ring.h"

struct dcq_form { /* of the ring */
	uint16_t cqe_size; /* 64, 128; 0: as the environment's MLX5_CQE_SIZE says, else 64 */
	bool padded; /* of 128: enum cq_extra's CQ_PADDED */
	uint8_t compressed; /* enum mlx5dv_cqe_comp_res_format, one bit; 0: not at all */
};

/* EINVAL: MLX5_CQE_SIZE is neither 64 nor 128, cqe 0 or over the limit, comp_vector out of range;
 * EOPNOTSUPP: wc_flags that do not work. */
int dcq_create(struct context *ctx, const struct ibv_cq_init_attr_ex *attr,
	       const struct dcq_form *form, struct dcq **out);
int dcq_destroy(struct dcq *cq); /* waits for unacknowledged events */
int dcq_resize(struct dcq *cq, int cqe); /* EINVAL: fewer than the unpolled entries */
/* EINVAL: attributes that are no ibv_cq_attr_mask bits. */
int dcq_modify(struct dcq *cq, const struct ibv_modify_cq_attr *attr);
