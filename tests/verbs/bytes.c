// SPDX-License-Identifier: MIT
/* Every byte: seeded patterns through every opcode, 0 B to 64 MiB, odd offsets, 1 to the maximum
 * of SGEs on each side, inline, immediate, SRQ, several QPs, over a link between two processes or
 * inside one; both buffers are compared, and so is all the memory around them.
 *
 * usage: bytes [process|mapped|thread] [rounds] [seed] [rc]; rc: only the service that survives
 * loss; mapped: memory that both processes can map.
 * Both sides run the same seeded plan, turn about as initiator and target, and meet on a socket
 * before and after each transfer. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include "verbs/peer.h"

enum {
	ARENA = 80 << 20,
	MESSAGE_MAX = 64 << 20,
	GUARD = 4096,
	SGES = 30,
	QPS = 3, /* of each kind */
	GRH = 40,
	INLINE = 220,
};

enum kind { RC, RC_SRQ, UC, UD, UD_SRQ, KINDS };

static const enum ibv_qp_type type_of[KINDS] = { IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD,
						 IBV_QPT_UD };

static unsigned int kinds = KINDS; /* RC and RC_SRQ are the first two */

struct side {
	int fd, number; /* 0 or 1: who begins */
	unsigned int rounds;
	bool mapped; /* its memory is a file that the peer can map */
	uint64_t seed;
	struct peer_dev dev;
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	uint8_t *arena;
	struct peer_addr theirs; /* their arena */
	struct peer_ep ep[KINDS][QPS];
	struct ibv_ah *ah;
};

/* The pieces of the arena that a message's bytes come from or go to, in order. */
struct layout {
	int n;
	size_t start, end; /* with gaps; guards lie outside */
	size_t at[SGES], len[SGES];
};

struct plan {
	enum kind kind;
	int qp;
	enum ibv_wr_opcode op;
	size_t len;
	bool inl, imm, solicited;
	struct layout mine, theirs; /* the initiator's, the target's */
	uint64_t add, compare, original;
};

/* --- the plan: the same on both sides --- */

static uint64_t next(uint64_t *s)
{
	uint64_t z = (*s += 0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

static size_t below(uint64_t *s, size_t n)
{
	return n ? next(s) % n : 0;
}

static size_t pick_length(uint64_t *s, size_t max)
{
	unsigned int bits = below(s, 65);

	if (bits < 4)
		return 0;
	if (bits > 60) /* around what links treat differently */
		return below(s, 2) ? max - below(s, max > 100 ? 100 : max)
				   : (8192 - 4 + below(s, 9)) % (max + 1);
	bits = bits * 27 / 65;
	return ((1UL << bits) | below(s, 1UL << bits)) % (max + 1);
}

static void lay_out(uint64_t *s, int most, size_t len, struct layout *l)
{
	size_t at = GUARD + below(s, 4096), left = len;

	*l = (struct layout){ .n = 1 + (below(s, 3) ? below(s, 4) : below(s, most)), .start = at };
	if (len > 1 << 20 && l->n > 6)
		l->n = 6;
	for (int i = 0; i < l->n; i++) {
		size_t n = i == l->n - 1 ? left : below(s, 8) ? below(s, left + 1) : 0;

		l->at[i] = at;
		l->len[i] = n;
		left -= n;
		at += n + below(s, 200);
	}
	l->end = at;
}

static enum ibv_wr_opcode pick_op(uint64_t *s, enum ibv_qp_type t)
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_SEND,
		IBV_WR_SEND_WITH_IMM,
		IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_READ,
		IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_ATOMIC_CMP_AND_SWP,
		IBV_WR_ATOMIC_FETCH_AND_ADD,
	};
	static const enum ibv_wr_opcode uc[] = { IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
						 IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM };

	if (t == IBV_QPT_RC)
		return ops[below(s, sizeof(ops) / sizeof(ops[0]))];
	return uc[below(s, t == IBV_QPT_UC ? 4 : 2)];
}

