// SPDX-License-Identifier: MIT
#include "engine/reserved.h"
#include <errno.h>
#include "engine/node_state.h"
#include "engine/qp_table.h"
#include "hca/limits.h"
#include "obs/explain.h"
#include "util/fork.h"

static const char taking[] = "mlx5dv_reserved_qpn_alloc";

static int put(struct node *n, struct context *owner, uint32_t qpn)
{
	int err;

	mutex_lock(&n->lock);
	err = hash_put(&n->reserved, qpn, owner);
	mutex_unlock(&n->lock);
	return err ? refuse_memory(taking, sizeof(struct hash_slot)) : 0;
}

int reserved_take(struct context *ctx, uint32_t *qpn)
{
	int err = context_use(ctx, taking);
	struct node *n = node_self();

	if (err)
		return err;
	err = device_take(&ctx->hca->count.qp, LIMIT_QP, taking);
	if (err)
		return err;
	err = qp_table_take(n, qpn);
	if (!err) {
		err = put(n, ctx->root, *qpn);
		if (err)
			qp_table_give(n, *qpn);
	}
	if (err)
		device_give(&ctx->hca->count.qp);
	return err;
}

/* Under the lock. */
static bool take_out(struct node *n, const struct context *owner, uint32_t qpn)
{
	if (hash_get(&n->reserved, qpn) != owner)
		return false;
	hash_del(&n->reserved, qpn);
	return true;
}

int reserved_give(struct context *ctx, uint32_t qpn)
{
	int err = context_use(ctx, "mlx5dv_reserved_qpn_dealloc");
	struct node *n = node_self();
	bool found;

	if (err)
		return err;
	mutex_lock(&n->lock);
	found = take_out(n, ctx->root, qpn);
	mutex_unlock(&n->lock);
	if (!found)
		return refuse(EINVAL,
			      "mlx5dv_reserved_qpn_dealloc: 0x%x is no number that "
			      "mlx5dv_reserved_qpn_alloc gave to this context and that is still "
			      "reserved; give back each once",
			      qpn);
	qp_table_give(n, qpn);
	device_give(&ctx->hca->count.qp);
	return 0;
}

/* One number of @owner, out of the table. */
static bool take_any(struct node *n, const struct context *owner, uint32_t *qpn)
{
	bool found = false;

	mutex_lock(&n->lock);
	for (size_t i = 0; !found && i < n->reserved.size; i++) {
		*qpn = (uint32_t)n->reserved.slots[i].key;
		found = n->reserved.slots[i].val == owner;
	}
	if (found)
		hash_del(&n->reserved, *qpn);
	mutex_unlock(&n->lock);
	return found;
}

void reserved_close(struct context *ctx)
{
	struct node *n = node_self();
	uint32_t qpn;

	if (!n || ctx->root != ctx || !fork_is_ours(load_acquire(&ctx->epoch)))
		return;
	while (take_any(n, ctx, &qpn)) {
		qp_table_give(n, qpn);
		device_give(&ctx->hca->count.qp);
	}
}
