// SPDX-License-Identifier: MIT
#include "hca/pd.h"
#include <errno.h>
#include <stdlib.h>
#include "hca/limits.h"
#include "hca/numbers.h"
#include "obs/explain.h"
#include "util/barrier.h"
#include "util/fork.h"

NUMBERS(pdns, 1 << 18); /* LIMIT_PD for each of 16 devices */

int pd_create(struct context *ctx, struct pd **out)
{
	int err = context_use(ctx, "ibv_alloc_pd");
	struct pd *pd;

	if (!err)
		err = device_take(&ctx->hca->count.pd, LIMIT_PD, "ibv_alloc_pd");
	if (err)
		return err;
	pd = calloc(1, sizeof(*pd));
	if (!pd || numbers_take(&pdns, &pd->pdn)) {
		free(pd);
		device_give(&ctx->hca->count.pd);
		return refuse(ENOMEM,
			      "ibv_alloc_pd: no memory or no number left for a PD; destroy some");
	}
	context_get(ctx);
	pd->ib = (struct ibv_pd){ .context = &ctx->ib.context, .handle = pd->pdn };
	pd->ctx = ctx;
	pd->epoch = fork_epoch();
	*out = pd;
	return 0;
}

int pd_destroy(struct pd *pd)
{
	uint32_t refs = load_acquire(&pd->refs); /* pairs with pd_put() */

	if (refs)
		return refuse(EBUSY,
			      "ibv_dealloc_pd: PD 0x%x is in use by %u object%s; destroy %s first",
			      pd->pdn, refs, refs == 1 ? "" : "s", refs == 1 ? "it" : "them");
	if (fork_is_ours(pd->epoch)) {
		numbers_give(&pdns, pd->pdn);
		device_give(&pd->ctx->hca->count.pd);
	}
	context_put(pd->ctx);
	free(pd);
	return 0;
}

int pd_use(struct pd *pd, const char *call)
{
	if (!fork_is_ours(pd->epoch))
		return refuse(EIO, "%s: PD 0x%x was made before fork(); make a PD in the child",
			      call, pd->pdn);
	return context_use(pd->ctx, call);
}

void pd_get(struct pd *pd)
{
	fetch_add_relaxed(&pd->refs, 1);
}

void pd_put(struct pd *pd)
{
	fetch_sub_acq_rel(&pd->refs, 1);
}
