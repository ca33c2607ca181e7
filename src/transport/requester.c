// SPDX-License-Identifier: MIT
#include <errno.h>
#include <stdlib.h>
#include "hca/mw.h"
#include "obs/explain.h"
#include "transport/answer.h"
#include "transport/blame.h"
#include "transport/completer.h"
#include "transport/congestion.h"
#include "transport/credit.h"
#include "transport/flush.h"
#include "transport/gather.h"
#include "transport/inner.h"
#include "transport/pace.h"
#include "transport/raw.h"
#include "transport/recovery.h"
#include "transport/retry.h"
#include "transport/rtt.h"
#include "transport/ud.h"
#include "util/be.h"
#include "wire/aeth.h"
#include "wire/opcode.h"

enum {
	SENT_MAX = 512, /* WQEs started and not completed */
	WAIT_MIN = 16 << 10, /* bytes of a READ or WRITE that is worth a wait for direct access */
	WAIT_AGAIN_MIN = 32, /* READs or WRITEs between two waits in vain */
	WAIT_AGAIN_MAX = 4096,
};

/* How an opcode goes out. */
struct form {
	bool known, reads;
	uint8_t first, middle, last, only; /* OP_* */
	bool local; /* sends nothing */
};

#define OP4(a, b, c, d) OP_##a, OP_##b, OP_##c, OP_##d
#define SENDS(last)	OP4(SEND_FIRST, SEND_MIDDLE, SEND_LAST##last, SEND_ONLY##last)
#define WRITES(last)	OP4(WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST##last, WRITE_ONLY##last)

static const struct form forms[256] = {
	/* clang-format off */
	[MLX5_OPCODE_SEND]           = { true, false, SENDS() },
	[MLX5_OPCODE_SEND_IMM]       = { true, false, SENDS(_IMM) },
	[MLX5_OPCODE_SEND_INVAL]     = { true, false, SENDS(_INV) },
	[MLX5_OPCODE_RDMA_WRITE]     = { true, false, WRITES() },
	[MLX5_OPCODE_RDMA_WRITE_IMM] = { true, false, WRITES(_IMM) },
	[MLX5_OPCODE_RDMA_READ]      = { true, true, .only = OP_READ_REQUEST },
	[MLX5_OPCODE_ATOMIC_CS]      = { true, true, .only = OP_COMPARE_SWAP },
	[MLX5_OPCODE_ATOMIC_FA]      = { true, true, .only = OP_FETCH_ADD },
	[MLX5_OPCODE_NOP]            = { true, .local = true },
	[MLX5_OPCODE_LOCAL_INVAL]    = { true, .local = true },
	[WQE_OPCODE_BIND_MW]         = { true, .local = true },
	[WQE_OPCODE_ATOMIC_WRITE]    = { true, true, .only = OP_ATOMIC_WRITE },
	/* clang-format on */
};

/* The SQ's oldest block that is not completed; entries of the inner queue have none. */
static uint16_t oldest_block(const struct requester *r)
{
	for (uint32_t i = r->head; i != r->tail; i++)
		if (likely(!(requester_entry(r, i)->flags & SENT_INNER)))
			return requester_entry(r, i)->block;
	return r->next_block;
}

uint16_t requester_posted(const struct tqp *q)
{
	const struct requester *r = &q->req;
	const struct sq_ring *sq = &q->qp.sq;
	uint16_t oldest, posted, ours;

	if (!sq->cnt)
		return 0;
	oldest = oldest_block(r);
	ours = r->next_block - oldest;
	/* (A) pairs with the driver's release before it stores the record */
	posted = (uint16_t)be32toh(load_acquire(sq->dbrec)) - oldest;
	if (posted > sq->cnt)
		posted = sq->cnt; /* the record is the program's memory: believe what can be */
	return posted > ours ? posted - ours : 0;
}

static enum wqe_service service(const struct tqp *q)
{
	switch (q->qp.type) {
	case IBV_QPT_UD:
		return WQE_DATAGRAM;
	case IBV_QPT_RAW_PACKET:
		return WQE_ETHERNET;
	case IBV_QPT_XRC_SEND:
		return WQE_XRC;
	default:
		return WQE_CONNECTED;
	}
}

