// SPDX-License-Identifier: MIT
#include "hca/mkey/fleeting.h"
#include "transport/answer.h"
#include "transport/blame.h"
#include "transport/execute.h"
#include "util/be.h"
#include "util/guard.h"
#include "wire/aeth.h"
#include "wire/opcode.h"

static uint32_t psns(const struct tqp *q, uint32_t len)
{
	return len <= q->req.mtu ? 1 : (uint32_t)(((uint64_t)len + q->req.mtu - 1) / q->req.mtu);
}

static bool refused(struct refusal *no, enum verdict v, uint64_t id)
{
	*no = (struct refusal){ v, id };
	return false;
}

static enum answer_kind kind_of(uint8_t op)
{
	if (op == OP_READ_REQUEST)
		return ANSWER_READ;
	return op == OP_ATOMIC_WRITE ? ANSWER_WRITTEN : ANSWER_ATOMIC;
}

static unsigned int right_for(enum answer_kind kind)
{
	static const unsigned int rights[] = {
		[ANSWER_READ] = IBV_ACCESS_REMOTE_READ,
		[ANSWER_ATOMIC] = IBV_ACCESS_REMOTE_ATOMIC,
		[ANSWER_WRITTEN] = IBV_ACCESS_REMOTE_WRITE,
	};

	return rights[kind];
}

#define GROUNDS(...) ((struct grounds){ __VA_ARGS__ })

/* Is the request enabled, in its place, within the depth? GROUNDS_NONE: yes; else what is wrong. */
static struct grounds unfit(const struct tqp *q, const struct seg *s, unsigned int right)
{
	const struct responder_reads *rd = q->rsp.reads;

	if (!(q->qp.attr.qp_access_flags & right))
		return GROUNDS(GROUNDS_DISABLED);
	if (q->rsp.msg != MSG_NONE)
		return GROUNDS(GROUNDS_MIDDLE);
	if (rd->fresh >= q->qp.attr.max_dest_rd_atomic)
		return GROUNDS(GROUNDS_DEPTH, { q->qp.attr.max_dest_rd_atomic });
	if (s->op == OP_READ_REQUEST && s->dma_len > 1U << 31)
		return GROUNDS(GROUNDS_LONG);
	if (s->op == OP_READ_REQUEST && s->npsn != psns(q, s->dma_len))
		return GROUNDS(GROUNDS_PSNS, { s->dma_len, s->npsn, q->req.mtu });
	if (s->op != OP_READ_REQUEST && (s->va & 7))
		return GROUNDS(GROUNDS_ALIGNMENT);
	if (s->op != OP_READ_REQUEST && s->npsn != 1)
		return GROUNDS(GROUNDS_ATOMIC_PSNS);
	if (s->op == OP_ATOMIC_WRITE && (s->len != 8 || s->dma_len != 8 || s->flags & SEG_BYREF))
		return GROUNDS(GROUNDS_ATOMIC_WRITE);
	if (opcode_is_masked(s->op) && (s->len != ATOMIC_MASKS || s->flags & SEG_BYREF))
		return GROUNDS(GROUNDS_MASKS);
	return GROUNDS(GROUNDS_NONE);
}

static void save(struct tqp *q, const struct seg *s, const struct answer *a)
{
	struct responder_reads *rd = q->rsp.reads;

	rd->saved[rd->nsaved++ % RESPONDER_DEPTH] = (struct saved){ .psn = s->psn,
								    .npsn = s->npsn,
								    .kind = a->kind,
								    .rkey = s->rkey,
								    .len = a->len,
								    .va = s->va,
								    .orig = a->orig };
}

/* Adds fields, each but the last ending with a bit of @ends, out of which nothing is carried. */
static uint64_t add_fields(uint64_t a, uint64_t b, uint64_t ends)
{
	return ((a & ~ends) + (b & ~ends)) ^ ((a ^ b) & ends);
}

/* What @s makes of @was. */
static uint64_t masked(const struct seg *s, const uint64_t mask[2], uint64_t was)
{
	if (s->op == OP_MASKED_ADD)
		return add_fields(was, s->swap_add, mask[0]);
	if ((was ^ s->compare) & mask[1])
		return was;
	return (was & ~mask[0]) | (s->swap_add & mask[0]);
}

/* By the processor's own compare and swap, again while others change the word. */
static int operate_masked(const struct seg *s, uint64_t *p, uint64_t *orig)
{
	const uint64_t mask[2] = { get_be64(s->data), get_be64(s->data + 8) };
	uint64_t was = 0, seen = 0;
	int err = guard_fetch_add(p, 0, &seen);

	do {
		was = seen;
		err = err ? err : guard_cmp_swap(p, was, masked(s, mask, was), &seen);
	} while (!err && seen != was);
	*orig = was;
	return err;
}

