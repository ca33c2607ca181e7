// SPDX-License-Identifier: MIT
#include "hca/pd.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "hca/alive.h"
#include "hca/limits.h"
#include "hca/numbers.h"
#include "obs/explain.h"
#include "util/barrier.h"
#include "util/fork.h"

NUMBERS(pdns, 1 << 18); /* LIMIT_PD for each of 16 devices */

static struct pd *name_new(struct context *ctx, enum pd_kind kind)
{
	struct pd *pd = calloc(1, sizeof(*pd));

	if (!pd)
		return NULL;
	context_get(ctx);
	pd->ctx = ctx;
	pd->epoch = fork_epoch();
	pd->kind = kind;
	pd->holders = 1;
	pd->base = pd;
	pd->ib.context = &ctx->ib.context;
	list_init(&pd->node);
	return pd;
}

/* @pd becomes one more name of @base, whose count the caller has raised. */
static void name_join(struct pd *pd, struct pd *base)
{
	pd->base = base;
	pd->pdn = base->pdn;
	pd->ib.handle = base->ib.handle;
}

static void name_free(struct pd *pd)
{
	context_put(pd->ctx);
	free(pd);
}

/* The domain's number and place go to others. Only the first call for @base, under the lock of its
 * context's list, is answered true. */
static bool ends(struct pd *base)
{
	bool first = !base->gone;

	store_relaxed(&base->gone, true); /* pd_use() takes no lock */
	list_del(&base->node);
	return first;
}

static void give_number(struct pd *base)
{
	numbers_give(&pdns, base->pdn);
	device_give(&base->ctx->hca->count.pd);
}

/* One of several holders leaves. False: there is but one. */
static bool another_stays(struct pd *pd)
{
	uint32_t n = load_acquire(&pd->holders); /* pairs with the holders that left */

	do
		if (n == 1)
			return false;
	while (!cas_acq_rel(&pd->holders, &n, n - 1));
	return true;
}

/* The holder that may be the last of a domain leaves under the lock, since find() adds holders. A
 * domain whose names were all given up (pd_unimport()) ends here. True: it was the last. */
static bool base_left(struct pd *base)
{
	struct context_objects *o = &base->ctx->root->objects;
	bool last, ended;

	if (!fork_is_ours(base->epoch))
		return fetch_sub_acq_rel(&base->holders, 1) == 1;
	pthread_mutex_lock(&o->lock);
	last = fetch_sub_acq_rel(&base->holders, 1) == 1;
	ended = last && ends(base);
	pthread_mutex_unlock(&o->lock);
	if (ended)
		give_number(base);
	return last;
}

/* Once: when it is deallocated, or its last holder leaves. */
static void parent_left(struct pd *pd)
{
	if (pd->kind != PD_PARENT || pd->gone)
		return;
	pd->gone = true;
	if (pd->td)
		fetch_sub_acq_rel(&pd->td->refs, 1);
	fetch_sub_acq_rel(&pd->base->refs, 1);
}

static void let_go(struct pd *pd)
{
	if (another_stays(pd))
		return;
	if (pd->base == pd) {
		if (base_left(pd))
			name_free(pd);
		return;
	}
	parent_left(pd);
	let_go(pd->base);
	name_free(pd);
}

int pd_create(struct context *ctx, struct pd **out)
{
	int err = context_use(ctx, "ibv_alloc_pd");
	struct pd *pd;

	if (!err)
		err = device_take(&ctx->hca->count.pd, LIMIT_PD, "ibv_alloc_pd");
	if (err)
		return err;
	pd = name_new(ctx, PD_PLAIN);
	if (!pd || numbers_take(&pdns, &pd->pdn)) {
		if (pd)
			name_free(pd);
		device_give(&ctx->hca->count.pd);
		return refuse(ENOMEM,
			      "ibv_alloc_pd: no memory or no number left for a PD; destroy some");
	}
	pd->ib.handle = pd->pdn;
	pthread_mutex_lock(&ctx->root->objects.lock);
	list_add(&ctx->root->objects.pds, &pd->node);
	pthread_mutex_unlock(&ctx->root->objects.lock);
	*out = pd;
	return 0;
}