bool requester_reread(struct tqp *q, const struct sent *e, struct wqe *w)
{
	if (unlikely(e->flags & SENT_INNER)) {
		inner_wqe(q, e->block, w);
		return true;
	}
	return !wqe_parse(&q->qp.sq, e->block, q->qp.sq.cnt, service(q), w) &&
	       w->opcode == e->opcode && w->len == e->len;
}

uint32_t requester_pdn(const struct tqp *q, const struct sent *e)
{
	return e->flags & SENT_INNER ? q->qp.srq->pd->pdn : q->qp.pd->pdn;
}

/* Of those that are answered: it has a payload of its own, and gets none. */
static bool brings_data(const struct wqe *w)
{
	return w->opcode == WQE_OPCODE_ATOMIC_WRITE;
}

/* READ and atomics where max_rd_atomic says none, opcodes that the service lacks, sizes. */
static enum verdict allowed(const struct tqp *q, const struct wqe *w)
{
	bool reads = forms[w->opcode].reads;

	if (w->opcode == MLX5_OPCODE_NOP)
		return V_OK;
	if (q->qp.type == IBV_QPT_RAW_PACKET)
		return raw_allowed(w);
	if (!forms[w->opcode].known)
		return V_LOCAL_QP_OP;
	if (q->qp.type == IBV_QPT_UC && (reads || w->opcode == MLX5_OPCODE_SEND_INVAL))
		return V_LOCAL_QP_OP;
	if (w->opcode == WQE_OPCODE_ATOMIC_WRITE && !load_relaxed(&q->qp.atomic_writes))
		return V_LOCAL_QP_OP; /* XRC has none, and nobody writes our own opcode by chance */
	if (q->qp.type == IBV_QPT_UD && w->opcode != MLX5_OPCODE_SEND &&
	    w->opcode != MLX5_OPCODE_SEND_IMM)
		return V_LOCAL_QP_OP;
	if (reads && (!q->qp.attr.max_rd_atomic || (w->ninline && !brings_data(w))))
		return V_LOCAL_QP_OP;
	if (reads && w->opcode != MLX5_OPCODE_RDMA_READ && w->len != 8)
		return V_LOCAL_LENGTH;
	if (q->qp.type == IBV_QPT_UD && w->len > q->req.mtu)
		return V_LOCAL_LENGTH;
	return V_OK;
}

static int allot(struct tqp *q)
{
	uint32_t n = q->qp.sq.cnt < SENT_MAX && !inner_waits(q) ? q->qp.sq.cnt : SENT_MAX;

	q->req.sent = calloc(n, sizeof(*q->req.sent));
	if (!q->req.sent)
		return ENOMEM;
	q->req.mask = n - 1;
	return 0;
}

static uint32_t psns_of(const struct tqp *q, uint32_t len)
{
	return len <= q->req.mtu ? 1 : (uint32_t)(((uint64_t)len + q->req.mtu - 1) / q->req.mtu);
}

/* False: no more can be started now. */
static bool may_start(struct tqp *q, uint64_t now)
{
	struct requester *r = &q->req;

	if (q->qp.state != IBV_QPS_RTS)
		return false;
	if (unlikely(!r->sent) && allot(q)) {
		flush_to_err(
			q, reason("QP 0x%x: no memory for the sends it has outstanding", q->qp.qpn),
			now);
		return false;
	}
	return r->tail - r->head <= r->mask;
}

/* The same for work of the inner queue. */
static int start_inner(struct tqp *q, struct wqe *w, uint64_t now)
{
	struct requester *r = &q->req;
	struct sent *e;

	if (!may_start(q, now))
		return ENOENT;
	e = requester_entry(r, r->tail++);
	*e = (struct sent){ .block = inner_take(q), .psn = r->next_psn, .flags = SENT_INNER };
	inner_wqe(q, e->block, w);
	e->opcode = w->opcode;
	e->len = w->len;
	e->npsn = psns_of(q, w->len);
	e->flags |= (forms[w->opcode].reads ? SENT_READ : 0) | (w->fence ? SENT_FENCE : 0);
	r->next_psn = psn_add(r->next_psn, e->npsn);
	return 0;
}

