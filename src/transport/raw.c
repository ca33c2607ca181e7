// SPDX-License-Identifier: MIT
#include "transport/raw.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "hca/limits.h"
#include "link/copy.h"
#include "obs/explain.h"
#include "transport/blame.h"
#include "transport/cast.h"
#include "transport/completion.h"
#include "transport/flush.h"
#include "transport/gather.h"
#include "transport/pace.h"
#include "wire/aeth.h"
#include "wire/frame.h"

enum verdict raw_allowed(const struct wqe *w)
{
	uint32_t longest = w->len;

	if (w->opcode != MLX5_OPCODE_SEND && w->opcode != MLX5_OPCODE_TSO)
		return V_LOCAL_QP_OP;
	if (w->opcode == MLX5_OPCODE_TSO) {
		if (!w->mss || w->len > LIMIT_TSO)
			return V_LOCAL_LENGTH;
		longest = w->len < w->mss ? w->len : w->mss;
	}
	if (longest > FRAME_MAX || w->head_len + longest > FRAME_MAX ||
	    w->head_len + longest < FRAME_ETH_LEN)
		return V_LOCAL_LENGTH;
	return V_OK;
}

static bool payload(struct tqp *q, const struct wqe *w, uint32_t n, struct gather *g)
{
	struct gather_ask ask = {
		w->sge, w->nsge, q->req.tso.bytes, n, q->qp.pd->pdn, 0, w->inlined
	};

	return gather(q->qp.ctx->hca->keys, &ask, g);
}

/* Builds the frame with @n bytes of data in the QP's buffer. V_LOCAL_PROT: *g says why. */
static enum verdict build(struct tqp *q, const struct wqe *w, uint32_t n, struct gather *g)
{
	uint8_t *at = q->req.frame;
	struct frame_cut cut = { w->head_len, q->req.tso.bytes, n, w->len, q->req.tso.segments };

	for (unsigned int i = 0; i < w->nhead; i++) {
		memcpy(at, (const void *)(uintptr_t)w->head[i].addr, w->head[i].len);
		at += w->head[i].len;
	}
	if (!payload(q, w, n, g))
		return V_LOCAL_PROT;
	if (n && copy_gather(at, g->piece, g->n, 0, n)) {
		g->why = KEY_OK;
		return V_LOCAL_PROT;
	}
	return w->opcode == MLX5_OPCODE_TSO && !frame_segment(q->req.frame, &cut) ? V_LOCAL_LENGTH
										  : V_OK;
}

static unsigned int sums(const struct wqe *w)
{
	if (w->opcode == MLX5_OPCODE_TSO)
		return FRAME_L3_OK | FRAME_L4_OK; /* each segment has its own checksums */
	return (w->cs_flags & MLX5_ETH_WQE_L3_CSUM ? FRAME_L3_OK : 0) |
	       (w->cs_flags & MLX5_ETH_WQE_L4_CSUM ? FRAME_L4_OK : 0);
}

/* Fills in checksums and padding, and sends the frame. */
static int emit(struct tqp *q, const struct wqe *w, uint32_t len, uint64_t now)
{
	struct seg s = { .op = FRAME_OP, .flags = SEG_NO_REF, .sqpn = q->qp.qpn, .npsn = 1 };
	unsigned int which = sums(w);

	if (which)
		frame_checksums_fill(q->req.frame, len, which);
	if (len < FRAME_MIN) {
		memset(q->req.frame + len, 0, FRAME_MIN - len);
		len = FRAME_MIN;
	}
	s.data = q->req.frame;
	s.len = len;
	return cast_send(q, &s, now);
}

static bool allot(struct tqp *q, uint64_t now)
{
	if (likely(q->req.frame))
		return true;
	q->req.frame = malloc(FRAME_MAX);
	if (!q->req.frame)
		flush_to_err(q,
			     reason("QP 0x%x: no memory for a frame; raise the limit (ulimit -v)",
				    q->qp.qpn),
			     now);
	return q->req.frame;
}

static void finish(struct tqp *q, struct sent *e, uint64_t now)
{
	struct requester *r = &q->req;

	r->tso.bytes = r->tso.segments = 0;
	r->una = r->psn = r->max_psn = psn_add(e->psn, e->npsn);
	r->cur++;
	completion_done(q, now);
}

/* True: the next frame of the entry is out. */
static bool send_one(struct tqp *q, const struct wqe *w, uint32_t n, uint64_t now)
{
	struct gather g;
	enum verdict v = build(q, w, n, &g);

	if (v != V_OK) {
		cast_stop(q);
		q->req.tso.bytes = q->req.tso.segments = 0;
		completion_fail(q, v, blame_wqe(q, w, v, v == V_LOCAL_PROT ? &g : NULL), now);
		return false;
	}
	if (emit(q, w, w->head_len + n, now) == EAGAIN)
		return false;
	if (unlikely(q->req.pace.kbps))
		pace_sent(q, w->head_len + n, 0, now); /* @n and the headers are the whole frame */
	return true;
}

bool raw_send(struct tqp *q, struct sent *e, const struct wqe *w, uint64_t now)
{
	struct requester *r = &q->req;
	uint32_t step = w->opcode == MLX5_OPCODE_TSO ? w->mss : w->len, left;

	if (!e->npsn) { /* NOP */
		finish(q, e, now);
		return true;
	}
	if (!allot(q, now))
		return false;
	do {
		if (unlikely(r->pace.kbps) && !pace_open(q, now))
			return false;
		left = w->len - r->tso.bytes;
		left = left < step ? left : step;
		if (!send_one(q, w, left, now))
			return false;
		r->tso.bytes += left;
		r->tso.segments++;
	} while (r->tso.bytes < w->len);
	finish(q, e, now);
	return true;
}
