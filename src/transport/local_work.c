// SPDX-License-Identifier: MIT
#include "transport/local_work.h"
#include <stdio.h>
#include <stdlib.h>
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
enum { WHY = 384 /* bytes of the text that says what refused a UMR */ };

/* Copies the list of @u, which stands in the program's memory, once, to @buf. */
static const char *fetch_list(const struct tqp *q, const struct umr *u, uint8_t *buf,
			      char text[WHY])
{
	const struct key_table *keys = q->qp.ctx->hca->keys;
	const struct gather_ask ask = { &u->away, 1, 0, u->away.len, q->qp.pd->pdn, 0, 0 };
	char key[WHY / 2];
	struct gather g;

	if (!gather(keys, &ask, &g)) {
		snprintf(text, WHY, "its list: %s; use a key of the QP's PD that covers it",
			 key_describe(keys, g.why, &g.refused, key, sizeof(key)));
		return text;
	}
	if (copy_gather(buf, g.piece, g.n, 0, u->away.len))
		return "the memory of its list is not mapped any more; keep it mapped until the "
		       "completion";
	return NULL;
}

/* As long as the list, which the mkey copies. */
static const char *umr_from_memory(struct tqp *q, struct umr *u, char text[WHY])
{
	uint8_t *buf = malloc(u->away.len);
	struct umr_part *part = calloc(u->away.len / UMR_ENTRY, sizeof(*part));
	const char *why = "there is no memory for its list; raise the limit (ulimit -v)";

	if (buf && part)
		why = fetch_list(q, u, buf, text);
	if (buf && part && !why)
		why = umr_read_list(u, buf, part);
	why = why ? why : mkey_umr(q->qp.ctx->hca->keys, u, q->qp.pd->pdn);
	free(part);
	free(buf);
	return why;
}

static const char *execute_umr(struct tqp *q, const struct sent *e, char text[WHY])
{
	const char *why;
	struct umr u;

	if (q->qp.service->wqe != WQE_CONNECTED)
		return "work requests of its service have no place for it";
	why = umr_parse(&q->qp.sq, e->block, &u);
	if (why)
		return why;
	return u.away.len ? umr_from_memory(q, &u, text)
			  : mkey_umr(q->qp.ctx->hca->keys, &u, q->qp.pd->pdn);
}

/* NULL: @w, the WQE of @e, is executed; else what refused it, which may stand in @text. */
static const char *execute_local(struct tqp *q, const struct sent *e, const struct wqe *w,
				 char text[WHY])
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
		return execute_umr(q, e, text);
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

/* The memory of one side of a copy, from byte @at on: @len bytes, or as many of them as there are
 * pieces for. 0: a key refuses. */
static uint64_t side(const struct tqp *q, const struct wqe *w, unsigned int which, uint64_t at,
		     uint64_t len, struct gather *g)
{
	const struct gather_ask ask = { .sge = &w->sge[which],
					.n = 1,
					.skip = at,
					.len = len,
					.pdn = q->qp.pd->pdn,
					.need = which == TARGET ? IBV_ACCESS_LOCAL_WRITE : 0 };

	if (!gather(q->qp.ctx->hca->keys, &ask, g) && g->why != KEY_APART) {
		g->which = which;
		return 0;
	}
	return gather_bytes(g);
}

/* False: a key or the memory refuses; @g says which, with why KEY_OK for memory that is gone. */
static bool copy_memory(const struct tqp *q, const struct wqe *w, struct gather *g)
{
	uint64_t n, len = w->sge[SOURCE].len;
	struct gather from;

	for (uint64_t at = 0; at < len; at += n) {
		n = side(q, w, SOURCE, at, len - at, g);
		from = *g;
		if (n)
			n = side(q, w, TARGET, at, n, g);
		if (!n)
			return false;
		g->why = KEY_OK;
		if (copy_pieces(g->piece, g->n, from.piece, from.n, 0))
			return false;
	}
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
	char text[WHY];

	if (e->flags & SENT_FLUSHED) /* of a stream in error */
		return pass(q, now);
	if (w->opcode == MLX5_OPCODE_MMO)
		return copy(q, e, w, now);
	if (!(e->flags & SENT_DONE))
		why = execute_local(q, e, w, text);
	if (why) {
		if (r->cur == r->head)
			completion_fail(q, V_MW_BIND, blame_window(q, w, why), now);
		return false;
	}
	return done(q, e, now);
}
