// SPDX-License-Identifier: MIT
#include "hca/mr.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>
#include "hca/limits.h"
#include "hca/memory.h"
#include "obs/explain.h"
#include "util/fork.h"
#include "util/quiesce.h"

#define KNOWN                                                                                      \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_HUGETLB |                      \
	 IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND)
#define WRITES                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC |             \
	 IBV_ACCESS_MW_BIND)
#define REREG_FLAGS                                                                                \
	(IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS)
#define LEAVING (1U << 31) /* in windows */

static bool is_implicit(const struct mr_attr *a)
{
	return (a->access & IBV_ACCESS_ON_DEMAND) && !a->addr && a->len == SIZE_MAX;
}

/* A region of no bytes is one of the page in which it lies: Linux pins that. */
static uint64_t touched(const struct mr_attr *a)
{
	return a->len ? a->len : 1;
}

static int range_check(const struct mr_attr *a, const char *call)
{
	uint64_t addr = (uintptr_t)a->addr, page_mask = (uint64_t)sysconf(_SC_PAGESIZE) - 1;
	uint64_t len = touched(a);

	if (!a->len && !(addr & page_mask))
		return refuse(EINVAL,
			      "%s: length 0 at 0x%" PRIx64 ", where a page begins, is no memory at "
			      "all; register at least one byte",
			      call, addr);
	if (a->len > LIMIT_MR_SIZE)
		return refuse(EINVAL,
			      "%s: length %" PRIu64 " B is above max_mr_size %llu B; register "
			      "it in parts",
			      call, a->len, LIMIT_MR_SIZE);
	if (addr + a->len < addr || a->iova + len - 1 < a->iova)
		return refuse(EINVAL,
			      "%s: 0x%" PRIx64 "+%" PRIu64 " (iova 0x%" PRIx64 ") wraps around "
			      "the end of the address space; check addr and length",
			      call, addr, a->len, a->iova);
	if (!(a->access & IBV_ACCESS_ZERO_BASED) && ((addr ^ a->iova) & page_mask))
		return refuse(EINVAL,
			      "%s: addr 0x%" PRIx64 " and iova 0x%" PRIx64 " lie at different "
			      "offsets of their pages; make the low bits equal",
			      call, addr, a->iova);
	return 0;
}

static int implicit_check(const struct mr_attr *a, const char *call)
{
	if (a->iova || (a->access & (IBV_ACCESS_HUGETLB | IBV_ACCESS_MW_BIND)))
		return refuse(EINVAL,
			      "%s: an implicit on-demand region has iova 0 (not 0x%" PRIx64 ") and "
			      "neither HUGETLB nor MW_BIND; leave them out",
			      call, a->iova);
	return 0;
}

/* Everything that can be wrong with it, before anything is changed. */
static int attr_check(const struct mr_attr *a, const char *call)
{
	uint64_t addr = (uintptr_t)a->addr;
	int err = mr_access_check(a->access, KNOWN, call);

	if (err)
		return err;
	if (is_implicit(a))
		return implicit_check(a, call);
	err = range_check(a, call);
	if (err)
		return err;
	if (!(a->access & IBV_ACCESS_ON_DEMAND))
		return memory_check(addr, touched(a), a->access & WRITES, call);
	return a->access & IBV_ACCESS_HUGETLB ? memory_check_huge(addr, touched(a), call) : 0;
}

/* What @a means for keys. */
static struct mr like_of(const struct mr_attr *a)
{
	return (struct mr){
		.ib = { .addr = a->addr, .length = a->len },
		.kind = is_implicit(a) ? MR_IMPLICIT : MR_PLAIN,
		.iova = a->access & IBV_ACCESS_ZERO_BASED ? 0 : a->iova,
		.base = (uintptr_t)a->addr,
		.access = mr_rights(a->access),
	};
}

static struct key_entry entry_of(const struct pd *pd, const struct mr *like)
{
	return (struct key_entry){
		.pdn = pd->pdn,
		.access = like->access,
		/* what follows the address space by contract is reached through the owner */
		.flags = like->access & IBV_ACCESS_ON_DEMAND ? 0 : KEY_DIRECT,
		.iova = like->iova,
		.len = like->ib.length,
		.addr = like->base,
	};
}

int mr_create(struct pd *pd, const struct mr_attr *attr, struct mr **out)
{
	static const char call[] = "ibv_reg_mr";
	struct mr like = like_of(attr);
	struct key_entry e = entry_of(pd, &like);
	int err = pd_use(pd, call);

	if (!err)
		err = attr_check(attr, call);
	return err ? err : mr_publish(pd, &like, &e, call, out);
}