static int operate(const struct seg *s, uint64_t addr, uint64_t *orig)
{
	uint64_t *p = (uint64_t *)(uintptr_t)addr;

	if (s->op == OP_ATOMIC_WRITE)
		return guard_copy(p, s->data, 8); /* aligned: one store */
	if (opcode_is_masked(s->op))
		return operate_masked(s, p, orig);
	if (s->op == OP_COMPARE_SWAP)
		return guard_cmp_swap(p, s->compare, s->swap_add, orig);
	return guard_fetch_add(p, s->swap_add, orig);
}

bool execute(struct tqp *q, const struct seg *s, struct answer *out, struct refusal *no)
{
	enum answer_kind kind = kind_of(s->op);
	bool read = kind == ANSWER_READ;
	unsigned int right = right_for(kind);
	struct key_ask ask = { s->rkey, q->qp.pd->pdn, s->va, read ? s->dma_len : 8,
			       right,	q->qp.qpn };
	enum key_verdict why;
	struct grounds what;
	uint64_t addr = 0, orig = 0;
	struct spin *lock;
	bool failed, skewed;

	what = unfit(q, s, right);
	if (what.code)
		return refused(no, V_REMOTE_INVALID, blame_request(q, s, what));
	lock = fleeting_enter(q->qp.ctx->hca->keys, s->rkey);
	why = key_check(q->qp.ctx->hca->keys, &ask, &addr);
	if (read && key_is_apart(why))
		why = KEY_OK; /* an atomic's word lies in one place */
	skewed = why == KEY_OK && !read && (addr & 7); /* zero-based, or a part of an mkey */
	failed = why == KEY_OK && !read && !skewed && operate(s, addr, &orig);
	fleeting_leave(lock);
	if (why != KEY_OK)
		return refused(no, V_REMOTE_ACCESS, blame_rkey(q, s, why, &ask));
	if (skewed)
		return refused(no, V_REMOTE_INVALID,
			       blame_request(q, s, GROUNDS(GROUNDS_ALIGNMENT)));
	if (failed)
		return refused(no, V_REMOTE_OP, blame_rkey(q, s, KEY_OK, &ask));
	*out = (struct answer){ .psn = s->psn,
				.npsn = s->npsn,
				.kind = kind,
				.rkey = s->rkey,
				.pdn = q->qp.pd->pdn,
				.va = s->va,
				.len = ask.len,
				.orig = orig,
				.no_ref = s->flags & SEG_NO_REF };
	save(q, s, out);
	moved_add(&q->tally.sent, ask.len, s->npsn);
	if (key_is_fleeting(q->qp.ctx->hca->keys, s->rkey))
		out->no_ref = true;
	counters_inc(q->qp.ctx->hca->counters, kind == ANSWER_READ     ? COUNTER_RX_READ_REQUESTS
					       : kind == ANSWER_ATOMIC ? COUNTER_RX_ATOMIC_REQUESTS
								       : COUNTER_RX_WRITE_REQUESTS);
	return true;
}

static const struct saved *find(const struct responder_reads *rd, const struct seg *s)
{
	uint32_t n = rd->nsaved < RESPONDER_DEPTH ? rd->nsaved : RESPONDER_DEPTH;

	for (uint32_t i = 1; i <= n; i++) {
		const struct saved *e = &rd->saved[(rd->nsaved - i) % RESPONDER_DEPTH];

		if (psn_within(s->psn, e->psn, e->npsn) &&
		    psn_within(psn_add(s->psn, s->npsn - 1), e->psn, e->npsn))
			return e;
	}
	return NULL;
}

/* A READ's duplicate may begin behind it and end before it. It gets no other memory than what was
 * granted, and nothing once the program has withdrawn the right. */
static bool may_read_again(const struct tqp *q, const struct saved *e, const struct seg *s)
{
	uint64_t skip = s->va - e->va;

	return q->qp.attr.qp_access_flags & IBV_ACCESS_REMOTE_READ && s->rkey == e->rkey &&
	       skip <= e->len && s->dma_len <= e->len - skip && s->npsn == psns(q, s->dma_len);
}

bool execute_again(struct tqp *q, const struct seg *s, struct answer *out)
{
	const struct responder_reads *rd = q->rsp.reads;
	const struct saved *e = rd && s->npsn ? find(rd, s) : NULL;

	if (!e || e->kind != kind_of(s->op) || rd->last - rd->first >= RESPONDER_DEPTH ||
	    (e->kind == ANSWER_READ && !may_read_again(q, e, s)))
		return false;
	*out = (struct answer){ .psn = s->psn,
				.npsn = s->npsn,
				.kind = e->kind,
				.again = true,
				.rkey = s->rkey,
				.pdn = q->qp.pd->pdn,
				.va = s->va,
				.len = s->dma_len,
				.orig = e->orig,
				.no_ref = (s->flags & SEG_NO_REF) ||
					  key_is_fleeting(q->qp.ctx->hca->keys, s->rkey) };
	return true;
}