/* Starts the next WQE: reads it into @w and appends its entry. ENOENT: none, or not now; EBADMSG,
 * EMSGSIZE: started, malformed. */
static int start(struct tqp *q, struct wqe *w, uint64_t now)
{
	struct requester *r = &q->req;
	struct sent *e;
	uint16_t avail;
	int err;

	if (inner_waits(q))
		return start_inner(q, w, now);
	avail = requester_posted(q);
	if (!avail || !may_start(q, now))
		return ENOENT;
	err = wqe_parse(&q->qp.sq, r->next_block, avail, service(q), w);
	e = requester_entry(r, r->tail);
	*e = (struct sent){
		.block = r->next_block, .opcode = w->opcode, .psn = r->next_psn, .len = w->len
	};
	if (!err && !forms[w->opcode].local)
		e->npsn = psns_of(q, w->len);
	if (w->signaled || q->qp.sq_sig_all)
		e->flags |= SENT_SIGNALED;
	if (w->fence)
		e->flags |= SENT_FENCE;
	if (!err && forms[w->opcode].reads)
		e->flags |= SENT_READ;
	r->tail++;
	r->next_psn = psn_add(r->next_psn, e->npsn);
	r->next_block += w->nbb < avail ? w->nbb : avail;
	return err;
}

/* The entry at head cannot be sent at all. Errors come out in order: not before the others are
 * done. False: it has to wait for them, or the QP has stopped. */
static bool fail(struct tqp *q, const struct wqe *w, enum verdict v, const struct gather *g,
		 uint64_t now)
{
	if (q->req.cur == q->req.head)
		completer_fail(q, v, blame_wqe(q, w, v, g), now);
	return false;
}

static uint32_t segment_max(const struct tqp *q, const struct wqe *w, bool *by_value)
{
	const struct dest *d = q->dest;
	uint32_t max;

	*by_value = w->ninline || q->req.by_value || !d || !load_relaxed(&d->max_ref) ||
		    w->len <= d->inline_max;
	if (!d)
		return q->req.mtu;
	max = *by_value ? d->max_seg : load_relaxed(&d->max_ref);
	max &= ~(q->req.mtu - 1); /* a power of two */
	if (unlikely(q->req.pace.kbps))
		max = pace_segment(q, max);
	return max ? max : q->req.mtu;
}

/* Hands a segment to the link, with the ACK that is due. */
static int emit(struct tqp *q, struct seg *s, uint64_t now)
{
	struct requester *r = &q->req;
	bool ack = q->ack_due && q->dest && !q->dest->net && answer_idle(q);
	int err;

	if (ack) {
		s->flags |= SEG_ACK;
		s->ack_psn = psn_add(q->rsp.epsn, PSN_MASK);
		s->ack_msn = q->rsp.msn;
	}
	if (unlikely(q->rsp.ack_held))
		answer_ahead(q, s->op);
	s->more = q->dest && q->dest->ops->flush;
	err = q->dest ? dest_send(q->dest, s, &q->waiter) : ENETUNREACH;
	if (!err) {
		if (unlikely(r->pace.kbps))
			pace_sent(q, s->len, s->len ? s->npsn : 1, now);
		if (q->dest->net && (s->flags & SEG_ACKREQ))
			congestion_asked(q, s->psn, now);
		r->unflushed = s->more;
		if (ack)
			q->ack_due = false;
		return 0;
	}
	if (err == EAGAIN)
		r->blocked = true;
	else if (err != EFAULT && qp_reliable(&q->qp))
		retry_lost(q, now);
	return err;
}

/* Member by member: clearing the whole at once becomes a string instruction that costs 20 ns. */
static void blank(struct seg *s)
{
	s->syndrome = 0;
	s->msn = 0;
	s->ack_psn = s->ack_msn = 0;
	s->qkey = s->srqn = 0;
	s->swap_add = s->compare = 0;
	s->av = NULL;
	s->data = NULL;
	s->from = NULL;
	s->grh = NULL;
	s->l3 = s->sl = 0;
	s->marked = false;
}