bool mr_window_begin(struct mr *mr)
{
	uint32_t windows = load_relaxed(&mr->windows);

	do
		if (windows & LEAVING)
			return false;
	while (!cas_acq_rel(&mr->windows, &windows, windows + 1));
	return true;
}

void mr_window_end(struct mr *mr)
{
	fetch_sub_acq_rel(&mr->windows, 1);
}

/* From here on no window is bound to it. */
static int leave(struct mr *mr, const char *call)
{
	uint32_t none = 0;

	if (cas_acq_rel(&mr->windows, &none, LEAVING))
		return 0;
	if (none & LEAVING)
		return refuse(EBUSY,
			      "%s: MR 0x%x is being deregistered or changed by another thread; let "
			      "one thread do it",
			      call, mr->ib.lkey);
	return refuse(
		EBUSY, "%s: %u memory window%s bound to MR 0x%x; invalidate or deallocate %s first",
		call, none, none == 1 ? " is" : "s are", mr->ib.lkey, none == 1 ? "it" : "them");
}

/* The region ends; @mr's memory stays. */
static void end(struct mr *mr)
{
	struct hca *hca = mr->pd->ctx->hca;

	if (fork_is_ours(mr->epoch)) {
		key_remove(hca->keys, mr->ib.lkey);
		device_give(&hca->count.mr);
	}
	if (mr->release)
		mr->release(mr);
	pd_put(mr->pd);
}

static int no_region(const struct mr *mr, const char *call)
{
	return refuse(EINVAL,
		      "%s: MR 0x%x was deregistered by another of its names; give this one up by "
		      "ibv_unimport_mr()",
		      call, mr->ib.lkey);
}

/* The region that an imported name stands for. */
static int destroy_original(struct mr *name, const char *call)
{
	struct mr *mr;
	int err;

	quiesce_enter();
	mr = key_lookup_region(name->pd->ctx->hca->keys, name->ib.lkey);
	err = mr ? leave(mr, call) : no_region(name, call);
	quiesce_exit();
	if (err)
		return err;
	end(mr);
	store_release(&mr->gone, true); /* who gives the original up frees it from here on */
	return 0;
}

int mr_destroy(struct mr *mr)
{
	static const char call[] = "ibv_dereg_mr";
	int err = 0;

	if (mr->kind == MR_IMPORTED) {
		err = fork_is_ours(mr->epoch) ? destroy_original(mr, call) : 0;
		if (!err)
			mr_unimport(mr);
		return err;
	}
	if (fork_is_ours(mr->epoch))
		err = load_acquire(&mr->gone) ? no_region(mr, call) : leave(mr, call);
	if (err)
		return err;
	end(mr);
	free(mr);
	return 0;
}

int mr_import(struct pd *pd, uint32_t handle, struct mr **out)
{
	static const char call[] = "ibv_import_mr";
	const struct mr *mr;
	struct mr *name;
	int err = pd_use(pd, call);

	if (err)
		return err;
	name = calloc(1, sizeof(*name));
	if (!name)
		return refuse(ENOMEM, "%s: no memory; raise the limit (ulimit -v)", call);
	quiesce_enter();
	mr = key_lookup_index(pd->ctx->hca->keys, handle);
	if (mr && mr->pd->ctx->root == pd->ctx->root)
		name->ib = (struct ibv_mr){ .length = mr->ib.length,
					    .handle = handle,
					    .lkey = mr->ib.lkey,
					    .rkey = mr->ib.rkey };
	quiesce_exit();
	if (!name->ib.lkey) {
		free(name);
		return refuse(EINVAL,
			      "%s: no region of this device file has the handle 0x%x; pass "
			      "ibv_mr.handle of one that lives",
			      call, handle);
	}
	name->ib.context = pd->ib.context;
	name->ib.pd = &pd->ib;
	name->kind = MR_IMPORTED;
	name->epoch = fork_epoch();
	name->pd = pd;
	pd_get(pd);
	*out = name;
	return 0;
}

bool mr_unimport(struct mr *mr)
{
	if (mr->kind == MR_IMPORTED)
		pd_put(mr->pd);
	else if (!load_acquire(&mr->gone))
		return false; /* its key names it */
	free(mr);
	return true;
}

