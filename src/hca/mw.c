// SPDX-License-Identifier: MIT
#include "hca/mw.h"
#include <errno.h>
#include <stdlib.h>
#include "hca/limits.h"
#include "obs/explain.h"
#include "util/fork.h"

#define RIGHTS (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
/* LOCAL_WRITE has no effect, since a window has no lkey; programs set it all the same. */
#define KNOWN	 (RIGHTS | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE)
#define INDEX(k) ((k) >> 8)

/* Complete but for its key: from key_add() on a work request may name it. */
static struct mw *made(struct pd *pd, enum ibv_mw_type type)
{
	struct mw *mw = calloc(1, sizeof(*mw));

	if (!mw)
		return NULL;
	spin_init(&mw->lock);
	mw->pd = pd;
	mw->epoch = fork_epoch();
	mw->ib = (struct ibv_mw){ .context = pd->ib.context, .pd = &pd->ib, .type = type };
	return mw;
}

int mw_create(struct pd *pd, enum ibv_mw_type type, struct mw **out)
{
	static const char call[] = "ibv_alloc_mw";
	uint32_t *count = &pd->ctx->hca->count.mw;
	struct key_entry e = { .pdn = pd->pdn, .flags = KEY_WINDOW };
	struct mw *mw;
	int err = pd_use(pd, call);

	if (!err && type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2)
		err = refuse(
			EINVAL,
			"%s: type %d is neither IBV_MW_TYPE_1 nor IBV_MW_TYPE_2; use one of these",
			call, type);
	if (!err)
		err = device_take(count, LIMIT_MW, call);
	if (err)
		return err;
	mw = made(pd, type);
	err = mw ? key_add(pd->ctx->hca->keys, &e, mw, &mw->rkey)
		 : refuse(ENOMEM, "%s: no memory; raise the limit (ulimit -v)", call);
	if (err) {
		free(mw);
		device_give(count);
		return err;
	}
	mw->ib.rkey = mw->rkey;
	mw->ib.handle = INDEX(mw->rkey);
	pd_get(pd);
	*out = mw;
	return 0;
}

/* Under the lock, or alone. */
static void unbind(struct mw *mw)
{
	if (mw->mr)
		mr_window_end(mw->mr);
	mw->mr = NULL;
}

int mw_destroy(struct mw *mw)
{
	struct hca *hca = mw->pd->ctx->hca;

	if (fork_is_ours(mw->epoch)) {
		spin_lock(&mw->lock);
		mw->dead = true; /* no turn publishes the key again */
		spin_unlock(&mw->lock);
		key_remove(hca->keys, mw->rkey);
		unbind(mw);
		device_give(&hca->count.mw);
	}
	pd_put(mw->pd);
	free(mw);
	return 0;
}

static const char *wrong_window(const struct mw *mw, const struct mw_bind *b)
{
	if (!mw)
		return "there is no such window; it was never allocated or is deallocated";
	if (mw->dead)
		return "the window is being deallocated; let its binds end first";
	if (mw->pd->pdn != b->pdn)
		return "the window belongs to another PD than the queue pair; allocate it in that "
		       "PD";
	if (b->access & ~(unsigned int)KNOWN)
		return "mw_access_flags has bits that windows do not know; leave them out";
	if (mw->ib.type == IBV_MW_TYPE_1)
		return NULL;
	if (mw->mr)
		return "a type 2 window must be invalidated before it is bound again";
	if (!b->len)
		return "a type 2 window cannot be bound to 0 bytes; invalidate it instead";
	return NULL;
}

static const char *wrong_region(const struct mr *mr, const struct mw_bind *b)
{
	if (!mr)
		return "the lkey names no memory region; use that of a living one";
	if (mr->pd->pdn != b->pdn)
		return "the region belongs to another PD than the queue pair; register it in that "
		       "PD";
	if (!(mr->access & IBV_ACCESS_MW_BIND))
		return "the region was registered without IBV_ACCESS_MW_BIND; add that flag";
	if ((b->access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
	    !(mr->access & IBV_ACCESS_LOCAL_WRITE))
		return "rights to write need a region with IBV_ACCESS_LOCAL_WRITE";
	if (b->addr < mr->iova || b->len > mr->ib.length ||
	    b->addr - mr->iova > mr->ib.length - b->len)
		return "the window's range reaches out of the region; bind a part of the region";
	return NULL;
}

/* Under the lock. @mr: after mr_window_begin(), or NULL. */
static void publish(struct key_table *keys, struct mw *mw, const struct mw_bind *b, struct mr *mr)
{
	struct key_entry e = { .pdn = mw->pd->pdn, .flags = KEY_WINDOW };

	if (mr) {
		e.flags |= KEY_BOUND;
		if (mw->ib.type == IBV_MW_TYPE_2)
			e.flags |= b->qpn << KEY_QPN_SHIFT;
		e.access = b->access & RIGHTS;
		e.iova = b->access & IBV_ACCESS_ZERO_BASED ? 0 : b->addr;
		e.len = b->len;
		e.addr = (uintptr_t)mr->base + (b->addr - mr->iova);
	}
	key_rebind(keys, b->rkey, &e);
	unbind(mw);
	mw->mr = mr;
	mw->rkey = b->rkey;
	mw->qpn = b->qpn;
}

/* Under the lock. */
static const char *bind(struct key_table *keys, struct mw *mw, const struct mw_bind *b)
{
	const char *why = wrong_window(mw, b);
	struct mr *mr = NULL;

	if (!why && b->len) {
		mr = key_lookup_region(keys, b->lkey);
		if (mr && !mr_window_begin(mr))
			return "the region is being deregistered or changed; let that end first";
		why = wrong_region(mr, b); /* it does not change any more */
		if (why && mr)
			mr_window_end(mr);
	}
	if (!why)
		publish(keys, mw, b, mr);
	return why;
}

const char *mw_bind(struct key_table *keys, const struct mw_bind *b)
{
	struct mw *mw = key_lookup_window(keys, b->window);
	struct mw_bind own = *b;
	const char *why;

	if (!mw)
		return wrong_window(NULL, b);
	own.rkey = INDEX(b->window) << 8 | (b->rkey & 0xff);
	spin_lock(&mw->lock);
	why = bind(keys, mw, &own);
	spin_unlock(&mw->lock);
	return why;
}

static const char *not_invalid(const struct mw *mw, uint32_t rkey, uint32_t pdn, uint32_t qpn)
{
	if (mw->dead || mw->rkey != rkey)
		return "the key it invalidates is not a window's any more; use that of its last "
		       "bind";
	if (mw->ib.type != IBV_MW_TYPE_2)
		return "the key it invalidates is a type 1 window's; bind that anew instead";
	if (mw->pd->pdn != pdn)
		return "the window it invalidates belongs to another PD; use a queue pair of that "
		       "PD";
	if (!mw->mr)
		return "the window it invalidates is not bound; bind it first";
	if (mw->qpn != qpn)
		return "the window it invalidates was bound by another queue pair; use that one";
	return NULL;
}

const char *mw_invalidate(struct key_table *keys, uint32_t rkey, uint32_t pdn, uint32_t qpn)
{
	struct mw *mw = key_lookup_window(keys, rkey);
	struct mw_bind none = { .rkey = rkey };
	const char *why;

	if (!mw)
		return "the key it invalidates is not a memory window's; only windows can be "
		       "invalidated";
	spin_lock(&mw->lock);
	why = not_invalid(mw, rkey, pdn, qpn);
	if (!why)
		publish(keys, mw, &none, NULL);
	spin_unlock(&mw->lock);
	return why;
}