static uint8_t bth_service(const struct tqp *q)
{
	if (likely(q->qp.type == IBV_QPT_RC))
		return SVC_RC;
	return q->qp.type == IBV_QPT_UC ? SVC_UC : SVC_XRC;
}

static void fill(const struct tqp *q, struct seg *s, uint8_t op)
{
	s->op = op | bth_service(q);
	s->flags = SEG_SQPN | q->req.arming;
	s->pkey = 0xffff;
	s->dqpn = q->qp.attr.dest_qp_num;
	s->sqpn = q->qp.qpn;
	s->psn = q->req.psn;
}

static void sent_up_to(struct tqp *q, const struct sent *e, uint32_t psn)
{
	struct requester *r = &q->req;
	bool read = e->flags & SENT_READ;

	if ((read || r->psn == e->psn) && r->psn == r->max_psn)
		r->credit.sent = psn_add(r->credit.sent, 1);
	if (unlikely(r->rec != NULL))
		recovery_sent(q, r->psn, (psn - r->psn) & PSN_MASK, read);
	r->psn = psn;
	if (((psn - r->una) & PSN_MASK) > ((r->max_psn - r->una) & PSN_MASK))
		r->max_psn = psn;
}

static bool window_open(const struct tqp *q)
{
	if (unlikely(q->req.rec != NULL))
		return recovery_open(q, congestion_window(q));
	return !qp_reliable(&q->qp) ||
	       ((q->req.psn - q->req.una) & PSN_MASK) < congestion_window(q);
}

/* May another segment leave now? */
static bool may_send(struct tqp *q, uint64_t now)
{
	return window_open(q) && (likely(!q->req.pace.kbps) || pace_open(q, now));
}

/* Is there one exchange behind us, and a peer that has memory to reach? (M5) */
static bool reaches(const struct tqp *q)
{
	const struct requester *r = &q->req;

	return r->exchanged && !r->pace.kbps && !r->arming && q->dest && q->dest->ops->direct;
}

/* Nothing else is outstanding or started. */
static bool alone(const struct tqp *q, const struct sent *e)
{
	const struct requester *r = &q->req;

	return r->cur == r->head && r->tail == r->cur + 1 && e->psn == r->una &&
	       e->psn == r->max_psn;
}

static bool one_sided(const struct sent *e)
{
	return e->opcode == MLX5_OPCODE_RDMA_WRITE || e->opcode == MLX5_OPCODE_RDMA_READ;
}

/* A stream of READs or WRITEs that began by the ring would stay there. One of them waits until
 * the queue is empty, and when direct access then works the others follow it. */
static bool must_wait(struct tqp *q, const struct sent *e)
{
	struct requester *r = &q->req;
	bool write = e->opcode == MLX5_OPCODE_RDMA_WRITE;

	if (r->waited)
		return r->cur != r->head;
	if (e->len < WAIT_MIN || r->cur == r->head || r->tail != r->cur + 1 ||
	    !q->dest->same_host || !one_sided(requester_entry(r, r->cur - 1)))
		return false;
	if (r->wait_again[write].in) {
		r->wait_again[write].in--;
		return false;
	}
	return true;
}

/* Takes the entry's PSNs back: it was done without them. It is the only one. */
static void done_directly(struct tqp *q, struct sent *e, uint64_t now)
{
	q->req.next_psn = e->psn;
	e->npsn = 0;
	e->flags |= SENT_DONE;
	q->req.cur++;
	completer_done(q, now);
}

/* In vain: the next may try it later. */
static void wait_longer(struct requester *r, bool write)
{
	uint16_t gap = r->wait_again[write].gap * 2;

	gap = gap < WAIT_AGAIN_MIN ? WAIT_AGAIN_MIN : gap > WAIT_AGAIN_MAX ? WAIT_AGAIN_MAX : gap;
	r->wait_again[write].in = r->wait_again[write].gap = gap;
}

enum way { BY_RING, DIRECTLY, LATER };

