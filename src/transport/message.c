// SPDX-License-Identifier: MIT
#include "transport/message.h"
#include <errno.h>
#include "transport/congestion.h"
#include "transport/credit.h"
#include "transport/direct.h"
#include "transport/flush.h"
#include "transport/form.h"
#include "transport/gather.h"
#include "transport/linear/linear.h"
#include "transport/pace.h"
#include "transport/request.h"
#include "transport/sent.h"

static inline uint32_t whole_packets(const struct tqp *q, uint32_t max)
{
	max &= ~(q->req.mtu - 1); /* a power of two */
	if (unlikely(q->req.pace.kbps))
		max = pace_segment(q, max);
	return max ? max : q->req.mtu;
}

/* May the link refer to the payload, until the peer has fetched it? UC completes what it has sent:
 * then the buffer is the program's again. */
static bool by_reference(const struct tqp *q)
{
	return q->qp.service->reliable && !q->req.by_value;
}

static uint32_t segment_max(const struct tqp *q, const struct wqe *w, bool *by_value)
{
	const struct dest *d = q->dest;

	*by_value = w->inlined || !by_reference(q) || !d || !load_relaxed(&d->max_ref) ||
		    w->len <= d->inline_max;
	if (!d)
		return q->req.mtu;
	return whole_packets(q, *by_value ? d->max_seg : load_relaxed(&d->max_ref));
}

/* The payload lies in too many places: as much as goes by value leaves through a copy. */
__attribute__((noinline)) static bool through_a_copy(struct tqp *q, struct gather_ask *ask,
						     struct gather *g)
{
	return linear_source(q, ask, q->dest ? whole_packets(q, q->dest->max_seg) : q->req.mtu, g);
}

static uint8_t op_at(const struct form *f, bool first, bool last)
{
	if (first)
		return last ? f->only : f->first;
	return last ? f->last : f->middle;
}

/* A SEND has no target: its header leaves 16 more bytes of a ring's cache line to the payload. */
static void target(const struct wqe *w, struct seg *s)
{
	bool has = w->opcode == MLX5_OPCODE_RDMA_WRITE || w->opcode == MLX5_OPCODE_RDMA_WRITE_IMM;

	s->va = has ? w->raddr : 0;
	s->rkey = has ? w->rkey : 0;
	s->dma_len = has ? w->len : 0;
}

/* A WRITE of UC by direct access, of which @skip bytes are sent, though it is too long for a
 * segment: out of line, few are. */
__attribute__((noinline)) static enum direct_way
whole(struct tqp *q, struct sent *e, const struct wqe *w, uint32_t skip, uint64_t now)
{
	struct gather_ask ask = { w->sge, w->nsge, 0, w->len, q->qp.pd->pdn, 0, w->inlined };
	struct gather g;

	if (q->qp.service->reliable || skip || e->opcode != MLX5_OPCODE_RDMA_WRITE ||
	    !q->qp.service->direct || !gather(q->qp.ctx->hca->keys, &ask, &g))
		return BY_RING;
	return direct_try(q, e, w, &g, now);
}

/* Shall the @k-th packet of a message, not its last, ask for an ACK? */
static bool asks(struct tqp *q, const struct sent *e, uint32_t k, uint64_t now)
{
	return q->req.again || congestion_asks(q, k) || credit_asks(q, e) ||
	       (unlikely(q->req.pace.kbps) && pace_asks(q, now));
}

/* One segment of a SEND or WRITE, from r->psn on. */
bool message_send(struct tqp *q, struct sent *e, const struct wqe *w, uint64_t now)
{
	struct requester *r = &q->req;
	uint32_t k = psn_diff(r->psn, e->psn) & PSN_MASK, skip = k * r->mtu;
	bool by_value;
	uint32_t max = segment_max(q, w, &by_value), left = w->len - skip;
	uint32_t len = left < max ? left : max, n = request_psns(q, len);
	struct gather_ask ask = { w->sge, w->nsge, skip, len, q->qp.pd->pdn, 0, w->inlined };
	struct gather g;
	struct seg s;
	enum direct_way way;
	int err;

	if (unlikely(left > max) && (way = whole(q, e, w, skip, now)) != BY_RING)
		return way == DIRECTLY;
	if (unlikely(!gather(q->qp.ctx->hca->keys, &ask, &g))) {
		if (!through_a_copy(q, &ask, &g))
			return request_fail(q, w, V_LOCAL_PROT, &g, now);
		if (q->linear.wrong)
			flush_to_sqd(q);
		len = ask.len;
		n = request_psns(q, len);
	}
	if (len == w->len && e->opcode == MLX5_OPCODE_RDMA_WRITE && q->qp.service->direct) {
		way = direct_try(q, e, w, &g, now);
		if (way != BY_RING)
			return way == DIRECTLY;
	}
	request_blank(&s);
	request_fill(q, &s, op_at(&forms[w->opcode], !k, len == left));
	s.npsn = n;
	s.len = len;
	s.imm = w->imm;
	if (len == left)
		s.flags |= SEG_ACKREQ | (w->solicited ? SEG_SOLICITED : 0);
	else if (asks(q, e, k, now))
		s.flags |= SEG_ACKREQ;
	if (!by_reference(q))
		for (unsigned int i = 0; i < g.n; i++)
			g.piece[i].key = 0;
	s.srqn = w->srqn;
	target(w, &s);
	s.pieces = g.piece;
	s.npieces = g.n;
	err = request_emit(q, &s, now);
	if (err == EFAULT) {
		g.why = KEY_OK;
		return request_fail(q, w, V_LOCAL_PROT, &g, now);
	}
	/* UC: a segment that no peer takes is lost, and the sender never knows */
	if (err && (err == EAGAIN || q->qp.service->reliable))
		return false;
	request_sent(q, e, psn_add(r->psn, n), now);
	if (len == left)
		r->cur++;
	return true;
}
