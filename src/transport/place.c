// SPDX-License-Identifier: MIT
#include <errno.h>
#include "hca/mkey/fleeting.h"
#include "hca/srq_tags.h"
#include "link/copy.h"
#include "transport/blame.h"
#include "transport/completion.h"
#include "transport/flush.h"
#include "transport/gather.h"
#include "transport/linear/linear.h"
#include "transport/place.h"
#include "transport/receive.h"
#include "transport/tag.h"
#include "transport/tag_cqe.h"
#include "util/be.h"
#include "wire/opcode.h"

static bool is_write(uint8_t op)
{
	uint8_t o = opcode_operation(op);

	return o >= OP_WRITE_FIRST && o <= OP_WRITE_ONLY_IMM;
}

static bool is_send(uint8_t op)
{
	uint8_t o = opcode_operation(op);

	return o <= OP_SEND_ONLY_IMM || o == OP_SEND_LAST_INV || o == OP_SEND_ONLY_INV;
}

static enum place refused(struct refusal *no, enum verdict v, uint64_t id)
{
	*no = (struct refusal){ v, id };
	return PLACE_REFUSED;
}

/* Large payload. Out of line: place_copy() is short without it, and inlined. */
__attribute__((noinline)) static int fetch(struct tqp *q, const struct seg *s, uint32_t skip,
					   const struct gather *g)
{
	receive_let_go(q);
	return s->from->ops->fetch(s->from, s, skip, g->piece, g->n);
}

int place_copy(struct tqp *q, const struct seg *s, uint32_t skip, const struct gather *g)
{
	if (s->len == skip)
		return 0;
	if (s->flags & SEG_BYREF)
		return fetch(q, s, skip, g);
	return copy_scatter(g->piece, g->n, 0, s->data + skip, s->len - skip);
}

#define GROUNDS(...) ((struct grounds){ __VA_ARGS__ })

/* Does the segment fit into its message? GROUNDS_NONE: yes; else what is wrong. */
static struct grounds misshapen(const struct tqp *q, const struct seg *s)
{
	uint32_t flags = opcodes[s->op].flags, mtu = q->req.mtu;
	uint8_t msg = q->rsp.msg;

	if (!is_write(s->op) && !is_send(s->op))
		return GROUNDS(GROUNDS_NO_OPERATION);
	if (flags & WIRE_FIRST) {
		if (msg != MSG_NONE)
			return GROUNDS(GROUNDS_NOT_FINISHED);
	} else if (msg != (is_write(s->op) ? MSG_WRITE : MSG_SEND)) {
		return GROUNDS(GROUNDS_NOT_BEGUN);
	}
	if (!(flags & WIRE_LAST) && (s->len % mtu || !s->len))
		return GROUNDS(GROUNDS_PART, { s->len, mtu });
	if ((flags & WIRE_ONLY) == WIRE_LAST && !s->len)
		return GROUNDS(GROUNDS_EMPTY_END);
	if (s->npsn != (s->len <= mtu ? 1 : (s->len + mtu - 1) / mtu))
		return GROUNDS(GROUNDS_PSNS, { s->len, s->npsn, mtu });
	return GROUNDS(GROUNDS_NONE);
}

static enum place place_result(struct tqp *q, const struct seg *s, uint32_t skip,
			       const struct gather *g, struct refusal *no)
{
	switch (place_copy(q, s, skip, g)) {
	case 0:
		return PLACE_DONE;
	case EPERM:
		return PLACE_NO_REF;
	case EREMOTEIO:
		return PLACE_GONE;
	default:
		break;
	}
	if (q->rsp.msg == MSG_WRITE)
		return refused(no, V_REMOTE_OP, blame_rkey(q, s, KEY_OK, &g->refused));
	return refused(no, V_LOCAL_PROT, blame_receive(q, g));
}

static enum place invalidate(struct tqp *q, const struct seg *s, struct refusal *no)
{
	struct invalidation i = { be32toh(s->imm), q->qp.pd->pdn, q->qp.qpn, true };
	const char *why = fleeting_invalidate(q->qp.ctx->hca->keys, &i);

	return why ? refused(no, V_INVALIDATE, blame_invalidate(q, s, why)) : PLACE_DONE;
}

/* A receive WQE for the message; on a tag-matching SRQ its first segment decides which. */
static enum place begin_send(struct tqp *q, const struct seg *s, uint32_t *skip)
{
	if (tag_on(q) && opcode_has(s->op, WIRE_FIRST))
		return tag_begin(q, s, skip);
	return receive_take(q) ? PLACE_RNR : PLACE_DONE;
}

static enum place send(struct tqp *q, const struct seg *s, struct refusal *no)
{
	struct responder *r = &q->rsp;
	uint64_t got = opcode_has(s->op, WIRE_FIRST) ? 0 : r->got;
	const struct pd *pd = q->qp.srq ? q->qp.srq->pd : q->qp.pd;
	struct gather g;
	struct gather_ask ask = { r->rwqe.sge, 0, got, 0, pd->pdn, IBV_ACCESS_LOCAL_WRITE };
	uint32_t skip = 0;
	enum place p;

