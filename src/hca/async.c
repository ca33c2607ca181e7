// SPDX-License-Identifier: MIT
#include "hca/async.h"
#include <errno.h>
#include "hca/async_queue.h"
#include "hca/event_fd.h"
#include "util/barrier.h"
#include "util/fork.h"

void async_push(struct context *ctx, enum ibv_event_type type, void *element)
{
	async_queue_push(ctx->async, type, element, false);
}

void async_push_once(struct context *ctx, enum ibv_event_type type, void *element)
{
	async_queue_push(ctx->async, type, element, true);
}

int async_pop(struct context *ctx, struct ibv_async_event *out)
{
	int err = context_use(ctx, "ibv_get_async_event");
	const struct event_takers *t;

	if (err)
		return err;
	t = ctx->hca->taken;
	return async_queue_pop(ctx->async, t ? t->async : NULL, out) ? 0 : EAGAIN;
}

int async_wait(struct context *ctx, struct ibv_async_event *out)
{
	int err = async_pop(ctx, out);

	while (err == EAGAIN) { /* another thread that waits may be faster */
		err = event_fd_await(ctx->ib.context.async_fd);
		if (err)
			return err;
		err = async_pop(ctx, out);
	}
	return err;
}

unsigned int async_drop(struct context *ctx, const void *element)
{
	if (!fork_is_ours(load_acquire(&ctx->epoch))) /* as in context_use() */
		return 0;
	return async_queue_drop(ctx->async, element);
}
