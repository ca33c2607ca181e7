// SPDX-License-Identifier: MIT
/* What every kind of region needs to become known by a key: rights that go together, and a place in
 * the key table. */
#include <errno.h>
#include <stdlib.h>
#include "hca/limits.h"
#include "hca/mr.h"
#include "obs/explain.h"
#include "util/fork.h"

#define OPTIONAL	  0x3ff00000U /* bits 20..29 may always be ignored */
#define NEEDS_LOCAL_WRITE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
#define FLUSH		  0x300U /* IBV_ACCESS_FLUSH_GLOBAL, _PERSISTENT of newer headers */
#ifdef HAVE_WR_FLUSH
_Static_assert((IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT) == FLUSH,
	       "values of the installed header");
#endif

int mr_access_check(unsigned int access, unsigned int allowed, const char *call)
{
	unsigned int asked = access & ~OPTIONAL;

	if (asked & ~(allowed | FLUSH))
		return refuse(EINVAL,
			      "%s: access 0x%x has bits 0x%x that are not known here; use "
			      "IBV_ACCESS_* flags of 0x%x",
			      call, access, asked & ~(allowed | FLUSH), allowed);
	if ((asked & NEEDS_LOCAL_WRITE) && !(asked & IBV_ACCESS_LOCAL_WRITE))
		return refuse(EINVAL,
			      "%s: access 0x%x asks for REMOTE_WRITE or REMOTE_ATOMIC without "
			      "LOCAL_WRITE; add IBV_ACCESS_LOCAL_WRITE",
			      call, access);
	if (asked & FLUSH)
		return refuse(EOPNOTSUPP,
			      "%s: access 0x%x has IBV_ACCESS_FLUSH_* (0x%x), and this device "
			      "flushes no memory (device_cap_flags_ex); leave them out",
			      call, access, asked & FLUSH);
	return 0;
}

unsigned int mr_rights(unsigned int access)
{
	return access & ~OPTIONAL;
}

void mr_set(struct mr *mr, struct pd *pd, const struct mr *like)
{
	mr->pd = pd;
	mr->kind = like->kind;
	mr->iova = like->iova;
	mr->base = like->base;
	mr->access = like->access;
	mr->ib.pd = &pd->ib;
	mr->ib.addr = like->ib.addr;
	mr->ib.length = like->ib.length;
}

int mr_publish(struct pd *pd, const struct mr *like, const struct key_entry *e, const char *call,
	       struct mr **out)
{
	uint32_t *count = &pd->ctx->hca->count.mr;
	struct mr *mr;
	int err = device_take(count, LIMIT_MR, call);

	if (err)
		return err;
	mr = calloc(1, sizeof(*mr));
	if (!mr) {
		err = refuse(ENOMEM, "%s: no memory; raise the limit (ulimit -v)", call);
		goto fail;
	}
	mr_set(mr, pd, like);
	mr->behind = like->behind;
	mr->release = like->release;
	mr->epoch = fork_epoch();
	mr->ib.context = pd->ib.context;
	err = key_add(pd->ctx->hca->keys, e, mr,
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