static bool atomic(const struct plan *p)
{
	return p->op == IBV_WR_ATOMIC_CMP_AND_SWP || p->op == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* A WRITE on UC tells nobody that it arrived: an empty SEND follows it. */
static bool marked(const struct plan *p)
{
	return p->kind == UC && p->op == IBV_WR_RDMA_WRITE;
}

static bool receives(const struct plan *p)
{
	return marked(p) || p->op == IBV_WR_SEND || p->op == IBV_WR_SEND_WITH_IMM ||
	       p->op == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool scatters(const struct plan *p)
{
	return p->op == IBV_WR_SEND || p->op == IBV_WR_SEND_WITH_IMM;
}

static struct plan make_plan(uint64_t seed)
{
	uint64_t s = seed;
	struct plan p = { .kind = below(&s, kinds), .qp = below(&s, QPS) };
	size_t max = MESSAGE_MAX;

	if (type_of[p.kind] == IBV_QPT_UD)
		max = 4096;
	else if (below(&s, 64))
		max = 1 << (10 + below(&s, 12));
	p.op = pick_op(&s, type_of[p.kind]);
	p.imm = p.op == IBV_WR_SEND_WITH_IMM || p.op == IBV_WR_RDMA_WRITE_WITH_IMM;
	p.len = atomic(&p) ? 8 : pick_length(&s, max);
	p.inl = p.op != IBV_WR_RDMA_READ && !atomic(&p) && p.len <= INLINE && below(&s, 2);
	p.solicited = below(&s, 2);
	lay_out(&s, SGES, p.len, &p.mine);
	/* on UD one receive SGE is the GRH's */
	lay_out(&s, type_of[p.kind] == IBV_QPT_UD ? SGES - 1 : SGES, p.len, &p.theirs);
	p.original = next(&s);
	p.add = next(&s);
	p.compare = below(&s, 2) ? p.original : next(&s);
	if (!scatters(&p)) { /* one contiguous target */
		size_t at = p.theirs.start;

		if (atomic(&p))
			at = (at + 7) & ~(size_t)7;
		p.theirs = (struct layout){ 1, at, at + p.len, { at }, { p.len } };
	}
	return p;
}

/* --- memory --- */

static void background(struct side *s, const struct layout *l, uint64_t seed)
{
	pattern_fill(s->arena + l->start - GUARD, l->end - l->start + 2 * GUARD, ~seed,
		     l->start - GUARD);
}

static void put_message(struct side *s, const struct layout *l, uint64_t seed)
{
	size_t off = 0;

	for (int i = 0; i < l->n; i++) {
		pattern_fill(s->arena + l->at[i], l->len[i], seed, off);
		off += l->len[i];
	}
}

static void same(struct side *s, size_t at, size_t len, uint64_t seed, uint64_t off,
		 const char *what)
{
	size_t bad = pattern_check(s->arena + at, len, seed, off);

	if (bad != len)
		fail("side %d: %s: byte %zu of %zu at arena offset %zu is wrong", s->number, what,
		     bad, len, at + bad);
}

/* The pieces hold the message (or, @touched false, the background), all around them the
 * background. */
static void check_memory(struct side *s, const struct layout *l, uint64_t seed, bool touched)
{
	size_t at = l->start - GUARD, off = 0;

	for (int i = 0; i < l->n; i++) {
		same(s, at, l->at[i] - at, ~seed, at, "memory before a piece");
		if (touched)
			same(s, l->at[i], l->len[i], seed, off, "a piece of the message");
		else
			same(s, l->at[i], l->len[i], ~seed, l->at[i], "memory nobody may write");
		off += l->len[i];
		at = l->at[i] + l->len[i];
	}
	same(s, at, l->end + GUARD - at, ~seed, at, "memory behind the message");
}

static int sges(struct side *s, const struct layout *l, struct ibv_sge *sg)
{
	for (int i = 0; i < l->n; i++)
		sg[i] = (struct ibv_sge){ (uintptr_t)s->arena + l->at[i], l->len[i], s->mr->lkey };
	return l->n;
}

/* --- one transfer --- */

static void post_receive(struct side *s, const struct plan *p, uint64_t id)
{
	struct peer_ep *ep = &s->ep[p->kind][p->qp];
	bool ud = type_of[p->kind] == IBV_QPT_UD;
	struct ibv_sge sg[SGES + 1];
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = sg }, *bad;
	int n = 0, err;

	if (ud) /* the GRH goes to the arena's end */
		sg[n++] = (struct ibv_sge){ (uintptr_t)s->arena + ARENA - GRH, GRH, s->mr->lkey };
	if (scatters(p))
		n += sges(s, &p->theirs, sg + n);
	wr.num_sge = n;
	err = p->kind == RC_SRQ || p->kind == UD_SRQ ? ibv_post_srq_recv(s->srq, &wr, &bad)
						     : ibv_post_recv(ep->qp, &wr, &bad);
	if (err)
		fail("posting a receive: %s", strerror(err));
}

static void post(struct side *s, const struct plan *p, uint64_t id)
{
	struct peer_ep *ep = &s->ep[p->kind][p->qp];
	struct ibv_sge sg[SGES];
	struct ibv_send_wr wr = { .wr_id = id, .opcode = p->op, .sg_list = sg }, *bad;
	struct ibv_send_wr marker = { .wr_id = id,
				      .opcode = IBV_WR_SEND,
				      .send_flags = IBV_SEND_SIGNALED };
	int err;

	wr.num_sge = sges(s, &p->mine, sg);
	wr.send_flags = IBV_SEND_SIGNALED | (p->inl ? IBV_SEND_INLINE : 0) |
			(p->solicited ? IBV_SEND_SOLICITED : 0);
	wr.imm_data = id;
	if (type_of[p->kind] == IBV_QPT_UD) {
		wr.wr.ud.ah = s->ah;
		wr.wr.ud.remote_qpn = ep->theirs.qpn;
		wr.wr.ud.remote_qkey = 0x11111111;
	} else if (atomic(p)) {
		wr.wr.atomic.remote_addr = s->theirs.va + p->theirs.start;
		wr.wr.atomic.rkey = s->theirs.rkey;
		wr.wr.atomic.compare_add = p->op == IBV_WR_ATOMIC_CMP_AND_SWP ? p->compare : p->add;
		wr.wr.atomic.swap = p->add;
	} else {
		wr.wr.rdma.remote_addr = s->theirs.va + p->theirs.start;
		wr.wr.rdma.rkey = s->theirs.rkey;
	}
	if (marked(p)) {
		wr.send_flags &= ~IBV_SEND_SIGNALED;
		wr.next = &marker;
	}
	err = ibv_post_send(ep->qp, &wr, &bad);
	if (err)
		fail("ibv_post_send: %s", strerror(err));
}

static void check_receive(struct side *s, const struct plan *p, uint64_t id)
{
	struct peer_ep *ep = &s->ep[p->kind][p->qp];
	bool ud = type_of[p->kind] == IBV_QPT_UD;
	struct ibv_wc wc;

	peer_poll_ok(ep->rcq, &wc);
	if (wc.wr_id != id || wc.qp_num != ep->qp->qp_num)
		fail("receive: wr_id %llu on QP 0x%x", (unsigned long long)wc.wr_id, wc.qp_num);
	if (wc.byte_len != (marked(p) ? 0 : p->len + (ud ? GRH : 0)))
		fail("receive: byte_len %u, sent %zu", wc.byte_len, p->len);
	if (p->imm != !!(wc.wc_flags & IBV_WC_WITH_IMM) || (p->imm && wc.imm_data != (uint32_t)id))
		fail("receive: immediate lost or made up");
	if (wc.opcode != (scatters(p) || marked(p) ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM))
		fail("receive: opcode %d", wc.opcode);
	if (ud && (!(wc.wc_flags & IBV_WC_GRH) || wc.src_qp != ep->theirs.qpn))
		fail("receive: GRH flag or source QP");
}

static void check_atomic_target(struct side *s, const struct plan *p)
{
	uint64_t now, want = p->original + p->add;

	if (p->op == IBV_WR_ATOMIC_CMP_AND_SWP)
		want = p->compare == p->original ? p->add : p->original;
	memcpy(&now, s->arena + p->theirs.start, 8);
	if (now != want)
		fail("atomic: the word is %llx, not %llx", (unsigned long long)now,
		     (unsigned long long)want);
}

static void check_atomic_result(struct side *s, const struct plan *p)
{
	uint8_t got[8];
	size_t off = 0;

	for (int i = 0; i < p->mine.n; i++) {
		memcpy(got + off, s->arena + p->mine.at[i], p->mine.len[i]);
		off += p->mine.len[i];
	}
	if (memcmp(got, &p->original, 8))
		fail("atomic: the original value came back wrong");
}

static void initiator(struct side *s, const struct plan *p, uint64_t id)
{
	bool result = p->op == IBV_WR_RDMA_READ || atomic(p);
	struct ibv_wc wc;

	background(s, &p->mine, id);
	if (!result)
		put_message(s, &p->mine, id);
	peer_sync(s->fd);
	post(s, p, id);
	peer_poll_ok(s->ep[p->kind][p->qp].scq, &wc);
	if (wc.wr_id != id)
		fail("send: wr_id %llu", (unsigned long long)wc.wr_id);
	if (atomic(p))
		check_atomic_result(s, p);
	else
		check_memory(s, &p->mine, id, true);
	peer_sync(s->fd);
}

static void target(struct side *s, const struct plan *p, uint64_t id)
{
	background(s, &p->theirs, id);
	if (p->op == IBV_WR_RDMA_READ)
		put_message(s, &p->theirs, id);
	if (atomic(p))
		memcpy(s->arena + p->theirs.start, &p->original, 8);
	if (receives(p))
		post_receive(s, p, id);
	peer_sync(s->fd);
	if (receives(p))
		check_receive(s, p, id);
	peer_sync(s->fd);
	if (atomic(p))
		check_atomic_target(s, p);
	else if (type_of[p->kind] == IBV_QPT_RC ||
		 receives(p)) /* UC WRITE: no word of its arrival */
		check_memory(s, &p->theirs, id, true);
}

/* --- the sides --- */

static void set_up(struct side *s)
{
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 16, .max_sge = SGES } };

	peer_open(&s->dev);
	s->srq = ibv_create_srq(s->dev.pd, &sa);
	if (!s->srq)
		die("ibv_create_srq");
	s->mr = ibv_reg_mr(s->dev.pd, s->arena, ARENA,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	if (!s->mr)
		die("ibv_reg_mr");
	for (int k = 0; k < KINDS; k++)
		for (int q = 0; q < QPS; q++) {
			struct peer_opts o = { .type = type_of[k],
					       .cap = { 4, 4, SGES, SGES, INLINE },
					       .srq = k == RC_SRQ || k == UD_SRQ ? s->srq : NULL,
					       .mtu = k == UC ? IBV_MTU_1024 : IBV_MTU_4096 };
			struct peer_ep *ep = &s->ep[k][q];

			peer_ep_create(&s->dev, &o, ep);
			ep->mine.va = (uintptr_t)s->arena;
			ep->mine.rkey = s->mr->rkey;
			peer_ep_swap(s->fd, ep);
			peer_connect(ep, &o);
			s->theirs = ep->theirs;
		}
	s->ah = peer_ah(&s->dev, &s->theirs);
}

