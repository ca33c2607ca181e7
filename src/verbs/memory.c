// SPDX-License-Identifier: MIT
/* Memory objects and domains beside the plain ones: windows, null and dma-buf regions, advice,
 * device memory, parent and thread domains. */
#include "driver/dqp.h"
#include "driver/sig_attr.h"
#include "hca/advise.h"
#include "hca/alive.h"
#include "hca/dm.h"
#include "hca/mkey/mkey.h"
#include "hca/mw.h"
#include "verbs/export.h"
#include "verbs/ops.h"

static struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct mw *mw;
	int err = alive_check(ALIVE_PD, pd, "ibv_alloc_mw");

	if (!err)
		err = mw_create(to_pd(pd), type, &mw);
	return err ? null_errno(err) : alive_made(ALIVE_MW, &mw->ib);
}

static int dealloc_mw(struct ibv_mw *mw)
{
	struct alive_end end;
	int err = alive_take(ALIVE_MW, mw, "ibv_dealloc_mw", &end);

	return positive_errno(err ? err : alive_left(&end, mw_destroy(to_mw(mw))));
}

static int bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	static const char call[] = "ibv_bind_mw";
	int err = alive_check(ALIVE_MW, mw, call);

	if (!err) /* inline it came by the window's context */
		err = alive_of(mw->context, ALIVE_QP, qp, call);
	if (!err)
		err = alive_of(mw->context, ALIVE_MR, bind->bind_info.mr, call);
	return positive_errno(err ? err : dqp_bind_mw(qp, mw, bind));
}

static struct ibv_mr *alloc_null_mr(struct ibv_pd *pd)
{
	struct mr *mr;
	int err = alive_check(ALIVE_PD, pd, "ibv_alloc_null_mr");

	if (!err)
		err = mr_create_null(to_pd(pd), &mr);
	return err ? null_errno(err) : alive_made(ALIVE_MR, &mr->ib);
}

static int advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		     struct ibv_sge *sg_list, uint32_t num_sge)
{
	int err = alive_check(ALIVE_PD, pd, "ibv_advise_mr");

	return positive_errno(err ? err : mr_advise(to_pd(pd), advice, flags, sg_list, num_sge));
}

EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
					uint64_t iova, int fd, int access)
{
	struct mr_attr attr = { NULL, length, iova, (unsigned int)access };
	struct mr *mr;
	int err = alive_check(ALIVE_PD, pd, "ibv_reg_dmabuf_mr");

	if (!err)
		err = mr_create_dmabuf(to_pd(pd), &attr, offset, fd, &mr);
	return err ? null_errno(err) : alive_made(ALIVE_MR, &mr->ib);
}

static struct ibv_dm *alloc_dm(struct ibv_context *ib, struct ibv_alloc_dm_attr *attr)
{
	struct dm *dm;
	int err = alive_check(ALIVE_CONTEXT, ib, "ibv_alloc_dm");

	if (!err)
		err = dm_create(to_context(ib), attr, &dm);
	return err ? null_errno(err) : alive_made(ALIVE_DM, &dm->ib);
}

static int free_dm(struct ibv_dm *dm)
{
	struct alive_end end;
	int err = alive_take(ALIVE_DM, dm, "ibv_free_dm", &end);

	return positive_errno(err ? err : alive_left(&end, dm_destroy(to_dm(dm))));
}

/* The offset stands where other regions have their first address. */
static struct ibv_mr *reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset,
				size_t length, unsigned int access)
{
	struct mr_attr attr = { NULL, length, offset, access };
	struct mr *mr;
	int err = alive_check(ALIVE_PD, pd, "ibv_reg_dm_mr");

	if (!err)
		err = alive_check(ALIVE_DM, dm, "ibv_reg_dm_mr");
	if (!err)
		err = dm_register(to_pd(pd), to_dm(dm), &attr, &mr);
	return err ? null_errno(err) : alive_made(ALIVE_MR, &mr->ib);
}

static struct ibv_pd *alloc_parent_domain(struct ibv_context *ib,
					  struct ibv_parent_domain_init_attr *attr)
{
	static const char call[] = "ibv_alloc_parent_domain";
	struct pd *pd;
	int err = alive_check(ALIVE_CONTEXT, ib, call);

	if (!err)
		err = alive_of(ib, ALIVE_PD, attr->pd, call);
	if (!err)
		err = alive_of(ib, ALIVE_TD, attr->td, call);
	if (!err)
		err = pd_create_parent(to_context(ib), attr, &pd);
	return err ? null_errno(err) : alive_made(ALIVE_PD, &pd->ib);
}

static struct ibv_td *alloc_td(struct ibv_context *ib, struct ibv_td_init_attr *attr)
{
	struct td *td;
	int err = alive_check(ALIVE_CONTEXT, ib, "ibv_alloc_td");

	if (!err)
		err = td_create(to_context(ib), attr, &td);
	return err ? null_errno(err) : alive_made(ALIVE_TD, &td->ib);
}

static int dealloc_td(struct ibv_td *td)
{
	struct alive_end end;
	int err = alive_take(ALIVE_TD, td, "ibv_dealloc_td", &end);

	return positive_errno(err ? err : alive_left(&end, td_destroy((struct td *)td)));
}

/* For libmlx5. */
EXPORT struct mlx5dv_mkey *softhca_create_mkey(struct mlx5dv_mkey_init_attr *attr)
{
	struct mkey *m;
	int err = alive_check(ALIVE_PD, attr->pd, "mlx5dv_create_mkey");

	if (!err)
		err = mkey_create(to_pd(attr->pd), attr, &m);
	return err ? null_errno(err) : alive_made(ALIVE_MKEY, &m->dv);
}

/* For libmlx5. */
EXPORT int softhca_destroy_mkey(struct mlx5dv_mkey *mkey)
{
	struct alive_end end;
	int err = alive_take(ALIVE_MKEY, mkey, "mlx5dv_destroy_mkey", &end);

	return positive_errno(err ? err : alive_left(&end, mkey_destroy(to_mkey(mkey))));
}

/* For libmlx5. */
EXPORT int softhca_mkey_check(struct mlx5dv_mkey *mkey, struct mlx5dv_mkey_err *out)
{
	int err = alive_check(ALIVE_MKEY, mkey, "mlx5dv_mkey_check");

	return err ? err : mkey_check(to_mkey(mkey), out);
}

/* For libmlx5. */
EXPORT const struct mlx5dv_sig_caps *softhca_sig_caps(void)
{
	return &sig_caps;
}

void ops_fill_memory(struct verbs_context *v)
{
	v->advise_mr = advise_mr;
	v->alloc_dm = alloc_dm;
	v->free_dm = free_dm;
	v->reg_dm_mr = reg_dm_mr;
	v->alloc_parent_domain = alloc_parent_domain;
	v->alloc_td = alloc_td;
	v->dealloc_td = dealloc_td;
	v->context.ops.alloc_mw = alloc_mw;
	v->context.ops.dealloc_mw = dealloc_mw;
	v->context.ops.bind_mw = bind_mw;
	v->alloc_null_mr = alloc_null_mr;
}
