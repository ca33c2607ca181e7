// SPDX-License-Identifier: MIT
/* Completions against the model. */
#include <arpa/inet.h>
#include <string.h>
#include "property/side.h"
#include "verbs/peer.h"

enum { RECEIVE = 1, POOLED = 2, XPOOLED = 3, PROLOGUE = 4 };

static uint64_t make_id(unsigned int kind, unsigned int link, unsigned int side, uint32_t life,
			unsigned int index)
{
	return (uint64_t)kind << 56 | (uint64_t)link << 48 | (uint64_t)side << 40 |
	       (uint64_t)(life & 0xffff) << 16 | index;
}

uint64_t wr_id(const struct side *s, bool receive, unsigned int index)
{
	return make_id(receive ? RECEIVE : 0, s->link, s->s, atomic_load(&s->life), index);
}

uint64_t pool_id(const struct side *s)
{
	return s ? make_id(XPOOLED, s->link, s->s, 0, 0) : (uint64_t)POOLED << 56;
}

uint64_t prologue_id(const struct side *s)
{
	return make_id(PROLOGUE, s->link, s->s, atomic_load(&s->life), 0);
}

static void no(const struct side *s, const struct ibv_wc *wc, const char *what)
{
	board_fail("link %u side %c episode %u: %s %u: %s (%s); so far posted %u, retired %u%s; "
		   "receives posted %u, done %u, delivered %u%s",
		   s->link, "ab"[s->s], s -> ep,
		   wc -> wr_id >> 56 == POOLED ? "pooled receive"
			 : wc->wr_id >> 56     ? "receive"
					       : "operation",
		   (unsigned int)(wc->wr_id & 0xffff), what, ibv_wc_status_str(wc->status),
		   s->posted, s->retired, s->failed ? " (failed)" : "", s->rposted, s->rdone,
		   s->delivered, s->rfailed ? " (failed)" : "");
}

/* --- operations --- */

