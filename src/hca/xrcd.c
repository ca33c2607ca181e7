// SPDX-License-Identifier: MIT
#include "hca/xrcd.h"
#include <errno.h>
#include <stdlib.h>
#include "hca/alive.h"
#include "obs/explain.h"
#include "util/barrier.h"
#include "util/fork.h"

int xrcd_create(struct context *ctx, struct xrc_domain *domain, struct xrcd **out)
{
	struct xrcd *x = calloc(1, sizeof(*x));

	if (!x)
		return refuse(
			ENOMEM,
			"ibv_open_xrcd: no memory for an XRC domain; raise the limit (ulimit -v)");
	context_get(ctx);
	*x = (struct xrcd){
		.ib.context = &ctx->ib.context, .ctx = ctx, .epoch = fork_epoch(), .domain = domain
	};
	*out = x;
	return 0;
}

int xrcd_idle(const struct xrcd *x)
{
	uint32_t refs = load_acquire(&x->refs); /* pairs with xrcd_put() */

	char users[ALIVE_USERS];

	if (!refs)
		return 0;
	return refuse(EBUSY,
		      "ibv_close_xrcd: the XRC domain is in use by %u object%s%s; destroy %s first",
		      refs, refs == 1 ? "" : "s", alive_users(&x->ib, users),
		      refs == 1 ? "it" : "them");
}

void xrcd_free(struct xrcd *x)
{
	context_put(x->ctx);
	free(x);
}

int xrcd_use(struct xrcd *x, const char *call)
{
	if (!fork_is_ours(x->epoch))
		return refuse(EIO,
			      "%s: the XRC domain was opened before fork(); open it in the child",
			      call);
	return context_use(x->ctx, call);
}

void xrcd_get(struct xrcd *x)
{
	fetch_add_relaxed(&x->refs, 1);
}

void xrcd_put(struct xrcd *x)
{
	fetch_sub_acq_rel(&x->refs, 1);
}
