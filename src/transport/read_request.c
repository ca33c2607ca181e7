// SPDX-License-Identifier: MIT
#include "transport/read_request.h"
#include <errno.h>
#include "transport/congestion.h"
#include "transport/direct.h"
#include "transport/execute.h"
#include "transport/form.h"
#include "transport/gather.h"
#include "transport/recovery.h"
#include "transport/request.h"
#include "transport/sent.h"
#include "util/be.h"
#include "wire/aeth.h"

static bool read_allowed(const struct tqp *q)
{
	return q->req.reads < q->qp.attr.max_rd_atomic;
}

/* How many PSNs of a READ one request asks for: on one host all, through a network no more than may
 * be on their way. The next part is requested when this one is here, so that the peer counts one
 * READ at a time. A part that is requested again ends where it ended before: a responder refuses
 * other ranges. From a peer that reports, parts are requested ahead, and each counts as a READ. 0:
 * wait. */
static uint32_t read_part(struct tqp *q, uint32_t skip, uint32_t left)
{
	struct requester *r = &q->req;
	uint32_t part;

	if (!link_is_of_packets(q->dest))
		return left;
	if (r->again) {
		recovery_first(q, &part);
		return part;
	}
	if (r->rec) {
		part = recovery_questions(q) < q->qp.attr.max_rd_atomic ? congestion_window(q) / 2
									: 0;
		return left < part ? left : part;
	}
	if (skip && r->psn != r->una)
		return 0;
	if (!r->part)
		r->part = congestion_path(q);
	part = r->part - skip % r->part;
	return left < part ? left : part;
}

/* The memory for the answer, or the payload of an atomic write. */
static bool gather_read(struct tqp *q, const struct sent *e, const struct wqe *w, struct seg *s,
			struct gather *g)
{
	bool brings = form_brings_data(w);
	unsigned int need = brings ? 0 : IBV_ACCESS_LOCAL_WRITE;
	struct gather_ask ask = { w->sge, w->nsge, 0, w->len, sent_pdn(q, e), need, w->inlined };

	if (!gather(q->qp.ctx->hca->keys, &ask, g))
		return false;
	if (!brings)
		return true;
	for (unsigned int i = 0; i < g->n; i++)
		g->piece[i].key = 0; /* by value */
	s->len = w->len;
	s->pieces = g->piece;
	s->npieces = g->n;
	return true;
}

/* Operands that the headers have no room for */
static void put_masks(const struct wqe *w, struct seg *s, uint8_t masks[ATOMIC_MASKS])
{
	put_be64(masks, w->swap_mask);
	put_be64(masks + 8, w->compare_mask);
	s->len = ATOMIC_MASKS;
	s->data = masks;
}

bool read_request_send(struct tqp *q, struct sent *e, const struct wqe *w, uint64_t now)
{
	struct requester *r = &q->req;
	uint32_t skip = psn_diff(r->psn, e->psn) & PSN_MASK;
	struct gather g;
	uint32_t left = e->npsn - skip, part = read_part(q, skip, left);
	struct seg s = { .npsn = part, .rkey = w->rkey };
	uint8_t masks[ATOMIC_MASKS];
	enum direct_way way;
	bool apart = false;
	int err;

	if (!read_allowed(q) || !part)
		return false;
	if (unlikely(!gather_read(q, e, w, &s, &g))) {
		/* more places than direct access takes: the answer is placed by segments */
		apart = key_is_apart(g.why) && !form_brings_data(w);
		if (!apart)
			return request_fail(q, w, V_LOCAL_PROT, &g, now);
		r->direct.waited = false;
	}
	if (!apart && !skip && q->qp.service->direct && e->opcode == MLX5_OPCODE_RDMA_READ) {
		way = direct_try(q, e, w, &g, now);
		if (way != BY_RING)
			return way == DIRECTLY;
	}
	request_fill(q, &s, forms[w->opcode].only);
	s.flags |= SEG_ACKREQ | (r->no_ref ? SEG_NO_REF : 0);
	s.srqn = w->srqn;
	s.va = w->raddr + (uint64_t)skip * r->mtu;
	s.dma_len = part == left ? w->len - skip * r->mtu : part * r->mtu;
	s.swap_add = w->swap_add;
	s.compare = w->compare;
	if (unlikely(wqe_is_masked(w->opcode)))
		put_masks(w, &s, masks);
	err = request_emit(q, &s, now);
	if (err == EFAULT) {
		g.why = KEY_OK;
		return request_fail(q, w, V_LOCAL_PROT, &g, now);
	}
	if (err)
		return false;
	request_sent(q, e, psn_add(r->psn, part), now);
	e->flags &= ~SENT_DONE;
	if (part != left)
		return r->rec;
	r->reads++;
	r->cur++;
	return true;
}
