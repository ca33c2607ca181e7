// SPDX-License-Identifier: MIT
#include "wire/rounds.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include "util/barrier.h"
#include "util/rand.h"
#include "verbs/peer.h"

enum {
	SLOTS = 8, /* operations of one side at once */
	GUARD = 128, /* bytes around a message that stay as they are */
	LOOKS = 200, /* at an empty CQ before sleeping */
	GONE_MS = 20000, /* a failure's cause is seen on the TCP connection by then */
	RD_ATOMIC = 8,
};

struct op {
	enum ibv_wr_opcode opcode;
	uint32_t len, here, there; /* offsets in the slots of the initiator and of the target */
	uint32_t imm;
	uint64_t before, compare, operand; /* atomics: what the target has at first */
	uint64_t key, guard; /* of the patterns */
};

struct conn {
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *arena; /* the slots of our own operations, then those of the peer's */
	size_t room, bytes; /* of a slot, of all */
	struct peer_addr mine, theirs;
	struct terms t;
	int fd, side;
	struct op op[2][SLOTS]; /* by side */
	unsigned int sends, recvs; /* still to complete */
	unsigned int next_recv; /* slot of the peer's operation that completes the next receive */
};

/* --- TCP --- */

bool tcp_put(int fd, const void *p, size_t n)
{
	return send(fd, p, n, MSG_NOSIGNAL) == (ssize_t)n;
}

bool tcp_get(int fd, void *p, size_t n)
{
	return recv(fd, p, n, MSG_WAITALL) == (ssize_t)n;
}

/* The other side says the same word, or it stops. */
static bool meet(struct conn *c, char mine, char *theirs)
{
	return tcp_put(c->fd, &mine, 1) && tcp_get(c->fd, theirs, 1);
}

static bool peer_gone(struct conn *c, int ms)
{
	struct pollfd p = { .fd = c->fd, .events = POLLRDHUP };

	return poll(&p, 1, ms) > 0;
}

/* --- the plan --- */

static bool is_atomic(const struct op *o)
{
	return o->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || o->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static bool is_send(const struct op *o)
{
	return o->opcode == IBV_WR_SEND || o->opcode == IBV_WR_SEND_WITH_IMM;
}

static bool has_imm(const struct op *o)
{
	return o->opcode == IBV_WR_SEND_WITH_IMM || o->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool takes_recv(const struct op *o)
{
	return is_send(o) || has_imm(o);
}

/* Small, large, whole packets, and the largest. */
static uint32_t plan_len(struct rand *r, const struct terms *t)
{
	uint64_t len = 0;
	unsigned int bits = 0;

	while (t->largest >> (bits + 1))
		bits++;
	switch (rand_below(r, 8)) {
	case 0:
		return t->largest;
	case 1:
		len = t->mtu * rand_below(r, 5);
		break;
	default:
		len = rand_below(r, (UINT64_C(1) << rand_below(r, bits + 1)) + 1);
	}
	return len < t->largest ? (uint32_t)len : t->largest;
}

static void plan(struct conn *c, int side, uint32_t round)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_SEND,
		IBV_WR_SEND_WITH_IMM,
		IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_CMP_AND_SWP,
		IBV_WR_ATOMIC_FETCH_AND_ADD,
	};
	struct rand r;

	rand_init(&r, c->t.seed + 2 * (uint64_t)round + (uint64_t)side);
	for (struct op *o = c->op[side]; o < c->op[side] + SLOTS; o++) {
		*o = (struct op){ .opcode = opcodes[rand_below(&r, 7)],
				  .len = plan_len(&r, &c->t),
				  .here = (uint32_t)rand_below(&r, GUARD),
				  .there = (uint32_t)rand_below(&r, GUARD),
				  .imm = (uint32_t)rand_u64(&r),
				  .before = rand_u64(&r),
				  .operand = rand_u64(&r),
				  .key = rand_u64(&r),
				  .guard = rand_u64(&r) };
		o->compare = o->before + rand_below(&r, 2);
		if (!is_atomic(o))
			continue;
		o->len = 8;
		o->here &= ~7u;
		o->there &= ~7u;
	}
}

