// SPDX-License-Identifier: MIT
#include "hca/advise.h"
#include <errno.h>
#include "hca/memory.h"
#include "obs/explain.h"
#include "util/quiesce.h"

static const char call[] = "ibv_advise_mr";

static int ask_check(enum ibv_advise_mr_advice advice, uint32_t flags, uint32_t n)
{
	if (advice != IBV_ADVISE_MR_ADVICE_PREFETCH &&
	    advice != IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE &&
	    advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return refuse(EOPNOTSUPP,
			      "%s: advice %d is not one of PREFETCH, PREFETCH_WRITE and "
			      "PREFETCH_NO_FAULT; use one of these",
			      call, advice);
	if (flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH)
		return refuse(EINVAL,
			      "%s: flags 0x%x, defined is IBV_ADVISE_MR_FLAG_FLUSH (0x%x); leave "
			      "the rest out",
			      call, flags, IBV_ADVISE_MR_FLAG_FLUSH);
	if (!n)
		return refuse(EINVAL, "%s: num_sge 0; name at least one range", call);
	return 0;
}

static int key_problem(const struct key_table *keys, uint32_t lkey)
{
	if (key_lookup_window(keys, lkey))
		return refuse(EINVAL, "%s: lkey 0x%x is a memory window's; use the region's", call,
			      lkey);
	if (key_lookup_mkey(keys, lkey))
		return refuse(EINVAL,
			      "%s: lkey 0x%x is an mkey's; use those of the regions beneath", call,
			      lkey);
	return refuse(ENOENT, "%s: lkey 0x%x names no memory region; use that of a living region",
		      call, lkey);
}

static int region_problem(const struct pd *pd, const struct mr *mr, const struct ibv_sge *s,
			  bool write)
{
	if (mr->pd->pdn != pd->pdn)
		return refuse(EPERM,
			      "%s: lkey 0x%x belongs to PD 0x%x, the call names PD 0x%x; name the "
			      "same PD",
			      call, s->lkey, mr->pd->pdn, pd->pdn);
	if (!(mr->access & IBV_ACCESS_ON_DEMAND))
		return refuse(
			EINVAL,
			"%s: lkey 0x%x was registered without IBV_ACCESS_ON_DEMAND; its pages "
			"are there",
			call, s->lkey);
	if (write && !(mr->access & IBV_ACCESS_LOCAL_WRITE))
		return refuse(
			EPERM,
			"%s: PREFETCH_WRITE of lkey 0x%x, which has no IBV_ACCESS_LOCAL_WRITE; "
			"use PREFETCH",
			call, s->lkey);
	if (s->addr < mr->iova || s->length > mr->ib.length ||
	    s->addr - mr->iova > mr->ib.length - s->length)
		return refuse(EFAULT,
			      "%s: 0x%lx+%u reaches out of lkey 0x%x, which covers 0x%lx+%zu; stay "
			      "within",
			      call, (unsigned long)s->addr, s->length, s->lkey,
			      (unsigned long)mr->iova, mr->ib.length);
	return 0;
}

/* *addr: host address of the range. */
static int check(struct pd *pd, const struct ibv_sge *s, bool write, uint64_t *addr)
{
	const struct key_table *keys = pd->ctx->hca->keys;
	const struct mr *mr;
	int err;

	quiesce_enter();
	mr = key_lookup_region(keys, s->lkey);
	err = mr ? region_problem(pd, mr, s, write) : key_problem(keys, s->lkey);
	if (!err)
		*addr = mr->base + (s->addr - mr->iova);
	quiesce_exit();
	return err;
}

int mr_advise(struct pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
	      const struct ibv_sge *sg, uint32_t n)
{
	bool write = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	int err = pd_use(pd, call);
	uint64_t addr = 0;

	if (!err)
		err = ask_check(advice, flags, n);
	for (uint32_t i = 0; !err && i < n; i++) {
		err = check(pd, &sg[i], write, &addr);
		if (err || !sg[i].length || advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
			continue;
		if (memory_populate(addr, sg[i].length, write) &&
		    (flags & IBV_ADVISE_MR_FLAG_FLUSH))
			err = refuse(EFAULT,
				     "%s: a page of 0x%lx+%u (lkey 0x%x) cannot be had%s; map it",
				     call, (unsigned long)addr, sg[i].length, sg[i].lkey,
				     write ? " for writing" : "");
	}
	return err;
}
