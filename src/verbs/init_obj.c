// SPDX-License-Identifier: MIT
/* mlx5dv_init_obj(3), for libmlx5. */
#include <infiniband/mlx5dv.h>
#include "driver/dcq_ring.h"
#include "driver/dsrq_ring.h"
#include "driver/dwq.h"
#include "driver/lay_open.h"
#include "hca/ah.h"
#include "hca/alive.h"
#include "hca/dm.h"
#include "obs/explain.h"
#include "verbs/export.h"

#define KNOWN                                                                                      \
	((uint64_t)(MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ | MLX5DV_OBJ_SRQ | MLX5DV_OBJ_RWQ |              \
		    MLX5DV_OBJ_DM | MLX5DV_OBJ_AH | MLX5DV_OBJ_PD))

static int pd_number(struct ibv_pd *pd, struct mlx5dv_pd *out)
{
	*out = (struct mlx5dv_pd){ .pdn = to_pd(pd)->pdn };
	return 0;
}

static int pair_check(uint64_t bit, enum alive_kind kind, const void *in, const void *out)
{
	if (in && out)
		return alive_check(kind, in, "mlx5dv_init_obj");
	return refuse(EINVAL,
		      "mlx5dv_init_obj: obj_type has the bit 0x%llx, and its %s is NULL; give both "
		      "in and out",
		      (unsigned long long)bit, in ? "out" : "in");
}

static int check(const struct mlx5dv_obj *o, uint64_t type)
{
	const struct {
		uint64_t bit;
		enum alive_kind kind;
		const void *in, *out;
	} pair[] = {
		{ MLX5DV_OBJ_QP, ALIVE_QP, o->qp.in, o->qp.out },
		{ MLX5DV_OBJ_CQ, ALIVE_CQ, o->cq.in, o->cq.out },
		{ MLX5DV_OBJ_SRQ, ALIVE_SRQ, o->srq.in, o->srq.out },
		{ MLX5DV_OBJ_RWQ, ALIVE_WQ, o->rwq.in, o->rwq.out },
		{ MLX5DV_OBJ_DM, ALIVE_DM, o->dm.in, o->dm.out },
		{ MLX5DV_OBJ_AH, ALIVE_AH, o->ah.in, o->ah.out },
		{ MLX5DV_OBJ_PD, ALIVE_PD, o->pd.in, o->pd.out },
	};
	int err = 0;

	if (!(type & KNOWN))
		return refuse(EINVAL,
			      "mlx5dv_init_obj: obj_type 0x%llx names no object; pass MLX5DV_OBJ_*",
			      (unsigned long long)type);
	for (size_t i = 0; !err && i < sizeof(pair) / sizeof(pair[0]); i++)
		if (type & pair[i].bit)
			err = pair_check(pair[i].bit, pair[i].kind, pair[i].in, pair[i].out);
	return err;
}

EXPORT int softhca_init_obj(struct mlx5dv_obj *o, uint64_t type)
{
	int err = check(o, type);

	if (!err && type & MLX5DV_OBJ_QP)
		err = lay_open_qp(to_dqp(o->qp.in), o->qp.out);
	if (!err && type & MLX5DV_OBJ_CQ)
		err = lay_open_cq(to_dcq(o->cq.in), o->cq.out);
	if (!err && type & MLX5DV_OBJ_SRQ)
		err = lay_open_srq(to_dsrq(o->srq.in), o->srq.out);
	if (!err && type & MLX5DV_OBJ_RWQ)
		err = lay_open_wq(to_dwq(o->rwq.in), o->rwq.out);
	if (!err && type & MLX5DV_OBJ_DM)
		err = lay_open_dm(to_dm(o->dm.in), o->dm.out);
	if (!err && type & MLX5DV_OBJ_AH)
		err = lay_open_ah((struct ah *)o->ah.in, o->ah.out);
	if (!err && type & MLX5DV_OBJ_PD)
		err = pd_number(o->pd.in, o->pd.out);
	return err;
}