static const uint8_t wc_opcodes[] = { [IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
				      [IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
				      [IBV_WR_SEND] = IBV_WC_SEND,
				      [IBV_WR_SEND_WITH_IMM] = IBV_WC_SEND,
				      [IBV_WR_RDMA_READ] = IBV_WC_RDMA_READ,
				      [IBV_WR_ATOMIC_CMP_AND_SWP] = IBV_WC_COMP_SWAP,
				      [IBV_WR_ATOMIC_FETCH_AND_ADD] = IBV_WC_FETCH_ADD,
				      [IBV_WR_SEND_WITH_INV] = IBV_WC_SEND,
				      [IBV_WR_BIND_MW] = IBV_WC_BIND_MW,
				      [IBV_WR_LOCAL_INV] = IBV_WC_LOCAL_INV,
				      [IBV_WR_ATOMIC_WRITE] = IBV_WC_ATOMIC_WRITE };

/* Operation @k has succeeded, with a completion or silently. */
static void succeeded(struct side *s, const struct ibv_wc *wc, unsigned int k)
{
	const struct op *o = &s->v.mine->op[k];
	const uint8_t *at = s->mem + slot_at(s->pr->p, AREA_OPS, k);

	if (!model_send_may(&s->v, k, IBV_WC_SUCCESS, false, false))
		no(s, wc, "an operation has succeeded that may not");
	if (is_atomic(o) && memcmp(at, &s->original[k], 8))
		no(s, wc, "the atomic brings another value than the word had");
	if (o->opcode == IBV_WR_RDMA_READ &&
	    !pieces_are(at, 0, o->len, o->len, o->nsge, o->content))
		no(s, wc, "the READ brings other bytes than are there");
}

static void account_send(struct side *s, const struct ibv_wc *wc)
{
	unsigned int k = wc->wr_id & 0xffff, next = s->retired;
	bool failed = s->failed;

	if (k < next || k >= s->posted)
		no(s, wc, "a completion twice, or of nothing posted");
	if (failed && k != next)
		no(s, wc, "a flushed operation was left out");
	for (unsigned int i = next; i < k; i++) {
		if (s->signaled[i])
			no(s, wc, "a signalled operation was left out");
		succeeded(s, wc, i);
	}
	if (!model_send_may(&s->v, k, wc->status, failed, s->moved || s->ending))
		no(s, wc, "a status that may not be");
	if (wc->status == IBV_WC_SUCCESS) {
		if (!s->signaled[k])
			no(s, wc, "a completion of an unsignalled operation");
		if (wc->opcode != wc_opcodes[s->v.mine->op[k].opcode])
			no(s, wc, "the opcode of another operation");
		succeeded(s, wc, k);
	} else if (!failed) {
		s->failed_at = k;
		s->first = wc->status;
		atomic_store(&s->failed, true);
		board_log("link %u %c: operation %u: %s", s->link, "ab"[s->s], k,
			  ibv_wc_status_str(wc->status));
	}
	atomic_store(&s->retired, k + 1);
}

/* --- receives --- */

struct arrival { /* where a message is */
	const uint8_t *at;
	uint32_t room, nsge, head;
};

static bool is_message(const struct side *s, const struct ibv_wc *wc, const struct arrival *a,
		       unsigned int k)
{
	const struct op *o = &s->v.theirs->op[k];
	bool inv = o->opcode == IBV_WR_SEND_WITH_INV, imm = o->opcode != IBV_WR_SEND && !inv;
	unsigned int flags = wc->wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV);

	if (wc->byte_len != o->len + a->head ||
	    flags != (imm ? IBV_WC_WITH_IMM : 0U) + (inv ? IBV_WC_WITH_INV : 0U) ||
	    (imm && wc->imm_data != htonl(k)) ||
	    (inv && wc->invalidated_rkey != board->seat[s->link][s->s].addr.window[1]))
		return false;
	if (wc->opcode != (is_write(o) ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV))
		return false;
	if (is_write(o))
		return pattern_check(s->mem + slot_at(s->pr->p, AREA_TARGET, k), o->len, o->content,
				     0) == o->len;
	return pieces_are(a->at, a->head, o->len, a->room, a->nsge, o->content);
}

/* WRITEs before a message are in place when it has arrived. */
static void check_before(struct side *s, const struct ibv_wc *wc, unsigned int k)
{
	while (k--) {
		const struct op *o = &s->v.theirs->op[k];

		if (!is_write(o) || takes_receive(o))
			continue;
		if (pattern_check(s->mem + slot_at(s->pr->p, AREA_TARGET, k), o->len, o->content,
				  0) != o->len)
			no(s, wc, "the WRITE before this message is not in place");
		return;
	}
}

static void arrived(struct side *s, const struct ibv_wc *wc, const struct arrival *a)
{
	unsigned int k = NONE;

	if (reliable(s->v.l)) {
		k = message_op(s->v.theirs, s->v.their_ops, s->delivered);
		if (k == NONE || !is_message(s, wc, a, k))
			no(s, wc, "another message than was sent");
		check_before(s, wc, k);
	} else {
		for (k = s->next_message; k < s->v.their_ops; k++)
			if (takes_receive(&s->v.theirs->op[k]) && is_message(s, wc, a, k))
				break;
		if (k >= s->v.their_ops && s->v.l->type == IBV_QPT_UC && s->ep) {
			atomic_fetch_add(&s->delivered,
					 1); /* of the episode before: no PSN tells */
			return;
		}
		if (k >= s->v.their_ops)
			no(s, wc, "a message that was not sent, or not after the one before");
		s->next_message = k + 1;
		if (s->v.l->type == IBV_QPT_UD && wc->src_qp != s->peer.qpn)
			no(s, wc, "another sender");
	}
	atomic_fetch_add(&s->delivered, 1);
}

static void account_recv(struct side *s, const struct ibv_wc *wc, unsigned int r,
			 const struct arrival *a)
{
	unsigned int n = message_op(s->v.theirs, s->v.their_ops, s->delivered);

	if (!model_recv_may(&s->v, r, n, wc->status, s->rfailed, s->moved || s->ending))
		no(s, wc, "a status that may not be");
	if (wc->status == IBV_WC_SUCCESS)
		arrived(s, wc, a);
	else if (!atomic_exchange(&s->rfailed, true))
		board_log("link %u %c: receive %u: %s", s->link, "ab"[s->s], r,
			  ibv_wc_status_str(wc->status));
	atomic_fetch_add(&s->rdone, 1);
}

static void from_queue(struct side *s, const struct ibv_wc *wc)
{
	unsigned int r = wc->wr_id & 0xffff;
	struct arrival a = { s->mem + slot_at(s->pr->p, AREA_RECVS, r), s->v.mine->recv[r].len,
			     s->v.mine->recv[r].nsge, head_of(s->v.l) };

	if (r != s->rdone || r >= s->rposted)
		no(s, wc, "receives complete in another order");
	account_recv(s, wc, r, &a);
}

static void from_pool(struct side *s, const struct ibv_wc *wc)
{
	struct pool *pool = s->pool;
	unsigned int slot = wc->wr_id & 0xffff;
	struct arrival a = { pool->mem + slot * slot_bytes(s->pr->p), s->pr->p->max_len, 1,
			     head_of(s->v.l) };

	if (!pool || pool->id >> 56 != wc->wr_id >> 56 || slot >= POOL || !pool->busy[slot])
		no(s, wc, "a receive of the pool that was not posted");
	account_recv(s, wc, NONE, &a);
	pool_free(pool, slot);
}

/* --- polling --- */

static struct side *owner(struct process *pr, const struct ibv_wc *wc)
{
	bool pooled = wc->wr_id >> 56 == POOLED;

	for (unsigned int i = 0; i < pr->sides; i++) {
		struct side *s = pr->side[i];

		if (pooled ? atomic_load(&s->qpn) == wc->qp_num
			   : make_id(0, s->link, s->s, 0, 0) == (wc->wr_id & 0x00ffffff00000000ULL))
			return s;
	}
	board_fail("process %u: a completion of nobody: wr_id 0x%llx qp_num 0x%x", pr->number,
		   (unsigned long long)wc->wr_id, wc->qp_num);
}

static void account(struct process *pr, const struct ibv_wc *wc)
{
	struct side *s = owner(pr, wc);

	if (wc->wr_id >> 56 == XPOOLED && wc->qp_num != board->seat[s->link][s->s].addr.target)
		no(s, wc, "the number of another target QP");
	if (wc->wr_id >> 56 == POOLED || wc->wr_id >> 56 == XPOOLED) {
		from_pool(s, wc);
		return;
	}
	if ((wc->wr_id >> 16 & 0xffff) != (atomic_load(&s->life) & 0xffff))
		no(s, wc, "a completion of an earlier life of the QP");
	if (wc->qp_num != atomic_load(&s->qpn))
		no(s, wc, "the number of another QP");
	if (wc->wr_id >> 56 == PROLOGUE) {
		if (wc->status != IBV_WC_SUCCESS || wc->opcode != IBV_WC_BIND_MW)
			no(s, wc, "a window is not bound");
		atomic_fetch_add(&s->bound, 1);
	} else if (wc->wr_id >> 56 == RECEIVE)
		from_queue(s, wc);
	else
		account_send(s, wc);
}

unsigned int box_poll(struct process *pr, struct box *b, int n)
{
	struct ibv_wc wc[16];
	int got;

	pthread_mutex_lock(&b->lock);
	got = ibv_poll_cq(b->cq, n > 16 ? 16 : n, wc);
	if (got < 0)
		board_fail("process %u: ibv_poll_cq says %d", pr->number, got);
	for (int i = 0; i < got; i++)
		account(pr, &wc[i]);
	pthread_mutex_unlock(&b->lock);
	if (got)
		board_tick();
	return (unsigned int)got;
}
