// SPDX-License-Identifier: MIT
#include "rdmacm/rsocket/ring.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 1, FLAG_BIG_ENDIAN = 1, FLAG_IOMAP = 2 };
enum { BATCH = 16, PAGE = 4096, GREETING = 40 };
enum { BLOCKS = 32768, BLOCK = 64, WRITE_HEADER = 36 }; /* of a queue; bytes; bytes */

/* What a completion is of: in wr_id's upper half. The lower: bytes of the send buffer. */
enum { OF_RECEIVE = 1, OF_SEND, OF_CONTROL };

static const bool big_endian = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;

_Static_assert(sizeof(struct greeting) == GREETING, "as it travels");

/* --- beginning and end --- */

static uint8_t to_scale(uint32_t n)
{
	return (uint8_t)(n <= 128 ? n : 128 | n >> 8);
}

static uint32_t from_scale(uint8_t n)
{
	return n <= 128 ? n : (uint32_t)(n & 127) << 8;
}

static size_t whole_pages(size_t n)
{
	return (n + PAGE - 1) & ~(size_t)(PAGE - 1);
}

/* A queue of sends has LIMIT_QP_WR blocks (hca/limits.h): large inline data leave fewer places. */
static void fit_queue(struct sock *s)
{
	uint32_t blocks = (WRITE_HEADER + s->opt.inlined + BLOCK - 1) / BLOCK;

	if (s->opt.sq > BLOCKS / blocks)
		s->opt.sq = BLOCKS / blocks;
}

static int make_memory(struct sock *s)
{
	size_t tables =
		whole_pages(SGES * sizeof(struct sge) + s->opt.iomaps * sizeof(struct iomap));
	size_t sending = whole_pages(s->opt.sndbuf), receiving = whole_pages(s->opt.rcvbuf);
	const int theirs = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	uint8_t *m;

	s->known = calloc(s->opt.iomaps ? s->opt.iomaps : 1, sizeof(struct iomap));
	if (!s->known || softhca_arena_take(tables + sending + receiving, &s->memory))
		return ENOMEM;
	m = softhca_arena_at(s->memory);
	s->sges = (struct sge *)m;
	s->iomaps = (struct iomap *)(s->sges + SGES);
	s->rbuf = m + tables;
	s->sbuf = s->rbuf + receiving;
	s->tmr = ibv_reg_mr(s->id->pd, s->sges, tables, theirs);
	s->rmr = s->tmr ? ibv_reg_mr(s->id->pd, s->rbuf, s->opt.rcvbuf, theirs) : NULL;
	s->smr = s->rmr ? ibv_reg_mr(s->id->pd, s->sbuf, s->opt.sndbuf, IBV_ACCESS_LOCAL_WRITE)
			: NULL;
	return s->smr ? 0 : errno;
}

static int make_cq(struct sock *s)
{
	struct rdma_cm_id *id = s->id;

	id->recv_cq_channel = ibv_create_comp_channel(id->verbs);
	if (!id->recv_cq_channel)
		return errno;
	if (fcntl(id->recv_cq_channel->fd, F_SETFL, O_NONBLOCK))
		return errno;
	id->recv_cq =
		ibv_create_cq(id->verbs, (int)(s->opt.sq + s->opt.rq), id, id->recv_cq_channel, 0);
	if (!id->recv_cq)
		return errno;
	id->send_cq = id->recv_cq;
	id->send_cq_channel = id->recv_cq_channel;
	return 0;
}

static int post_receives(struct sock *s, unsigned int n)
{
	struct ibv_recv_wr wr[BATCH], *bad;

	while (n) {
		unsigned int k = n < BATCH ? n : BATCH;

		for (unsigned int i = 0; i < k; i++)
			wr[i] = (struct ibv_recv_wr){ .wr_id = (uint64_t)OF_RECEIVE << 32,
						      .next = i + 1 < k ? &wr[i + 1] : NULL };
		if (ibv_post_recv(s->id->qp, wr, &bad))
			return EIO;
		n -= k;
	}
	return 0;
}