static int busy(const struct pd *pd, uint32_t refs)
{
	char users[ALIVE_USERS];

	return refuse(EBUSY, "ibv_dealloc_pd: PD 0x%x is in use by %u object%s%s; destroy %s first",
		      pd->pdn, refs, refs == 1 ? "" : "s", alive_users(&pd->ib, users),
		      refs == 1 ? "it" : "them");
}

/* Destroys the domain itself. EINVAL: it was destroyed by another name before. */
static int base_destroy(struct pd *base)
{
	struct context_objects *o = &base->ctx->root->objects;
	uint32_t refs = load_acquire(&base->refs); /* pairs with pd_put() */
	bool ended;

	if (refs)
		return busy(base, refs);
	if (!fork_is_ours(base->epoch))
		return 0;
	pthread_mutex_lock(&o->lock);
	ended = ends(base);
	pthread_mutex_unlock(&o->lock);
	if (!ended)
		return refuse(EINVAL,
			      "ibv_dealloc_pd: PD 0x%x was destroyed by another of its names; give "
			      "this one up by ibv_unimport_pd()",
			      base->pdn);
	give_number(base);
	return 0;
}

static int parent_destroy(struct pd *pd)
{
	uint32_t refs = load_acquire(&pd->refs); /* pairs with pd_put() */

	if (refs)
		return busy(pd, refs);
	parent_left(pd);
	return 0;
}

int pd_destroy(struct pd *pd)
{
	int err = pd->kind == PD_PARENT ? parent_destroy(pd) : base_destroy(pd->base);

	if (!err)
		let_go(pd);
	return err;
}

int pd_use(struct pd *pd, const char *call)
{
	if (!fork_is_ours(pd->epoch))
		return refuse(EIO, "%s: PD 0x%x was made before fork(); make a PD in the child",
			      call, pd->pdn);
	if (unlikely(load_relaxed(&pd->base->gone)))
		return refuse(EINVAL,
			      "%s: PD 0x%x was destroyed by another of its names; allocate another",
			      call, pd->pdn);
	return context_use(pd->ctx, call);
}

void pd_get(struct pd *pd)
{
	fetch_add_relaxed(&pd->holders, 1);
	fetch_add_relaxed(&pd->refs, 1);
	if (pd->base != pd)
		fetch_add_relaxed(&pd->base->refs, 1);
}

void pd_put(struct pd *pd)
{
	if (pd->base != pd)
		fetch_sub_acq_rel(&pd->base->refs, 1);
	fetch_sub_acq_rel(&pd->refs, 1);
	let_go(pd);
}

static struct pd *find(struct context_objects *o, uint32_t handle)
{
	struct pd *found = NULL;
	struct list *at;

	pthread_mutex_lock(&o->lock);
	list_for_each(at, &o->pds)
	{
		struct pd *pd = container_of(at, struct pd, node);

		if (pd->ib.handle == handle)
			found = pd;
	}
	if (found)
		fetch_add_relaxed(&found->holders, 1);
	pthread_mutex_unlock(&o->lock);
	return found;
}

int pd_import(struct context *ctx, uint32_t handle, struct pd **out)
{
	int err = context_use(ctx, "ibv_import_pd");
	struct pd *base, *pd;

	if (err)
		return err;
	base = find(&ctx->root->objects, handle);
	if (!base)
		return refuse(EINVAL,
			      "ibv_import_pd: no PD of this device file has the handle 0x%x; pass "
			      "ibv_pd.handle of one that lives",
			      handle);
	pd = name_new(ctx, PD_IMPORTED);
	if (!pd) {
		let_go(base);
		return refuse(ENOMEM, "ibv_import_pd: no memory; raise the limit (ulimit -v)");
	}
	name_join(pd, base);
	*out = pd;
	return 0;
}

void pd_unimport(struct pd *pd)
{
	let_go(pd);
}

/* IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC, of headers after rdma-core 56: a leave,
 * for adapters that cannot reach the protected memory of a confidential guest. This one can. */
enum { ALLOW_UNPROTECTED = 1 << 2 };
#ifdef HAVE_MR_INIT_ATTR /* its release has this one too */
_Static_assert((int)IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC ==
		       (int)ALLOW_UNPROTECTED,
	       "value of the installed header");
#endif