static void tear_down(struct side *s)
{
	for (int k = 0; k < KINDS; k++)
		for (int q = 0; q < QPS; q++)
			peer_ep_destroy(&s->ep[k][q]);
	if (ibv_destroy_ah(s->ah) || ibv_dereg_mr(s->mr) || ibv_destroy_srq(s->srq))
		fail("tear down");
	peer_close(&s->dev);
}

static int run_side(int fd, void *arg)
{
	struct side *s = arg;

	s->fd = fd;
	s->arena = peer_memory(ARENA, s->mapped);
	set_up(s);
	for (unsigned int r = 0; r < s->rounds; r++) {
		uint64_t id = s->seed * 1000003 + r;
		struct plan p = make_plan(id);

		peer_note(
			"transfer %u, side %d, kind %d, QP %d, opcode %d, %zu B, %d and %d SGEs%s",
			r, s->number, p.kind, p.qp, p.op, p.len, p.mine.n, p.theirs.n,
			p.inl ? ", inline" : "");
		if ((r & 1) == (unsigned int)s->number)
			initiator(s, &p, id);
		else
			target(s, &p, id);
	}
	peer_sync(s->fd);
	tear_down(s);
	munmap(s->arena, ARENA);
	return 0;
}

static void *thread_main(void *arg)
{
	struct side *s = arg;

	run_side(s->fd, s);
	return NULL;
}

static int run_threads(struct side *a, struct side *b)
{
	pthread_t t;
	int sv[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sv))
		die("socketpair");
	b->fd = sv[1];
	if (pthread_create(&t, NULL, thread_main, b))
		die("pthread_create");
	run_side(sv[0], a);
	pthread_join(t, NULL);
	return 0;
}

int main(int argc, char **argv)
{
	bool threads = argc > 1 && !strcmp(argv[1], "thread");
	bool mapped = argc > 1 && !strcmp(argv[1], "mapped");
	unsigned int rounds = argc > 2 ? atoi(argv[2]) : 1500;
	uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 0) : 1;
	static struct side a, b;
	pid_t pid;
	int fd;

	if (argc > 4 && !strcmp(argv[4], "rc"))
		kinds = RC_SRQ + 1;
	a.rounds = b.rounds = rounds;
	a.seed = b.seed = seed;
	a.mapped = b.mapped = mapped;
	b.number = 1;
	printf("bytes: %s, %u transfers, seed %llu\n", threads ? "one process" : "two processes",
	       rounds, (unsigned long long)seed);
	if (threads)
		return run_threads(&a, &b);
	pid = peer_fork(run_side, &b, &fd);
	run_side(fd, &a);
	return peer_wait(pid);
}