static int make_qp(struct sock *s)
{
	struct ibv_qp_init_attr a = { .qp_context = s->id,
				      .send_cq = s->id->send_cq,
				      .recv_cq = s->id->recv_cq,
				      .qp_type = IBV_QPT_RC,
				      .sq_sig_all = 1,
				      .cap = { .max_send_wr = s->opt.sq,
					       .max_recv_wr = s->opt.rq,
					       .max_send_sge = 2,
					       .max_recv_sge = 1,
					       .max_inline_data = s->opt.inlined } };

	return rdma_create_qp(s->id, NULL, &a) ? errno : 0;
}

int ring_make(struct sock *s)
{
	int err = s->id->pd ? 0 : ENODEV;

	fit_queue(s);
	err = err ? err : make_cq(s); /* first: memory can do without a descriptor */
	err = err ? err : make_memory(s);
	err = err ? err : make_qp(s);
	err = err ? err : post_receives(s, s->opt.rq);
	if (err)
		return err;
	s->sfree = s->opt.sndbuf;
	s->sends_free = s->opt.sq - CONTROL_SLOTS;
	s->control_free = CONTROL_SLOTS;
	s->offered = s->opt.rcvbuf / 2;
	s->consumed = s->opt.rcvbuf / 2; /* the second half goes with the first credits */
	s->offer_at = 1;
	s->receive_limit = (uint16_t)s->opt.rq;
	s->renew_at = (uint16_t)(s->opt.rq / 2);
	return 0;
}

static void dereg(struct ibv_mr *mr)
{
	if (mr)
		ibv_dereg_mr(mr);
}

void ring_free(struct sock *s)
{
	struct rdma_cm_id *id = s->id;

	rdma_destroy_qp(id);
	if (id->recv_cq)
		ibv_destroy_cq(id->recv_cq);
	if (id->recv_cq_channel)
		ibv_destroy_comp_channel(id->recv_cq_channel);
	id->recv_cq = id->send_cq = NULL;
	id->recv_cq_channel = id->send_cq_channel = NULL;
	dereg(s->smr);
	dereg(s->rmr);
	dereg(s->tmr);
	softhca_arena_give(s->memory);
	free(s->known);
}

/* --- meeting the peer --- */

void ring_greet(const struct sock *s, struct greeting *out)
{
	*out = (struct greeting){ .version = VERSION,
				  .flags = (uint8_t)(FLAG_IOMAP |
						     (big_endian ? FLAG_BIG_ENDIAN : 0)),
				  .credits = htobe16((uint16_t)s->opt.rq),
				  .iomaps = to_scale(s->opt.iomaps),
				  .sges_addr = htobe64((uintptr_t)s->sges),
				  .sges_key = htobe32(s->tmr->rkey),
				  .sges_count = htobe32(SGES),
				  .data_addr = htobe64((uintptr_t)s->rbuf),
				  .data_key = htobe32(s->rmr->rkey),
				  .data_length = htobe32(s->opt.rcvbuf / 2) };
}

int ring_meet(struct sock *s, const void *data, size_t len)
{
	struct greeting g;

	if (!data || len < sizeof(g))
		return softhca_refuse(EPROTO,
				      "rsocket: the peer's private data has %zu bytes, not "
				      "the %zu of a greeting; is it a program that uses rsockets?",
				      len, sizeof(g));
	memcpy(&g, data, sizeof(g));
	if (g.version != VERSION || !g.sges_count || !g.credits)
		return softhca_refuse(EPROTO,
				      "rsocket: a greeting of version %u with %u SGEs and "
				      "%u credits; is it a program that uses rsockets?",
				      g.version, be32toh(g.sges_count), be16toh(g.credits));
	s->swap = big_endian != !!(g.flags & FLAG_BIG_ENDIAN);
	s->their_sges = be64toh(g.sges_addr);
	s->their_key = be32toh(g.sges_key);
	s->their_sge_count = be32toh(g.sges_count);
	s->next_theirs = 1 % s->their_sge_count;
	s->their_iomaps = s->their_sges + s->their_sge_count * sizeof(struct sge);
	s->their_iomap_count = g.flags & FLAG_IOMAP ? from_scale(g.iomaps) : 0;
	s->target[0] = (struct sge){ .addr = be64toh(g.data_addr),
				     .key = be32toh(g.data_key),
				     .length = be32toh(g.data_length) };
	s->targets = s->target[0].length ? 1 : 0;
	s->next_sge = 1;
	s->send_limit = be16toh(g.credits);
	return 0;
}

