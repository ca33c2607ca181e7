// SPDX-License-Identifier: MIT
#include "transport/linear/linear.h"
#include <errno.h>
#include <stdlib.h>
#include "hca/mkey/mkey.h"
#include "link/copy.h"
#include "link/link.h"
#include "obs/explain.h"

/* A piece that no copy can use: the fault is reported as that of any other memory. */
static const struct piece nowhere = { 0, 1, 0 };

static bool room(struct linear_buffer *b, uint64_t len)
{
	uint8_t *more;

	if (len <= b->size)
		return true;
	more = realloc(b->bytes, len);
	if (!more)
		return false;
	b->bytes = more;
	b->size = len;
	return true;
}

static void drop(struct linear_buffer *b)
{
	free(b->bytes);
	*b = (struct linear_buffer){ 0 };
}

void linear_free(struct tqp *q)
{
	drop(&q->linear.part);
	drop(&q->linear.image);
}

enum { OUT, IN }; /* of memory: what is sent, what came */

/* As many pieces at a time as there may be. 0; EFAULT; EPERM: a key refuses, or has a signature, as
 * @g says: *@done bytes stand before what it refuses. */
static int copy_some(const struct key_table *keys, const struct gather_ask *ask, int way,
		     uint8_t *bytes, struct gather *g, uint64_t *done)
{
	struct gather_ask rest = *ask;

	for (*done = 0; rest.len;) {
		bool all = gather(keys, &rest, g);
		uint64_t n = gather_bytes(g);
		int err;

		if (!all && !key_is_apart(g->why))
			return EPERM;
		err = way == IN ? copy_scatter(g->piece, g->n, 0, bytes + *done, n)
				: copy_gather(bytes + *done, g->piece, g->n, 0, n);
		if (err)
			return err;
		*done += n;
		rest.skip += n;
		rest.len -= n;
		if (!all && (g->why == KEY_SIGNED || !n))
			return EPERM;
	}
	return 0;
}

enum { STEPS = 16 };

/* Bytes [at, at + len) of the parts of a layout, which no signature changes */
struct memory {
	const struct mkey_layout *l;
	uint64_t at, len;
};

static int copy_memory(const struct tqp *q, struct memory m, int way, uint8_t *bytes,
		       struct gather *g)
{
	struct sge sge[STEPS];
	struct gather_ask ask = { .sge = sge,
				  .pdn = g->refused.pdn,
				  .need = way == IN ? IBV_ACCESS_LOCAL_WRITE : 0 };
	uint64_t done;
	int err = 0;

	while (m.len && !err) {
		for (ask.n = 0, ask.len = 0; ask.n < STEPS && ask.len < m.len; ask.n++) {
			struct mkey_step s = mkey_layout_find(m.l, m.at + ask.len, m.len - ask.len);

			sge[ask.n] = (struct sge){ s.va, (uint32_t)s.len, s.key };
			ask.len += s.len;
		}
		err = copy_some(q->qp.ctx->hca->keys, &ask, way, bytes, g, &done);
		m.at += ask.len;
		bytes += ask.len;
		m.len -= ask.len;
	}
	return err;
}

static void found(struct tqp *q, struct mkey *m, const struct sig_error *e)
{
	static const char *const names[] = { "", "guard", "application tag", "reference tag" };

	if (e->wrong == SIG_GOOD || !mkey_found(m, e))
		return;
	q->linear.wrong = true;
	reason("QP 0x%x, mkey 0x%x: the %s of the block at byte %llu %s is wrong; the data was "
	       "moved all the same, and mlx5dv_mkey_check() tells both values",
	       q->qp.shown, m->dv.lkey, names[e->wrong], (unsigned long long)e->offset,
	       e->on_wire ? "on the wire" : "in memory");
}

/* The part of a message that @g was refused for, since its key has a signature: its bytes on the
 * wire are @bytes. */
static int copy_signed(struct tqp *q, int way, uint8_t *bytes, struct gather *g)
{
	const struct key_ask ask = g->refused;
	uint64_t off;
	const struct mkey_layout *l = key_signature(q->qp.ctx->hca->keys, &ask, &off);
	struct mkey *m = key_lookup_mkey(q->qp.ctx->hca->keys, ask.key);
	struct sig_error e = { 0 };
	struct sig_part p;
	uint8_t *image;
	int err;

	if (!l || !m)
		return EPERM;
	p = sig_part(&l->sig, l->mem, off, ask.len, way == IN);
	if (!room(&q->linear.image, p.size))
		return EFAULT;
	image = q->linear.image.bytes;
	err = copy_memory(q, (struct memory){ l, p.image, p.load }, OUT, image, g);
	if (err)
		return err;
	if (way == OUT) {
		sig_send(&l->sig, &p, image, bytes, &e);
	} else {
		struct sig_rest rest = mkey_rest(m, NULL);

		sig_receive(&l->sig, &p, bytes, image, &rest, &e);
		mkey_rest(m, &rest);
		err = copy_memory(q, (struct memory){ l, p.image + p.skip, p.size - p.skip }, IN,
				  image + p.skip, g);
	}
	found(q, m, &e);
	return err;
}

/* Copies what @ask names. 0; EFAULT; EPERM: a key refuses, as @g says. */
static int copy(struct tqp *q, const struct gather_ask *ask, int way, struct gather *g)
{
	struct gather_ask rest = *ask;
	uint8_t *bytes = q->linear.part.bytes;
	uint64_t done;
	int err = 0;

	q->linear.wrong = false;
	while (rest.len && !err) {
		err = copy_some(q->qp.ctx->hca->keys, &rest, way, bytes, g, &done);
		if (err == EPERM && g->why == KEY_SIGNED) {
			uint64_t len = g->refused.len;

			err = copy_signed(q, way, bytes + done, g);
			done += len;
		}
		bytes += done;
		rest.skip += done;
		rest.len -= done;
	}
	return err;
}

static bool whole(const struct tqp *q, uint64_t len, int err, struct gather *g)
{
	if (err == EPERM)
		return false;
	g->why = KEY_OK;
	g->n = 1;
	g->piece[0] =
		err ? nowhere : (struct piece){ (uintptr_t)q->linear.part.bytes, (uint32_t)len, 0 };
	g->piece[0].len = (uint32_t)len;
	return true;
}

__attribute__((noinline)) bool linear_source(struct tqp *q, struct gather_ask *ask, uint32_t max,
					     struct gather *g)
{
	uint64_t len = ask->len < max ? ask->len : max;

	if (!key_is_apart(g->why) || !room(&q->linear.part, len))
		return false;
	ask->len = len;
	return whole(q, len, copy(q, ask, OUT, g), g);
}

/* 0, or the errno of the copy that place_copy() makes too */
static int take(const struct tqp *q, const struct seg *s, uint32_t skip)
{
	struct piece all = { (uintptr_t)q->linear.part.bytes, s->len - skip, 0 };

	if (s->flags & SEG_BYREF)
		return s->from->ops->fetch(s->from, s, skip, &all, 1);
	return copy_scatter(&all, 1, 0, s->data + skip, s->len - skip);
}

__attribute__((noinline)) bool linear_place(struct tqp *q, const struct gather_ask *ask,
					    const struct seg *s, uint32_t skip, struct gather *g)
{
	int err;

	q->linear.wrong = false;
	if (!key_is_apart(g->why) || !room(&q->linear.part, ask->len))
		return false;
	err = take(q, s, skip);
	/* what the peer's memory refuses it refuses again, and the caller hears why; were it there
	 * then, it would still not be placed */
	return whole(q, ask->len, err ? EFAULT : copy(q, ask, IN, g), g);
}