/* --- memory --- */

static uint8_t *slot(struct conn *c, bool own, unsigned int i)
{
	return c->arena + ((own ? 0 : SLOTS) + i) * c->room;
}

static void fill(uint8_t *p, uint32_t at, uint32_t len, const struct op *o, bool data)
{
	pattern_fill(p, at + len + GUARD, o->guard, 0);
	if (data)
		pattern_fill(p + at, len, o->key, 0);
}

static void put_u64(uint8_t *p, uint64_t v)
{
	memcpy(p, &v, sizeof(v));
}

static void prepare(struct conn *c)
{
	for (unsigned int i = 0; i < SLOTS; i++) {
		const struct op *own = &c->op[c->side][i], *other = &c->op[!c->side][i];
		bool reads = own->opcode == IBV_WR_RDMA_READ || is_atomic(own);

		fill(slot(c, true, i), own->here, own->len, own, !reads);
		fill(slot(c, false, i), other->there, other->len, other,
		     other->opcode == IBV_WR_RDMA_READ);
		if (is_atomic(other))
			put_u64(slot(c, false, i) + other->there, other->before);
	}
}

static uint64_t after(const struct op *o)
{
	if (o->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		return o->before + o->operand;
	return o->compare == o->before ? o->operand : o->before;
}

/* @len bytes at @p + @at are right, and those around them are as they were. */
static void check_slot(const uint8_t *p, uint32_t at, const struct op *o, uint64_t value)
{
	size_t good;

	if (pattern_check(p, at, o->guard, 0) != at ||
	    pattern_check(p + at + o->len, GUARD, o->guard, at + o->len) != GUARD)
		fail("opcode %d of %u B: bytes around it were written", o->opcode, o->len);
	if (is_atomic(o)) {
		if (memcmp(p + at, &value, sizeof(value)))
			fail("opcode %d: the wrong value", o->opcode);
		return;
	}
	good = pattern_check(p + at, o->len, o->key, 0);
	if (good != o->len)
		fail("opcode %d of %u B: byte %zu is wrong", o->opcode, o->len, good);
}

static void check(struct conn *c)
{
	for (unsigned int i = 0; i < SLOTS; i++) {
		const struct op *own = &c->op[c->side][i], *other = &c->op[!c->side][i];

		check_slot(slot(c, true, i), own->here, own, own->before);
		check_slot(slot(c, false, i), other->there, other, after(other));
	}
}

/* --- work --- */

static void post_recv(struct conn *c, unsigned int i)
{
	const struct op *o = &c->op[!c->side][i];
	struct ibv_sge sg = { (uintptr_t)slot(c, false, i) + o->there, o->len + GUARD,
			      c->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sg, .num_sge = is_send(o) }, *bad;

	c->recvs++;
	if (ibv_post_recv(c->qp, &wr, &bad))
		die("ibv_post_recv");
}

static void post_recvs(struct conn *c)
{
	c->recvs = c->next_recv = 0;
	for (unsigned int i = 0; i < SLOTS; i++)
		if (takes_recv(&c->op[!c->side][i]))
			post_recv(c, i);
}

static void post_send(struct conn *c, unsigned int i)
{
	const struct op *o = &c->op[c->side][i];
	struct ibv_sge sg = { (uintptr_t)slot(c, true, i) + o->here, o->len, c->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = i,
				  .sg_list = &sg,
				  .num_sge = o->len != 0,
				  .opcode = o->opcode,
				  .send_flags = IBV_SEND_SIGNALED,
				  .imm_data = o->imm },
			   *bad;
	uint64_t there = c->theirs.va + (SLOTS + i) * c->room + o->there;

	if (is_atomic(o)) {
		wr.wr.atomic.remote_addr = there;
		wr.wr.atomic.rkey = c->theirs.rkey;
		wr.wr.atomic.compare_add =
			o->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? o->operand : o->compare;
		wr.wr.atomic.swap = o->operand;
	} else {
		wr.wr.rdma.remote_addr = there;
		wr.wr.rdma.rkey = c->theirs.rkey;
	}
	c->sends++;
	if (ibv_post_send(c->qp, &wr, &bad))
		die("ibv_post_send");
}

static void check_recv(struct conn *c, const struct ibv_wc *wc)
{
	const struct op *o;

	while (!takes_recv(&c->op[!c->side][c->next_recv]))
		c->next_recv++;
	o = &c->op[!c->side][c->next_recv];
	if (wc->wr_id != c->next_recv++)
		fail("receive %u completes out of order", (unsigned int)wc->wr_id);
	if (wc->byte_len != o->len || (wc->opcode == IBV_WC_RECV) != is_send(o) ||
	    !(wc->wc_flags & IBV_WC_WITH_IMM) != !has_imm(o) ||
	    (has_imm(o) && wc->imm_data != o->imm))
		fail("receive %u: opcode %d, %u B, immediate 0x%x", (unsigned int)wc->wr_id,
		     wc->opcode, wc->byte_len, wc->imm_data);
	c->recvs--;
}

/* False: the peer has gone. */
static bool take(struct conn *c, const struct ibv_wc *wc)
{
	if (wc->status) {
		if (peer_gone(c, GONE_MS))
			return false;
		fail("QP 0x%x: %s, vendor_err 0x%x, but its peer is there", wc->qp_num,
		     ibv_wc_status_str(wc->status), wc->vendor_err);
	}
	if (wc->opcode & IBV_WC_RECV)
		check_recv(c, wc);
	else
		c->sends--;
	return true;
}

/* Until an event, or the peer's end. */
static bool sleep_on(struct conn *c)
{
	struct pollfd p[] = { { .fd = c->channel->fd, .events = POLLIN },
			      { .fd = c->fd, .events = POLLRDHUP } };
	struct ibv_cq *cq;
	void *context;

	if (poll(p, 2, -1) < 0 && errno != EINTR)
		die("poll");
	if (p[0].revents) {
		if (ibv_get_cq_event(c->channel, &cq, &context))
			die("ibv_get_cq_event");
		ibv_ack_cq_events(cq, 1);
		return true;
	}
	return !p[1].revents;
}

static bool complete(struct conn *c)
{
	unsigned int looks = 0;
	struct ibv_wc wc;

	while (c->sends || c->recvs) {
		int n = ibv_poll_cq(c->cq, 1, &wc);

		if (n < 0)
			fail("ibv_poll_cq: %d", n);
		if (n && !take(c, &wc))
			return false;
		looks = n ? 0 : looks + 1;
		if (looks == LOOKS && ibv_req_notify_cq(c->cq, 0))
			die("ibv_req_notify_cq");
		if (looks > LOOKS) {
			looks = 0;
			if (!sleep_on(c))
				return false;
		}
	}
	return true;
}

static bool one_round(struct conn *c, uint32_t round, char word, char *theirs)
{
	plan(c, 0, round);
	plan(c, 1, round);
	prepare(c);
	post_recvs(c);
	if (!meet(c, word, theirs))
		return false;
	for (unsigned int i = 0; i < SLOTS; i++)
		post_send(c, i);
	if (!complete(c) || !meet(c, word, theirs))
		return false;
	check(c);
	return true;
}

static void count(const struct conn *c, struct counts *sum)
{
	uint64_t bytes = 0;

	for (unsigned int i = 0; i < 2 * SLOTS; i++)
		bytes += c->op[i / SLOTS][i % SLOTS].len;
	fetch_add_relaxed(&sum->rounds, 1);
	fetch_add_relaxed(&sum->operations, 2 * SLOTS);
	fetch_add_relaxed(&sum->bytes, bytes);
}

/* For a script that waits for it. */
static void say_begun(void)
{
	puts("begun");
	fflush(stdout);
}

bool conn_run(struct conn *c, const bool *stop, struct counts *sum)
{
	char word = 'r', theirs = 'r';

	for (uint32_t round = 0; round < c->t.rounds && word == 'r' && theirs == 'r'; round++) {
		word = load_relaxed(stop) ? 'q' : 'r';
		if (!one_round(c, round, word, &theirs)) {
			fetch_add_relaxed(&sum->gone, 1);
			return false;
		}
		count(c, sum);
		if (!round)
			say_begun();
	}
	return true;
}

/* --- making one --- */

static enum ibv_mtu mtu_code(uint32_t bytes)
{
	enum ibv_mtu code = IBV_MTU_256;

	while (code < IBV_MTU_4096 && (128u << code) < bytes)
		code++;
	return code;
}

static void to_rts(struct conn *c, int gid_index)
{
	int access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT,
				 .port_num = 1,
				 .qp_access_flags = (unsigned int)access,
				 .path_mtu = mtu_code(c->t.mtu),
				 .dest_qp_num = c->theirs.qpn,
				 .rq_psn = c->theirs.psn,
				 .max_dest_rd_atomic = RD_ATOMIC,
				 .min_rnr_timer = 12,
				 .ah_attr = { .is_global = 1, .port_num = 1 },
				 .sq_psn = c->mine.psn,
				 .timeout = (uint8_t)c->t.timeout,
				 .retry_cnt = 7,
				 .rnr_retry = 7,
				 .max_rd_atomic = RD_ATOMIC };

	a.ah_attr.grh.dgid = c->theirs.gid;
	a.ah_attr.grh.sgid_index = (uint8_t)gid_index;
	a.ah_attr.grh.hop_limit = 64;
	if (ibv_modify_qp(c->qp, &a,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		die("ibv_modify_qp to INIT");
	a.qp_state = IBV_QPS_RTR;
	if (ibv_modify_qp(c->qp, &a,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		die("ibv_modify_qp to RTR");
	a.qp_state = IBV_QPS_RTS;
	if (ibv_modify_qp(c->qp, &a,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		die("ibv_modify_qp to RTS");
}

static void make_qp(struct conn *c)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = SLOTS,
						  .max_recv_wr = SLOTS,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 } };

	c->channel = ibv_create_comp_channel(c->pd->context);
	if (!c->channel)
		die("ibv_create_comp_channel");
	c->cq = ibv_create_cq(c->pd->context, 4 * SLOTS, NULL, c->channel, 0);
	if (!c->cq)
		die("ibv_create_cq");
	init.send_cq = init.recv_cq = c->cq;
	c->qp = ibv_create_qp(c->pd, &init);
	if (!c->qp)
		die("ibv_create_qp");
}

static void make_memory(struct conn *c)
{
	c->room = (c->t.largest + 2 * GUARD + 4095) & ~(size_t)4095;
	c->bytes = 2 * SLOTS * c->room;
	c->arena = peer_memory(c->bytes, false);
	c->mr = ibv_reg_mr(c->pd, c->arena, c->bytes,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	if (!c->mr)
		die("ibv_reg_mr");
}

struct conn *conn_make(struct ibv_pd *pd, int fd, int side, const struct terms *t, int gid_index)
{
	struct conn *c = calloc(1, sizeof(*c));
	char theirs;

	if (!c)
		die("calloc");
	c->pd = pd;
	c->fd = fd;
	c->side = side;
	c->t = *t;
	make_memory(c);
	make_qp(c);
	c->mine = (struct peer_addr){ .qpn = c->qp->qp_num,
				      .psn = (uint32_t)t->seed * 2654435761u >> 8,
				      .va = (uintptr_t)c->arena,
				      .rkey = c->mr->rkey };
	if (ibv_query_gid(pd->context, 1, gid_index, &c->mine.gid))
		die("ibv_query_gid");
	if (!tcp_put(fd, &c->mine, sizeof(c->mine)) ||
	    !tcp_get(fd, &c->theirs, sizeof(c->theirs))) {
		conn_free(c);
		return NULL;
	}
	to_rts(c, gid_index);
	if (meet(c, 'c', &theirs))
		return c;
	conn_free(c);
	return NULL;
}

void conn_free(struct conn *c)
{
	if (ibv_destroy_qp(c->qp) || ibv_destroy_cq(c->cq) ||
	    ibv_destroy_comp_channel(c->channel) || ibv_dereg_mr(c->mr))
		die("the end of a connection");
	munmap(c->arena, c->bytes);
	close(c->fd);
	free(c);
}