/* --- sending --- */

static int post(struct sock *s, const struct write *w, uint32_t of)
{
	struct ibv_sge sge[2] = { w->sge[0], w->sge[1] };
	struct ibv_send_wr *bad,
		wr = { .wr_id = (uint64_t)of << 32 | w->copied,
		       .sg_list = sge,
		       .num_sge = w->sges,
		       .opcode = w->plain ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_WRITE_WITH_IMM,
		       .send_flags = w->inlined ? IBV_SEND_INLINE : 0,
		       .imm_data = htobe32(w->imm) };

	wr.wr.rdma.remote_addr = w->addr;
	wr.wr.rdma.rkey = w->key;
	return ibv_post_send(s->id->qp, &wr, &bad);
}

int ring_post(struct sock *s, const struct write *w)
{
	int err = post(s, w, OF_SEND);

	if (err)
		return err;
	s->sends_free--;
	s->sfree -= w->copied;
	return 0;
}

static int post_control(struct sock *s, const struct write *w)
{
	int err;

	if (!s->control_free)
		return ENOBUFS;
	err = post(s, w, OF_CONTROL);
	if (!err)
		s->control_free--;
	return err;
}

int ring_control(struct sock *s, uint32_t what)
{
	struct write w = { .imm = ring_imm(OP_CONTROL, what) };

	return post_control(s, &w);
}

void ring_probe(struct sock *s)
{
	const struct write nothing = { .plain = true };

	if (s->control_free && post_control(s, &nothing)) /* else one is under way */
		sock_end(s, EIO);
}

void ring_place(struct sock *s, uint32_t n, struct write *w)
{
	uint32_t first = s->opt.sndbuf - s->spos;

	if (first > n)
		first = n;
	w->copied = n;
	w->sges = first < n ? 2 : 1;
	w->sge[0] = (struct ibv_sge){ (uintptr_t)s->sbuf + s->spos, first, s->smr->lkey };
	w->sge[1] = (struct ibv_sge){ (uintptr_t)s->sbuf, n - first, s->smr->lkey };
	s->spos = (s->spos + n) % s->opt.sndbuf;
}

/* A sender that went on with every byte that becomes free would send as little at a time, for
 * ever. */
bool ring_can_send(const struct sock *s)
{
	return s->sends_free && s->sfree >= s->opt.sndbuf / 4 && s->sent != s->send_limit &&
	       s->targets;
}

bool ring_is_idle(const struct sock *s)
{
	return s->sends_free == s->opt.sq - CONTROL_SLOTS && s->control_free == CONTROL_SLOTS;
}

/* --- credits --- */

static void swap_sge(struct sge *e)
{
	e->addr = __builtin_bswap64(e->addr);
	e->key = __builtin_bswap32(e->key);
	e->length = __builtin_bswap32(e->length);
}

/* False: nothing is due, or it cannot be said now. */
static bool credit(struct sock *s)
{
	uint32_t half = s->opt.rcvbuf / 2;
	bool offer = s->consumed >= half;
	struct sge e = { (uintptr_t)s->rbuf + s->offer_at * (uint64_t)half, s->rmr->rkey, half };
	uint16_t limit = (uint16_t)(s->received + s->opt.rq);
	struct write w = { .imm = ring_imm(OP_SGL, limit) };

	if (s->state != SOCK_OPEN || !s->control_free)
		return false;
	if (!offer && (int16_t)(s->received - s->renew_at) < 0)
		return false;
	if (offer) {
		if (s->swap)
			swap_sge(&e);
		w.sge[0] = (struct ibv_sge){ (uintptr_t)&e, sizeof(e), 0 };
		w.sges = 1;
		w.inlined = true;
		w.addr = s->their_sges + s->next_theirs * sizeof(e);
		w.key = s->their_key;
	}
	if (post_control(s, &w)) {
		sock_end(s, EIO);
		return false;
	}
	s->receive_limit = limit;
	s->renew_at = (uint16_t)(s->received + s->opt.rq / 2);
	if (!offer)
		return true;
	s->consumed -= half;
	s->offered += half;
	s->offer_at ^= 1;
	s->next_theirs = (s->next_theirs + 1) % s->their_sge_count;
	return true;
}