/* A WRITE or READ by direct access: the whole of it, or a part, and the rest in later turns. */
static enum way go_directly(struct tqp *q, struct sent *e, const struct wqe *w,
			    const struct gather *g, uint64_t now)
{
	struct requester *r = &q->req;
	struct direct_ask ask = { .write = w->opcode == MLX5_OPCODE_RDMA_WRITE,
				  .sqpn = q->qp.qpn,
				  .dqpn = q->qp.attr.dest_qp_num,
				  .rkey = w->rkey,
				  .va = w->raddr,
				  .len = w->len,
				  .mapped = r->waited && w->opcode == MLX5_OPCODE_RDMA_WRITE,
				  .done = r->direct_done,
				  .pieces = g->piece,
				  .npieces = g->n };

	r->direct_done = 0;
	if (!reaches(q) || !e->len) {
		r->waited = false;
		return BY_RING;
	}
	if (!alone(q, e)) {
		r->waited = must_wait(q, e);
		return r->waited ? LATER : BY_RING;
	}
	if (q->dest->ops->direct(q->dest, &ask)) {
		if (r->waited)
			wait_longer(r, ask.write);
		r->waited = false;
		return BY_RING;
	}
	if (ask.done == ask.len) {
		r->waited = false;
		done_directly(q, e, now);
		return DIRECTLY;
	}
	r->direct_done = ask.done;
	q->again = true;
	return LATER;
}

static bool read_allowed(const struct tqp *q)
{
	return q->req.reads < q->qp.attr.max_rd_atomic;
}

/* How many PSNs of a READ are asked for at once: through a network no more than may be on their
 * way. The rest is asked for when they are here, so that the peer counts one READ at a time. A
 * part that is asked for again ends where it ended before, as a responder wants it. A peer that
 * reports is asked ahead, and each part counts as a READ. 0: wait. */