static int parent_check(struct context *ctx, const struct ibv_parent_domain_init_attr *a)
{
	static const char call[] = "ibv_alloc_parent_domain";
	const uint32_t known = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			       IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT | ALLOW_UNPROTECTED;
	bool functions = a->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;

	if (!a->pd)
		return refuse(EINVAL, "%s: attr.pd is NULL; a parent domain needs a PD", call);
	if (a->comp_mask & ~known)
		return refuse(EINVAL, "%s: comp_mask 0x%x, known is 0x%x; leave the rest out", call,
			      a->comp_mask, known);
	if (functions && (!a->alloc || !a->free))
		return refuse(EINVAL, "%s: attr.%s is NULL; give both memory functions or neither",
			      call, a->alloc ? "free" : "alloc");
	if (to_pd(a->pd)->ctx->root != ctx->root)
		return refuse(EINVAL, "%s: PD 0x%x is of another context; use one of this", call,
			      to_pd(a->pd)->pdn);
	if (a->td && ((struct td *)a->td)->ctx->root != ctx->root)
		return refuse(EINVAL,
			      "%s: the thread domain is of another context; use one of this", call);
	return 0;
}

int pd_create_parent(struct context *ctx, const struct ibv_parent_domain_init_attr *attr,
		     struct pd **out)
{
	static const char call[] = "ibv_alloc_parent_domain";
	int err = parent_check(ctx, attr);
	struct pd *pd, *base;

	if (!err)
		err = pd_use(to_pd(attr->pd), call);
	if (!err)
		err = context_use(ctx, call);
	if (err)
		return err;
	pd = name_new(ctx, PD_PARENT);
	if (!pd)
		return refuse(ENOMEM, "%s: no memory; raise the limit (ulimit -v)", call);
	base = to_pd(attr->pd)->base;
	fetch_add_relaxed(&base->holders, 1);
	fetch_add_relaxed(&base->refs, 1);
	name_join(pd, base);
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) {
		pd->memory.alloc = attr->alloc;
		pd->memory.free = attr->free;
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)
		pd->memory.pd_context = attr->pd_context;
	pd->td = (struct td *)attr->td;
	if (pd->td)
		fetch_add_relaxed(&pd->td->refs, 1);
	*out = pd;
	return 0;
}

void *pd_memory_alloc(struct pd *pd, size_t size, size_t align, uint64_t type, int *err)
{
	void *p;

	*err = 0;
	if (!pd || !pd->memory.alloc)
		return NULL;
	p = pd->memory.alloc(&pd->ib, pd->memory.pd_context, size, align, type);
	if (p == IBV_ALLOCATOR_USE_DEFAULT)
		return NULL;
	if (!p || (uintptr_t)p % align) {
		*err = refuse(
			ENOMEM,
			"the alloc function of the parent domain of PD 0x%x gave %p for %zu B "
			"aligned to %zu; return such memory, or IBV_ALLOCATOR_USE_DEFAULT",
			pd->pdn, p, size, align);
		if (p)
			pd_memory_free(pd, p, type);
		return NULL;
	}
	memset(p, 0, size);
	return p;
}

void pd_memory_free(struct pd *pd, void *p, uint64_t type)
{
	pd->memory.free(&pd->ib, pd->memory.pd_context, p, type);
}

int td_create(struct context *ctx, const struct ibv_td_init_attr *attr, struct td **out)
{
	int err = context_use(ctx, "ibv_alloc_td");
	struct td *td;

	if (!err && attr->comp_mask)
		err = refuse(EINVAL, "ibv_alloc_td: comp_mask 0x%x, nothing is defined; pass 0",
			     attr->comp_mask);
	if (err)
		return err;
	td = calloc(1, sizeof(*td));
	if (!td)
		return refuse(ENOMEM, "ibv_alloc_td: no memory; raise the limit (ulimit -v)");
	context_get(ctx);
	td->ctx = ctx;
	td->epoch = fork_epoch();
	td->ib.context = &ctx->ib.context;
	*out = td;
	return 0;
}

int td_destroy(struct td *td)
{
	uint32_t refs = load_acquire(&td->refs); /* pairs with parent_destroy() */

	if (refs)
		return refuse(EBUSY,
			      "ibv_dealloc_td: %u parent domain%s the thread domain; deallocate %s "
			      "first",
			      refs, refs == 1 ? " uses" : "s use", refs == 1 ? "it" : "them");
	context_put(td->ctx);
	free(td);
	return 0;
}
