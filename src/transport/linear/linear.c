// SPDX-License-Identifier: MIT
#include "transport/linear/linear.h"
#include <errno.h>
#include <stdlib.h>
#include "link/copy.h"
#include "link/link.h"

/* A piece that no copy can use: the fault is reported as that of any other memory. */
static const struct piece nowhere = { 0, 1, 0 };

static bool room(struct tqp *q, uint64_t len)
{
	uint8_t *more;

	if (len <= q->linear.size)
		return true;
	more = realloc(q->linear.buf, len);
	if (!more)
		return false;
	q->linear.buf = more;
	q->linear.size = len;
	return true;
}

void linear_free(struct tqp *q)
{
	free(q->linear.buf);
	q->linear.buf = NULL;
	q->linear.size = 0;
}

static uint64_t covered(const struct gather *g)
{
	uint64_t n = 0;

	for (unsigned int i = 0; i < g->n; i++)
		n += g->piece[i].len;
	return n;
}

/* Copies what @ask names, as many pieces at a time as there may be. 0; EFAULT; EPERM: a key
 * refuses, as @g says. */
static int copy(const struct tqp *q, const struct gather_ask *ask, bool store, struct gather *g)
{
	struct gather_ask rest = *ask;
	uint8_t *at = q->linear.buf;

	while (rest.len) {
		bool all = gather(q->qp.ctx->hca->keys, &rest, g);
		uint64_t n = covered(g);
		int err;

		if (!all && (g->why != KEY_APART || !n))
			return EPERM;
		err = store ? copy_scatter(g->piece, g->n, 0, at, n)
			    : copy_gather(at, g->piece, g->n, 0, n);
		if (err)
			return err;
		at += n;
		rest.skip += n;
		rest.len -= n;
	}
	return 0;
}

static bool whole(const struct tqp *q, uint64_t len, int err, struct gather *g)
{
	if (err == EPERM)
		return false;
	g->why = KEY_OK;
	g->n = 1;
	g->piece[0] = err ? nowhere : (struct piece){ (uintptr_t)q->linear.buf, (uint32_t)len, 0 };
	g->piece[0].len = (uint32_t)len;
	return true;
}

__attribute__((noinline)) bool linear_source(struct tqp *q, struct gather_ask *ask, uint32_t max,
					     struct gather *g)
{
	uint64_t len = ask->len < max ? ask->len : max;

	if (g->why != KEY_APART || !room(q, len))
		return false;
	ask->len = len;
	return whole(q, len, copy(q, ask, false, g), g);
}

/* 0, or the errno of the copy that place_copy() makes too */
static int take(const struct tqp *q, const struct seg *s, uint32_t skip)
{
	struct piece all = { (uintptr_t)q->linear.buf, s->len - skip, 0 };

	if (s->flags & SEG_BYREF)
		return s->from->ops->fetch(s->from, s, skip, &all, 1);
	return copy_scatter(&all, 1, 0, s->data + skip, s->len - skip);
}

__attribute__((noinline)) bool linear_place(struct tqp *q, const struct gather_ask *ask,
					    const struct seg *s, uint32_t skip, struct gather *g)
{
	int err;

	if (g->why != KEY_APART || !room(q, ask->len))
		return false;
	err = take(q, s, skip);
	/* what the peer's memory refuses it refuses again, and the caller hears why; were it there
	 * then, it would still not be placed */
	return whole(q, ask->len, err ? EFAULT : copy(q, ask, true, g), g);
}
