// SPDX-License-Identifier: MIT
/* Protection domains and memory regions. */
#include "hca/alive.h"
#include "hca/mr.h"
#include "verbs/export.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *ib)
{
	struct pd *pd;
	int err = alive_check(ALIVE_CONTEXT, ib, "ibv_alloc_pd");

	if (!err)
		err = pd_create(to_context(ib), &pd);
	return err ? null_errno(err) : alive_made(ALIVE_PD, &pd->ib);
}

EXPORT int ibv_dealloc_pd(struct ibv_pd *ib)
{
	struct alive_end end;
	int err = alive_take(ALIVE_PD, ib, "ibv_dealloc_pd", &end);

	return positive_errno(err ? err : alive_left(&end, pd_destroy(to_pd(ib))));
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, const struct mr_attr *attr)
{
	struct mr *mr;
	int err = alive_check(ALIVE_PD, pd, "ibv_reg_mr");

	if (!err)
		err = mr_create(to_pd(pd), attr, &mr);
	return err ? null_errno(err) : alive_made(ALIVE_MR, &mr->ib);
}

EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				       unsigned int access)
{
	return reg_mr(pd, &(struct mr_attr){ addr, length, iova, access });
}

EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				      int access)
{
	return reg_mr(pd, &(struct mr_attr){ addr, length, iova, (unsigned int)access });
}

EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return ibv_reg_mr_iova(pd, addr, length, (uintptr_t)addr, access);
}

EXPORT int ibv_dereg_mr(struct ibv_mr *ib)
{
	struct alive_end end;
	int err = alive_take(ALIVE_MR, ib, "ibv_dereg_mr", &end);

	return positive_errno(err ? err : alive_left(&end, mr_destroy((struct mr *)ib)));
}

/* An IBV_REREG_MR_ERR_* code and errno. @pd may be garbage when @flags do not name it. */
EXPORT int ibv_rereg_mr(struct ibv_mr *ib, int flags, struct ibv_pd *pd, void *addr, size_t length,
			int access)
{
	struct mr_attr attr = { addr, length, (uintptr_t)addr, (unsigned int)access };
	struct pd *to = flags & IBV_REREG_MR_CHANGE_PD ? to_pd(pd) : NULL;
	int err = alive_check(ALIVE_MR, ib, "ibv_rereg_mr");

	if (!err && (flags & IBV_REREG_MR_CHANGE_PD))
		err = alive_check(ALIVE_PD, pd, "ibv_rereg_mr");
	if (err)
		return minus1_errno(err), IBV_REREG_MR_ERR_CMD;
	return mr_rereg((struct mr *)ib, flags, to, &attr);
}