	p = begin_send(q, s, &skip);
	if (unlikely(p != PLACE_DONE))
		return p;
	ask.len = s->len - skip;
	if (got + ask.len > r->rwqe.len)
		return refused(no, V_LOCAL_LENGTH, blame_short(q, s, got + ask.len, r->rwqe.len));
	ask.n = r->rwqe.nsge;
	if (!gather(q->qp.ctx->hca->keys, &ask, &g) && !linear_place(q, &ask, s, skip, &g))
		return refused(no, V_LOCAL_PROT, blame_receive(q, &g));
	p = place_result(q, s, skip, &g, no);
	if (p == PLACE_DONE && opcode_has(s->op, WIRE_IETH))
		p = invalidate(q, s, no);
	if (p != PLACE_DONE)
		return p;
	r->got = got + ask.len;
	r->msg = opcode_has(s->op, WIRE_LAST) ? MSG_NONE : MSG_SEND;
	return PLACE_DONE;
}

/* Of a key whose bytes lie apart: the pieces of this segment's part. */
static enum place target_apart(struct tqp *q, const struct seg *s, struct gather *g,
			       struct refusal *no)
{
	struct key_ask whole = g->refused;
	struct sge part = { whole.va, s->len, whole.key };
	struct gather_ask ask = { &part, 1, 0, s->len, whole.pdn, whole.need };

	if (gather(q->qp.ctx->hca->keys, &ask, g) || linear_place(q, &ask, s, 0, g)) {
		g->refused = whole;
		return PLACE_DONE;
	}
	return refused(no, V_REMOTE_ACCESS, blame_rkey(q, s, g->why, &g->refused));
}

/* Checks a WRITE's target: the whole at its first packet, then the rest at each: it may be
 * revoked. */
static enum place target(struct tqp *q, const struct seg *s, struct gather *g, struct refusal *no)
{
	struct responder *r = &q->rsp;
	struct key_ask *ask = &g->refused;
	uint64_t addr = 0;

	if (!(q->qp.attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE))
		return refused(no, V_REMOTE_INVALID,
			       blame_request(q, s, GROUNDS(GROUNDS_DISABLED)));
	if (s->len > r->left || (opcode_has(s->op, WIRE_LAST) && s->len != r->left))
		return refused(no, V_REMOTE_INVALID, blame_request(q, s, GROUNDS(GROUNDS_SUM)));
	*ask = (struct key_ask){ r->rkey, q->qp.pd->pdn,	   r->va,
				 r->left, IBV_ACCESS_REMOTE_WRITE, q->qp.qpn };
	g->why = key_check(q->qp.ctx->hca->keys, ask, &addr);
	if (key_is_apart(g->why))
		return target_apart(q, s, g, no);
	if (g->why != KEY_OK)
		return refused(no, V_REMOTE_ACCESS, blame_rkey(q, s, g->why, ask));
	g->piece[0] = (struct piece){ addr, s->len, r->rkey };
	g->n = 1;
	return PLACE_DONE;
}

/* @no says why a WRITE is refused. One with immediate by a bad key is reported by the receive that
 * it takes, if one is posted; UC drops it in silence. */
static enum place denied(struct tqp *q, const struct seg *s, struct refusal *no)
{
	if (no->v == V_REMOTE_ACCESS && opcode_has(s->op, WIRE_IMMDT) && q->qp.service->reliable &&
	    !receive_take(q))
		no->v = V_LOCAL_ACCESS;
	return PLACE_REFUSED;
}

static enum place write_part(struct tqp *q, const struct seg *s, struct refusal *no)
{
	struct responder *r = &q->rsp;
	bool last = opcode_has(s->op, WIRE_LAST);
	struct gather g;
	enum place p;

	if (opcode_has(s->op, WIRE_FIRST)) {
		r->va = s->va;
		r->rkey = s->rkey;
		r->left = s->dma_len;
		r->got = 0;
	}
	if (s->dma_len > 1U << 31 && opcode_has(s->op, WIRE_RETH))
		return refused(no, V_REMOTE_INVALID, blame_request(q, s, GROUNDS(GROUNDS_LONG)));
	p = target(q, s, &g, no);
	if (p != PLACE_DONE)
		return denied(q, s, no);
	if (opcode_has(s->op, WIRE_IMMDT) && receive_take(q))
		return PLACE_RNR;
	r->msg = MSG_WRITE;
	p = place_result(q, s, 0, &g, no);
	if (p != PLACE_DONE) {
		if (opcode_has(s->op, WIRE_FIRST))
			r->msg = MSG_NONE;
		return p;
	}
	r->va += s->len;
	r->left -= s->len;
	r->got += s->len;
	if (last) {
		r->msg = MSG_NONE;
		counters_inc(q->qp.ctx->hca->counters, COUNTER_RX_WRITE_REQUESTS);
	}
	return PLACE_DONE;
}

