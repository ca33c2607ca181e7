// SPDX-License-Identifier: MIT
#include "transport/completion.h"
#include <errno.h>
#include "hca/srq_tags.h"
#include "link/copy.h"
#include "transport/flush.h"
#include "transport/inner.h"
#include "transport/receive.h"
#include "transport/sent.h"
#include "transport/streams.h"

static void push(struct tqp *q, const struct cqe *c, uint64_t now)
{
	if (cq_push(q->qp.scq, c) == EOVERFLOW)
		flush_overrun(q, q->qp.scq, now);
}

enum { ROOM = 64 /* the largest cq_room() */ };

/* The reader of an entry puts the bytes where the list says. Do they lie there? */
static bool is_listed(const struct gather_ask *ask, const struct gather *g)
{
	uint64_t left = ask->len;

	for (unsigned int i = 0; i < g->n; left -= g->piece[i++].len) {
		const struct piece *p = &g->piece[i];

		if (i == ask->n || p->addr != ask->sge[i].addr ||
		    (p->len != ask->sge[i].len && p->len != left))
			return false;
	}
	return true;
}

static bool message(const struct tqp *q, const struct cqe *c, struct gather_ask *ask, void *out)
{
	struct gather g;

	ask->len = c->byte_cnt;
	if (!gather(q->qp.ctx->hca->keys, ask, &g) || !is_listed(ask, &g))
		return false;
	return !copy_gather(out, g.piece, g.n, 0, c->byte_cnt);
}

/* Out of line: its buffer would give place_complete() a guarded frame. */
__attribute__((noinline)) int completion_push_inlined(struct tqp *q, struct cq *cq,
						      const struct cqe *c, struct gather_ask *ask)
{
	uint8_t bytes[ROOM];

	if (c->byte_cnt && c->byte_cnt <= cq_room(cq) && message(q, c, ask, bytes))
		return cq_push_inlined(cq, c, bytes);
	return c->opcode == MLX5_CQE_REQ ? cq_push(cq, c) : receive_push(q, cq, c);
}

/* Of a READ or an atomic, whose answer has been placed. */
static void push_answer(struct tqp *q, const struct sent *e, const struct cqe *c, uint64_t now)
{
	struct gather_ask ask = { .pdn = q->qp.pd->pdn, .need = IBV_ACCESS_LOCAL_WRITE };
	struct wqe w;

	if (!sent_reread(q, e, &w)) { /* the program has changed it */
		push(q, c, now);
		return;
	}
	ask.sge = w.sge;
	ask.n = w.nsge;
	if (completion_push_inlined(q, q->qp.scq, c, &ask) == EOVERFLOW)
		flush_overrun(q, q->qp.scq, now);
}

/* Direct access has been counted, and local work moves nothing: neither has PSNs. */
static inline void count(struct tqp *q, const struct sent *e)
{
	if (e->npsn)
		moved_add(e->flags & SENT_READ ? &q->tally.received : &q->tally.sent, e->len,
			  e->npsn);
}

void completion_done(struct tqp *q, uint64_t now)
{
	struct requester *r = &q->req;
	const struct sent *e = sent_at(r, r->head++);

	if (!(e->flags & (SENT_SIGNALED | SENT_INNER))) {
		count(q, e);
		return;
	}
	if (unlikely(e->flags & SENT_FLUSHED)) {
		flush_send(q, e, now);
		return;
	}
	if (unlikely(e->flags & SENT_INNER)) {
		if (inner_retire(q, NULL, now) == EOVERFLOW)
			flush_overrun(q, q->qp.srq->tags->cq, now);
		return;
	}
	count(q, e);

	struct cqe c = { .opcode = MLX5_CQE_REQ,
			 .wqe_opcode = e->opcode,
			 .wqe_counter = e->block,
			 .uidx = q->qp.uidx,
			 .qpn = q->qp.qpn,
			 .byte_cnt = e->len,
			 .timestamp = now };

	if (unlikely(e->flags & SENT_INLINES))
		push_answer(q, e, &c, now);
	else
		push(q, &c, now);
}

static void count_failure(const struct tqp *q, enum verdict v)
{
	struct counters *c = q->qp.ctx->hca->counters;

	counters_inc(c, COUNTER_REQ_CQE_ERROR);
	if (v == V_REMOTE_ACCESS)
		counters_inc(c, COUNTER_REQ_REMOTE_ACCESS_ERRORS);
	else if (v == V_REMOTE_INVALID)
		counters_inc(c, COUNTER_REQ_REMOTE_INVALID_REQUEST);
}

void completion_fail(struct tqp *q, enum verdict v, uint64_t id, uint64_t now)
{
	struct requester *r = &q->req;
	const struct fate_code *f = fate_at_requester(v);
	const struct sent *e = sent_at(r, r->head++);
	struct cqe c = { .opcode = MLX5_CQE_REQ_ERR,
			 .syndrome = f->syndrome,
			 .vendor_err = f->vendor,
			 .wqe_opcode = e->opcode,
			 .wqe_counter = e->block,
			 .uidx = q->qp.uidx,
			 .qpn = q->qp.qpn,
			 .timestamp = now,
			 .reason = id };

	if ((int32_t)(r->cur - r->head) < 0)
		r->cur = r->head;
	count_failure(q, v);
	if (unlikely(e->flags & SENT_INNER))
		inner_retire(q, &c, now);
	else
		push(q, &c, now);
	if (q->env->spare && streams_spare(q, v, now)) {
		q->cause = id;
		return;
	}
	if (q->qp.service->reliable)
		flush_to_err(q, id, now);
	else
		flush_to_sqe(q, id, now);
}
