// SPDX-License-Identifier: MIT
#include "transport/local_work.h"
#include "hca/mkey/fleeting.h"
#include "hca/mkey/mkey.h"
#include "hca/mw.h"
#include "link/copy.h"
#include "transport/blame.h"
#include "transport/completer.h"
#include "transport/completion.h"
#include "transport/gather.h"
#include "transport/request.h"
#include "util/be.h"

enum { SOURCE = 0, TARGET = 1 }; /* entries of a copy's list */
enum { AT_ONCE = 64 << 10 /* bytes: so few have few pieces, whatever the layout of a key */ };

static const char *execute_umr(struct tqp *q, const struct sent *e)
{
	struct umr u;
	const char *why = "work requests of its service have no place for it";

	if (q->qp.service->wqe == WQE_CONNECTED)
		why = umr_parse(&q->qp.sq, e->block, &u);
	return why ? why : mkey_umr(q->qp.ctx->hca->keys, &u, q->qp.pd->pdn);
}

/* NULL: @w, the WQE of @e, is executed; else what refused it. */
static const char *execute_local(struct tqp *q, const struct sent *e, const struct wqe *w)
{
	struct key_table *keys = q->qp.ctx->hca->keys;
	struct mw_bind b = { .window = be32toh(w->imm),
			     .rkey = w->bind.rkey,
			     .lkey = w->bind.lkey,
			     .access = w->bind.access,
			     .addr = w->bind.addr,
			     .len = w->bind.len,
			     .pdn = q->qp.pd->pdn,
			     .qpn = q->qp.qpn };

	if (w->opcode == WQE_OPCODE_BIND_MW)
		return mw_bind(keys, &b);
	if (w->opcode == MLX5_OPCODE_UMR)
		return execute_umr(q, e);
	if (w->opcode == MLX5_OPCODE_LOCAL_INVAL)
		return fleeting_invalidate(keys,
					   &(struct invalidation){ b.window, b.pdn, b.qpn, false });
	return NULL;
}

static bool pass(struct tqp *q, uint64_t now)
{
	q->req.cur++;
	completer_acked(q, q->req.una, now);
	return true;
}

static bool done(struct tqp *q, struct sent *e, uint64_t now)
{
	e->flags |= SENT_DONE;
	return pass(q, now);
}

static bool part(const struct tqp *q, const struct wqe *w, uint64_t at, uint32_t len,
		 struct gather *g)
{
	const struct key_table *keys = q->qp.ctx->hca->keys;
	struct gather from;
	struct gather_ask ask = { &w->sge[SOURCE], 1, at, len, q->qp.pd->pdn, 0, 0 };

	if (!gather(keys, &ask, g))
		return false;
	from = *g;
	ask.sge = &w->sge[TARGET];
	ask.need = IBV_ACCESS_LOCAL_WRITE;
	if (!gather(keys, &ask, g)) {
		g->which = TARGET;
		return false;
	}
	g->why = KEY_OK;
	return !copy_pieces(g->piece, g->n, from.piece, from.n, 0);
}

/* False: a key or the memory refuses; @g says which, with why KEY_OK for memory that is gone. */
static bool copy_memory(const struct tqp *q, const struct wqe *w, struct gather *g)
{
	uint32_t len = w->sge[SOURCE].len;

	for (uint32_t at = 0; at < len; at += AT_ONCE)
		if (!part(q, w, at, len - at < AT_ONCE ? len - at : AT_ONCE, g))
			return false;
	return true;
}

/* Copies again if it is to fail, since it fails in its place; that does no harm. */
static bool copy(struct tqp *q, struct sent *e, const struct wqe *w, uint64_t now)
{
	struct gather g;

	if (e->flags & SENT_DONE || copy_memory(q, w, &g))
		return done(q, e, now);
	return request_fail(q, w, V_LOCAL_PROT, &g, now);
}

bool local_work_do(struct tqp *q, struct sent *e, const struct wqe *w, uint64_t now)
{
	struct requester *r = &q->req;
	const char *why = NULL;

	if (e->flags & SENT_FLUSHED) /* of a stream in error */
		return pass(q, now);
	if (w->opcode == MLX5_OPCODE_MMO)
		return copy(q, e, w, now);
	if (!(e->flags & SENT_DONE))
		why = execute_local(q, e, w);
	if (why) {
		if (r->cur == r->head)
			completion_fail(q, V_MW_BIND, blame_window(q, w, why), now);
		return false;
	}
	return done(q, e, now);
}