/* While a WRITE goes through a memory window, the window stays bound; an mkey, as it is. */
static enum place write(struct tqp *q, const struct seg *s, struct refusal *no)
{
	uint32_t rkey = opcode_has(s->op, WIRE_FIRST) ? s->rkey : q->rsp.rkey;
	struct spin *lock = fleeting_enter(q->qp.ctx->hca->keys, rkey);
	enum place p = write_part(q, s, no);

	fleeting_leave(lock);
	return p;
}

enum place place_segment(struct tqp *q, const struct seg *s, struct refusal *no)
{
	struct grounds what = misshapen(q, s);

	if (unlikely(what.code))
		return refused(no, V_REMOTE_INVALID, blame_request(q, s, what));
	if (is_write(s->op))
		return write(q, s, no);
	return send(q, s, no);
}

static uint8_t cqe_opcode(uint8_t op)
{
	if (opcode_has(op, WIRE_IETH))
		return MLX5_CQE_RESP_SEND_INV;
	if (is_write(op))
		return MLX5_CQE_RESP_WR_IMM;
	return opcode_has(op, WIRE_IMMDT) ? MLX5_CQE_RESP_SEND_IMM : MLX5_CQE_RESP_SEND;
}

static bool brings_data(const struct cqe *c)
{
	return c->opcode == MLX5_CQE_RESP_SEND || c->opcode == MLX5_CQE_RESP_SEND_IMM ||
	       c->opcode == MLX5_CQE_RESP_SEND_INV;
}

/* What few queues have: tags, entries with messages in them, or compressed ones. */
static int push_special(struct tqp *q, struct cq *cq, const struct cqe *c)
{
	const struct rwqe *w = &q->rsp.rwqe;
	struct gather_ask ask = { .sge = w->sge,
				  .n = w->nsge,
				  .pdn = q->qp.srq ? q->qp.srq->pd->pdn : q->qp.pd->pdn,
				  .need = IBV_ACCESS_LOCAL_WRITE };

	if (c->app_op)
		return srq_tags_push(q->qp.srq, c);
	return brings_data(c) && q->qp.inlines & QP_INLINES_RECEIVES
		       ? completion_push_inlined(q, cq, c, &ask)
		       : receive_push(q, cq, c);
}

static void complete(struct tqp *q, struct cqe *c, uint64_t now)
{
	struct cq *cq = tag_cqe_route(q, c);

	q->rsp.have_rwqe = false;
	if ((unlikely(c->app_op | (q->qp.inlines & QP_SPECIAL)) ? push_special(q, cq, c)
								: cq_push(cq, c)) == EOVERFLOW)
		flush_overrun(q, cq, now);
	if (unlikely(q->rsp.tag.pending))
		tag_rendezvous(q);
}

void place_complete(struct tqp *q, const struct seg *s, uint64_t now)
{
	struct responder *r = &q->rsp;

	if (is_write(s->op) && !opcode_has(s->op, WIRE_IMMDT))
		return;
	struct cqe c = { .opcode = cqe_opcode(s->op),
			 .solicited = s->flags & SEG_SOLICITED,
			 .wqe_counter = r->rwqe.idx,
			 .uidx = q->qp.uidx,
			 .qpn = q->qp.shown,
			 .byte_cnt = r->got,
			 .imm = opcode_has(s->op, WIRE_IMMDT) || opcode_has(s->op, WIRE_IETH)
					? s->imm
					: 0,
			 .timestamp = now };

	complete(q, &c, now);
}

static void count_failure(const struct tqp *q, enum verdict v)
{
	struct counters *c = q->qp.ctx->hca->counters;

	if (v == V_REMOTE_ACCESS || v == V_LOCAL_ACCESS || v == V_INVALIDATE)
		counters_inc(c, COUNTER_RESP_REMOTE_ACCESS_ERRORS);
	else if (v == V_LOCAL_LENGTH)
		counters_inc(c, COUNTER_RESP_LOCAL_LENGTH_ERROR);
}

void place_fail(struct tqp *q, const struct refusal *no, uint64_t now)
{
	struct responder *r = &q->rsp;
	const struct fate *f = fate_at_responder(no->v, q->qp.service->reliable);

	count_failure(q, no->v);
	if (f->receive.syndrome && r->have_rwqe) {
		struct cqe c = { .opcode = MLX5_CQE_RESP_ERR,
				 .syndrome = f->receive.syndrome,
				 .vendor_err = f->receive.vendor,
				 .wqe_counter = r->rwqe.idx,
				 .uidx = q->qp.uidx,
				 .qpn = q->qp.shown,
				 .timestamp = now,
				 .reason = no->id };

		counters_inc(q->qp.ctx->hca->counters, COUNTER_RESP_CQE_ERROR);
		complete(q, &c, now);
	}
	if (f->has_event)
		flush_event(q, f->event);
	if (f->to_err)
		flush_to_err(q, no->id, now);
}