/* A call may have read both halves. */
void ring_credit(struct sock *s)
{
	while (credit(s))
		;
}

/* --- receiving --- */

static int violation(struct sock *s, const char *what, uint32_t n)
{
	int err = softhca_refuse(EIO,
				 "rsocket: the peer breaks the protocol: %s (%u); the "
				 "connection ends",
				 what, n);

	sock_end(s, err);
	return err;
}

static int on_data(struct sock *s, uint32_t n, uint32_t written)
{
	if (s->received == s->receive_limit)
		return violation(s, "a message beyond its credits", s->received);
	if (n > s->offered || n != written)
		return violation(s, "bytes beyond what it was offered", n);
	s->received++;
	s->offered -= n;
	s->have += n;
	return 0;
}

static int on_sgl(struct sock *s, uint32_t limit, uint32_t written)
{
	struct sge *at = &s->sges[s->next_sge], e;

	s->send_limit = (uint16_t)limit;
	if (!written)
		return 0;
	if (written != sizeof(e))
		return violation(s, "an SGE of another size", written);
	if (s->targets == SGES)
		return violation(s, "an SGE too many", s->targets);
	memcpy(&e, at, sizeof(e));
	s->next_sge = (s->next_sge + 1) % SGES;
	if (e.length)
		s->target[s->targets++] = e;
	return 0;
}

static int on_iomap(struct sock *s, uint32_t index, uint32_t written)
{
	if (index >= s->opt.iomaps)
		return violation(s, "an entry beyond the I/O map", index);
	if (written != sizeof(struct iomap))
		return violation(s, "an entry of the I/O map of another size", written);
	if (s->received == s->receive_limit)
		return violation(s, "a message beyond its credits", s->received);
	s->received++;
	s->known[index] = s->iomaps[index];
	return 0;
}

static int on_control(struct sock *s, uint32_t what)
{
	if (what == CONTROL_DISCONNECT || (what == CONTROL_SHUTDOWN && !s->can_write))
		sock_end(s, 0);
	else if (what == CONTROL_SHUTDOWN)
		s->can_read = false;
	return 0;
}

static int on_message(struct sock *s, const struct ibv_wc *wc)
{
	uint32_t imm = be32toh(wc->imm_data), data = imm & 0x1fffffff;

	if (wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM)
		return violation(s, "a message that is no RDMA WRITE with immediate", wc->opcode);
	switch (imm >> 29) {
	case OP_DATA:
		return on_data(s, data, wc->byte_len);
	case OP_SGL:
		return on_sgl(s, data, wc->byte_len);
	case OP_IOMAP:
		return on_iomap(s, data & 0xffff, wc->byte_len);
	case OP_CONTROL:
		return on_control(s, data);
	default:
		return violation(s, "an operation that there is not", imm >> 29);
	}
}

static void on_sent(struct sock *s, const struct ibv_wc *wc)
{
	if (wc->wr_id >> 32 == OF_CONTROL)
		s->control_free++;
	else
		s->sends_free++;
	s->sfree += (uint32_t)wc->wr_id;
}

/* Whether a receive has been used. */
static bool on_completion(struct sock *s, const struct ibv_wc *wc)
{
	bool received = wc->wr_id >> 32 == OF_RECEIVE;

	if (!received)
		on_sent(s, wc);
	if (s->state != SOCK_OPEN)
		return false;
	if (wc->status) {
		sock_end(s, EIO);
		return false;
	}
	return received && !on_message(s, wc);
}

/* No more than the CQ has room for: all that was there when it was armed, and an end to the call of
 * a program whose peer never stops. */
void ring_progress(struct sock *s)
{
	unsigned int left = s->opt.sq + s->opt.rq;
	struct ibv_wc wc[BATCH];
	bool some = false;
	int n;

	if (!s->id->recv_cq)
		return;
	while (left && (n = ibv_poll_cq(s->id->recv_cq, BATCH, wc)) > 0) {
		unsigned int used = 0;

		left -= (unsigned int)n < left ? (unsigned int)n : left;

		for (int i = 0; i < n; i++)
			used += on_completion(s, &wc[i]);
		if (s->state == SOCK_OPEN && post_receives(s, used))
			sock_end(s, EIO);
		some = true;
	}
	if (some)
		sock_changed(s);
	ring_credit(s);
}