static uint32_t read_part(struct tqp *q, uint32_t skip, uint32_t left)
{
	struct requester *r = &q->req;
	uint32_t part;

	if (!q->dest || !q->dest->net)
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

/* Where the answer goes, or the payload of an atomic write. */
static bool gather_read(struct tqp *q, const struct sent *e, const struct wqe *w, struct seg *s,
			struct gather *g)
{
	bool brings = brings_data(w);
	struct gather_ask ask = {
		w->sge, w->nsge, 0, w->len, requester_pdn(q, e), brings ? 0 : IBV_ACCESS_LOCAL_WRITE
	};

	if (w->ninline)
		gather_inline(w, 0, w->len, g);
	else if (!gather(q->qp.ctx->hca->keys, &ask, g))
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

/* A READ or atomic request; a READ that was partly answered goes on where it stopped. */
static bool send_read(struct tqp *q, struct sent *e, const struct wqe *w, uint64_t now)
{
	struct requester *r = &q->req;
	uint32_t skip = psn_diff(r->psn, e->psn) & PSN_MASK;
	struct gather g;
	uint32_t left = e->npsn - skip, part = read_part(q, skip, left);
	struct seg s = { .npsn = part, .rkey = w->rkey };
	enum way way;
	int err;

	if (!read_allowed(q) || !part)
		return false;
	if (!gather_read(q, e, w, &s, &g))
		return fail(q, w, V_LOCAL_PROT, &g, now);
	if (!skip && q->qp.type == IBV_QPT_RC && e->opcode == MLX5_OPCODE_RDMA_READ) {
		way = go_directly(q, e, w, &g, now);
		if (way != BY_RING)
			return way == DIRECTLY;
	}
	fill(q, &s, forms[w->opcode].only);
	s.flags |= SEG_ACKREQ | (r->no_ref ? SEG_NO_REF : 0);
	s.srqn = w->srqn;
	s.va = w->raddr + (uint64_t)skip * r->mtu;
	s.dma_len = part == left ? w->len - skip * r->mtu : part * r->mtu;
	s.swap_add = w->swap_add;
	s.compare = w->compare;
	err = emit(q, &s, now);
	if (err == EFAULT) {
		g.why = KEY_OK;
		return fail(q, w, V_LOCAL_PROT, &g, now);
	}
	if (err)
		return false;
	sent_up_to(q, e, psn_add(r->psn, part));
	e->flags &= ~SENT_DONE;
	if (part != left)
		return r->rec;
	r->reads++;
	r->cur++;
	return true;
}

static uint8_t op_at(const struct form *f, bool first, bool last)
{
	if (first)
		return last ? f->only : f->first;
	return last ? f->last : f->middle;
}

/* A SEND has none, and leaves room for 16 more bytes in the line of its header. */
static void target(const struct wqe *w, struct seg *s)
{
	bool has = w->opcode == MLX5_OPCODE_RDMA_WRITE || w->opcode == MLX5_OPCODE_RDMA_WRITE_IMM;

	s->va = has ? w->raddr : 0;
	s->rkey = has ? w->rkey : 0;
	s->dma_len = has ? w->len : 0;
}

/* One segment of a SEND or WRITE, from r->psn on. */
static bool send_segment(struct tqp *q, struct sent *e, const struct wqe *w, uint64_t now)
{
	struct requester *r = &q->req;
	uint32_t k = psn_diff(r->psn, e->psn) & PSN_MASK, skip = k * r->mtu;
	bool by_value;
	uint32_t max = segment_max(q, w, &by_value), left = w->len - skip;
	uint32_t len = left < max ? left : max, n = psns_of(q, len);
	struct gather g;
	struct seg s;
	enum way way;
	int err;

	if (w->ninline) {
		gather_inline(w, skip, len, &g);
	} else {
		struct gather_ask ask = { w->sge, w->nsge, skip, len, q->qp.pd->pdn, 0 };

		if (!gather(q->qp.ctx->hca->keys, &ask, &g))
			return fail(q, w, V_LOCAL_PROT, &g, now);
	}
	if (len == w->len && e->opcode == MLX5_OPCODE_RDMA_WRITE && q->qp.type == IBV_QPT_RC) {
		way = go_directly(q, e, w, &g, now);
		if (way != BY_RING)
			return way == DIRECTLY;
	}
	blank(&s);
	fill(q, &s, op_at(&forms[w->opcode], !k, len == left));
	s.npsn = n;
	s.len = len;
	s.imm = w->imm;
	if (len == left)
		s.flags |= SEG_ACKREQ | (w->solicited ? SEG_SOLICITED : 0);
	else if (r->again || congestion_asks(q, k) || credit_short(q, e))
		s.flags |= SEG_ACKREQ;
	if (r->by_value)
		for (unsigned int i = 0; i < g.n; i++)
			g.piece[i].key = 0;
	s.srqn = w->srqn;
	target(w, &s);
	s.pieces = g.piece;
	s.npieces = g.n;
	err = emit(q, &s, now);
	if (err == EFAULT) {
		g.why = KEY_OK;
		return fail(q, w, V_LOCAL_PROT, &g, now);
	}
	/* UC: what nobody takes is lost, and the sender never knows */
	if (err && (err == EAGAIN || qp_reliable(&q->qp)))
		return false;
	sent_up_to(q, e, psn_add(r->psn, n));
	if (len == left)
		r->cur++;
	return true;
}

/* NULL: done, or nothing to do. */
static const char *execute_local(struct tqp *q, const struct wqe *w)
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
	if (w->opcode == MLX5_OPCODE_LOCAL_INVAL)
		return mw_invalidate(keys, b.window, b.pdn, b.qpn);
	return NULL;
}

/* Once, though sending may go back over it. An error waits for those before it. */
static bool do_local(struct tqp *q, struct sent *e, const struct wqe *w, uint64_t now)
{
	struct requester *r = &q->req;
	const char *why = NULL;

	if (!(e->flags & SENT_DONE))
		why = execute_local(q, w);
	if (why) {
		if (r->cur == r->head)
			completer_fail(q, V_MW_BIND, blame_window(q, w, why), now);
		return false;
	}
	e->flags |= SENT_DONE;
	r->cur++;
	completer_acked(q, r->una, now);
	return true;
}

/* XRC: the SRQ that @w names may be another process' than the last one's. Two processes keep no
 * order between them, so what the first has is to be acknowledged before the second gets more. */
static bool routed(struct tqp *q, const struct wqe *w)
{
	return q->qp.type != IBV_QPT_XRC_SEND || !q->env->route ||
	       q->env->route(q, w->srqn, q->req.una == q->req.psn);
}

/* Sends what remains of @e, whose WQE is @w. False: not now. */
static bool send_entry(struct tqp *q, struct sent *e, const struct wqe *w, uint64_t now)
{
	struct requester *r = &q->req;
	uint32_t i = r->cur;

	if ((e->flags & SENT_FENCE) && r->reads && r->psn == e->psn)
		return false;
	if (!e->npsn)
		return do_local(q, e, w, now);
	if (unlikely(!routed(q, w)))
		return false;
	if (e->flags & SENT_READ)
		return send_read(q, e, w, now);
	while (r->cur == i)
		if (!may_send(q, now) || !credit_allows(q, e) || !send_segment(q, e, w, now))
			return false;
	if (!qp_reliable(&q->qp)) {
		r->una = r->psn;
		completer_done(q, now);
	}
	return true;
}

/* What was lost first, one packet or READ of it, and sending goes on where it was. */
static bool send_again(struct tqp *q, uint64_t now)
{
	struct requester *r = &q->req;
	uint32_t psn = r->psn, cur = r->cur, n;
	uint16_t reads = r->reads;
	struct sent *e;
	struct wqe w;
	bool sent;

	r->psn = recovery_first(q, &n);
	r->cur = requester_find(r, r->psn);
	e = requester_entry(r, r->cur);
	r->reads = 0;
	r->again = true;
	if (!requester_reread(q, e, &w))
		sent = fail(q, &w, V_LOCAL_QP_OP, NULL, now);
	else if (e->flags & SENT_READ)
		sent = send_read(q, e, &w, now);
	else
		sent = send_segment(q, e, &w, now);
	r->again = false;
	if (q->qp.state == IBV_QPS_ERR)
		return false;
	r->psn = psn;
	r->cur = cur;
	r->reads = reads;
	return sent;
}

/* Reads the WQE at cur, starting the next one when all are sent. */
static bool next(struct tqp *q, struct wqe *w, enum verdict *v, uint64_t now)
{
	struct requester *r = &q->req;
	int err;

	if (r->cur != r->tail) {
		*v = requester_reread(q, requester_entry(r, r->cur), w) ? allowed(q, w)
									: V_LOCAL_QP_OP;
		return true;
	}
	err = start(q, w, now);
	if (err == ENOENT)
		return false;
	if (err)
		*v = err == EMSGSIZE ? V_LOCAL_LENGTH : V_LOCAL_QP_OP;
	else
		*v = allowed(q, w);
	return true;
}

/* False: what is on its way comes first. */
static bool begin_on_network(struct tqp *q, uint64_t now)
{
	if (!q->req.rec)
		recovery_begin(q, false);
	if (q->req.una == q->req.max_psn)
		congestion_resume(q, now);
	return !q->req.rec || !recovery_crowded(q);
}

void requester_run(struct tqp *q, uint64_t now)
{
	struct requester *r = &q->req;
	struct wqe w;
	enum verdict v;
	bool more = !unlikely(q->dest && q->dest->net) || begin_on_network(q, now);

	while (more && !r->blocked && !r->wait && may_send(q, now)) {
		if (q->qp.state != IBV_QPS_RTS && q->qp.state != IBV_QPS_SQD)
			break;
		if (unlikely(r->rec && recovery_lost(q))) {
			more = send_again(q, now);
			continue;
		}
		if (!next(q, &w, &v, now))
			break;
		if (v != V_OK)
			more = fail(q, &w, v, NULL, now);
		else if (q->qp.type == IBV_QPT_UD)
			more = ud_send(q, requester_entry(r, r->cur), &w, now);
		else if (q->qp.type == IBV_QPT_RAW_PACKET)
			more = raw_send(q, requester_entry(r, r->cur), &w, now);
		else
			more = send_entry(q, requester_entry(r, r->cur), &w, now);
	}
	if (r->unflushed) {
		r->unflushed = false;
		answer_behind(q); /* in one call with it */
		q->dest->ops->flush(q->dest);
	}
	retry_arm(q, now);
}