/* What the real libibverbs finds without asking the device. */
static int rereg_input(const struct mr *mr, int flags, const struct mr_attr *attr, const char *call)
{
	if (mr->kind != MR_PLAIN && mr->kind != MR_IMPLICIT)
		return refuse(EINVAL,
			      "%s: MR 0x%x is not of ibv_reg_mr(): a null, device memory, dma-buf "
			      "or imported region cannot be changed; register it anew",
			      call, mr->ib.lkey);
	if (flags & ~REREG_FLAGS)
		return refuse(EINVAL, "%s: flags 0x%x, defined are 0x%x; leave the rest out", call,
			      flags, REREG_FLAGS);
	if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) && (!attr->len || !attr->addr))
		return refuse(EINVAL,
			      "%s: CHANGE_TRANSLATION of MR 0x%x to %p+%" PRIu64
			      "; both must not be "
			      "0",
			      call, mr->ib.lkey, attr->addr, attr->len);
	if (attr->access && !(flags & IBV_REREG_MR_CHANGE_ACCESS))
		return refuse(
			EINVAL,
			"%s: access 0x%x for MR 0x%x without IBV_REREG_MR_CHANGE_ACCESS; pass 0 "
			"or add the flag",
			call, attr->access, mr->ib.lkey);
	return 0;
}

static int rereg_check(const struct mr *mr, int flags, struct pd *pd, const struct mr_attr *want,
		       const char *call)
{
	int err;

	if (!fork_is_ours(mr->epoch))
		return refuse(EIO, "%s: MR 0x%x was made before fork(); register in the child",
			      call, mr->ib.lkey);
	if (!flags)
		return refuse(EINVAL,
			      "%s: flags 0 change nothing of MR 0x%x; at least one of 0x%x "
			      "is needed",
			      call, mr->ib.lkey, REREG_FLAGS);
	err = pd_use(pd, call);
	if (err)
		return err;
	if (pd->ctx->root != mr->pd->ctx->root)
		return refuse(EINVAL,
			      "%s: PD 0x%x is of another context than MR 0x%x; use one of the "
			      "same",
			      call, pd->pdn, mr->ib.lkey);
	if (flags == IBV_REREG_MR_CHANGE_PD)
		return 0;
	return attr_check(want, call);
}

/* Takes the region out, and puts it back as @want says. Nobody finds it while it changes, so none
 * uses the PD that it leaves. */
static int rereg(struct mr *mr, struct pd *to, const struct mr_attr *want, const char *call)
{
	struct mr like = like_of(want);
	struct key_entry e = entry_of(to, &like);
	struct pd *old = mr->pd;
	struct key_table *keys = old->ctx->hca->keys;
	int err = leave(mr, call);

	if (err)
		return err;
	err = key_withdraw(keys, mr->ib.lkey);
	if (!err) {
		pd_get(to);
		mr_set(mr, to, &like);
		key_rebind(keys, mr->ib.lkey, &e);
		pd_put(old);
	}
	store_release(&mr->windows, 0); /* pairs with mr_window_begin() */
	return err;
}

/* Then its bytes are reached at their addresses, as when it is registered so. */
static bool ends_zero_based(const struct mr *mr, unsigned int access)
{
	return (mr->access & IBV_ACCESS_ZERO_BASED) && !(access & IBV_ACCESS_ZERO_BASED);
}

static int code(int err, enum ibv_rereg_mr_err_code c)
{
	errno = err;
	return c;
}

int mr_rereg(struct mr *mr, int flags, struct pd *pd, const struct mr_attr *attr)
{
	static const char call[] = "ibv_rereg_mr";
	struct mr_attr want = { mr->ib.addr, mr->ib.length, mr->iova, mr->access };
	struct pd *to = flags & IBV_REREG_MR_CHANGE_PD ? pd : mr->pd;
	int err = rereg_input(mr, flags, attr, call);

	if (err)
		return code(err, IBV_REREG_MR_ERR_INPUT);
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		want.addr = attr->addr;
		want.len = attr->len;
		want.iova = attr->iova;
	}
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		want.access = attr->access;
	if (!(flags & IBV_REREG_MR_CHANGE_TRANSLATION) && ends_zero_based(mr, want.access))
		want.iova = (uintptr_t)mr->ib.addr;
	err = rereg_check(mr, flags, to, &want, call);
	if (!err)
		err = rereg(mr, to, &want, call);
	return err ? code(err, IBV_REREG_MR_ERR_CMD) : 0;
}
