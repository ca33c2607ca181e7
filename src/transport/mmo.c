// SPDX-License-Identifier: MIT
#include "transport/mmo.h"
#include "hca/limits.h"
#include "link/copy.h"

enum { COPY = 1 /* opmod */, SOURCE = 0, TARGET = 1 /* entries of the list */ };
enum { AT_ONCE = 64 << 10 /* bytes: so few have few pieces, whatever the layout of a key */ };

bool mmo_is_copy(const struct wqe *w)
{
	return w->opmod == COPY && w->nsge == 2 && !w->inlined &&
	       w->sge[SOURCE].len == w->sge[TARGET].len && w->sge[SOURCE].len <= LIMIT_MEMCPY;
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

bool mmo_copy(const struct tqp *q, const struct wqe *w, struct gather *g)
{
	uint32_t len = w->sge[SOURCE].len;

	for (uint32_t at = 0; at < len; at += AT_ONCE)
		if (!part(q, w, at, len - at < AT_ONCE ? len - at : AT_ONCE, g))
			return false;
	return true;
}
