// SPDX-License-Identifier: MIT
#include "hca/mr.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>
#include "hca/key_table.h"
#include "hca/limits.h"
#include "hca/memory.h"
#include "obs/explain.h"
#include "util/fork.h"

#define OPTIONAL 0x3ff00000U /* bits 20..29 may always be ignored */
#define UNBUILT	 (IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND)
#define KNOWN                                                                                      \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_HUGETLB | UNBUILT)
#define NEEDS_LOCAL_WRITE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
#define WRITES		  (IBV_ACCESS_LOCAL_WRITE | NEEDS_LOCAL_WRITE | IBV_ACCESS_MW_BIND)
#define REREG_FLAGS                                                                                \
	(IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS)

static int access_check(unsigned int access, const char *call)
{
	unsigned int asked = access & ~OPTIONAL;

	if (asked & ~(unsigned int)KNOWN)
		return refuse(EINVAL,
			      "%s: access 0x%x has unknown bits 0x%x; use IBV_ACCESS_* flags", call,
			      access, asked & ~(unsigned int)KNOWN);
	if ((asked & NEEDS_LOCAL_WRITE) && !(asked & IBV_ACCESS_LOCAL_WRITE))
		return refuse(EINVAL,
			      "%s: access 0x%x asks for REMOTE_WRITE or REMOTE_ATOMIC without "
			      "LOCAL_WRITE; add IBV_ACCESS_LOCAL_WRITE",
			      call, access);
	if (asked & IBV_ACCESS_ON_DEMAND)
		return refuse(EOPNOTSUPP,
			      "%s: IBV_ACCESS_ON_DEMAND is not built (odp_caps say so); "
			      "leave it out",
			      call);
	if (asked & IBV_ACCESS_ZERO_BASED)
		return refuse(EOPNOTSUPP,
			      "%s: IBV_ACCESS_ZERO_BASED is not built; give the first "
			      "address by ibv_reg_mr_iova()",
			      call);
	return 0;
}

static int range_check(const struct mr_attr *a, const char *call)
{
	uint64_t addr = (uintptr_t)a->addr, page_mask = (uint64_t)sysconf(_SC_PAGESIZE) - 1;

	if (!a->len)
		return refuse(EINVAL, "%s: length 0; register at least one byte", call);
	if (a->len > LIMIT_MR_SIZE)
		return refuse(EINVAL,
			      "%s: length %" PRIu64 " B is above max_mr_size %llu B; register "
			      "it in parts",
			      call, a->len, LIMIT_MR_SIZE);
	if (addr + a->len < addr || a->iova + a->len - 1 < a->iova)
		return refuse(EINVAL,
			      "%s: 0x%" PRIx64 "+%" PRIu64 " (iova 0x%" PRIx64 ") wraps around "
			      "the end of the address space; check addr and length",
			      call, addr, a->len, a->iova);
	if ((addr ^ a->iova) & page_mask)
		return refuse(EINVAL,
			      "%s: addr 0x%" PRIx64 " and iova 0x%" PRIx64 " lie at different "
			      "offsets of their pages; make the low bits equal",
			      call, addr, a->iova);
	return 0;
}

/* Everything that can be wrong with it, before anything is changed. */
static int attr_check(const struct mr_attr *a, const char *call)
{
	int err = access_check(a->access, call);

	if (!err)
		err = range_check(a, call);
	if (!err)
		err = memory_check((uintptr_t)a->addr, a->len, a->access & WRITES, call);
	return err;
}

static struct key_entry entry_of(const struct pd *pd, const struct mr_attr *a)
{
	return (struct key_entry){
		.pdn = pd->pdn,
		.access = a->access & ~OPTIONAL,
		.flags = KEY_FLAT,
		.iova = a->iova,
		.len = a->len,
		.addr = (uintptr_t)a->addr,
	};
}

static void mr_set(struct mr *mr, struct pd *pd, const struct mr_attr *a)
{
	mr->pd = pd;
	mr->iova = a->iova;
	mr->access = a->access & ~OPTIONAL;
	mr->ib.pd = &pd->ib;
	mr->ib.addr = a->addr;
	mr->ib.length = a->len;
}

int mr_create(struct pd *pd, const struct mr_attr *attr, struct mr **out)
{
	uint32_t *count = &pd->ctx->hca->count.mr;
	struct key_entry e = entry_of(pd, attr);
	struct mr *mr;
	int err = pd_use(pd, "ibv_reg_mr");

	if (!err)
		err = attr_check(attr, "ibv_reg_mr");
	if (!err)
		err = device_take(count, LIMIT_MR, "ibv_reg_mr");
	if (err)
		return err;
	mr = calloc(1, sizeof(*mr));
	if (!mr) {
		err = refuse(ENOMEM, "ibv_reg_mr: no memory");
		goto fail;
	}
	mr_set(mr, pd, attr);
	mr->epoch = fork_epoch();
	mr->ib.context = pd->ib.context;
	err = key_add(pd->ctx->hca->keys, &e, mr,
		      &mr->ib.lkey); /* last: users can see it from here */
	if (err)
		goto fail;
	mr->ib.rkey = mr->ib.lkey;
	mr->ib.handle = mr->ib.lkey >> 8;
	pd_get(pd);
	*out = mr;
	return 0;
fail:
	free(mr);
	device_give(count);
	return err;
}

int mr_destroy(struct mr *mr)
{
	struct hca *hca = mr->pd->ctx->hca;

	if (fork_is_ours(mr->epoch)) {
		key_remove(hca->keys, mr->ib.lkey);
		device_give(&hca->count.mr);
	}
	pd_put(mr->pd);
	free(mr);
	return 0;
}

static int rereg_check(const struct mr *mr, int flags, struct pd *pd, const struct mr_attr *want)
{
	static const char call[] = "ibv_rereg_mr";
	int err;

	if (!fork_is_ours(mr->epoch))
		return refuse(EIO, "%s: MR 0x%x was made before fork(); register in the child",
			      call, mr->ib.lkey);
	if (!flags || (flags & ~REREG_FLAGS))
		return refuse(EINVAL, "%s: flags 0x%x, defined are 0x%x and at least one is needed",
			      call, flags, REREG_FLAGS);
	err = pd_use(pd, call);
	if (err)
		return err;
	if (pd->ctx != mr->pd->ctx)
		return refuse(EINVAL,
			      "%s: PD 0x%x is of another context than MR 0x%x; use one of the "
			      "same",
			      call, pd->pdn, mr->ib.lkey);
	if (flags == IBV_REREG_MR_CHANGE_PD)
		return 0;
	return attr_check(want, call);
}

int mr_rereg(struct mr *mr, int flags, struct pd *pd, const struct mr_attr *attr)
{
	struct mr_attr want = { mr->ib.addr, mr->ib.length, mr->iova, mr->access };
	struct pd *old = mr->pd, *to = flags & IBV_REREG_MR_CHANGE_PD ? pd : old;
	struct key_entry e;
	int err;

	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		want.addr = attr->addr;
		want.len = attr->len;
		want.iova = attr->iova;
	}
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		want.access = attr->access;
	err = rereg_check(mr, flags, to, &want);
	if (!err) {
		e = entry_of(to, &want);
		err = key_change(mr->pd->ctx->hca->keys, mr->ib.lkey, &e);
	}
	if (err) {
		errno = err;
		return IBV_REREG_MR_ERR_INPUT; /* the old MR stands */
	}
	pd_get(to);
	mr_set(mr, to, &want);
	pd_put(old);
	return 0;
}
