// SPDX-License-Identifier: MIT
/* Does the protocol converge under any loss and interleaving? Each seed makes a script of posts,
 * receives and state moves for two QPs, and a network. The script runs on that network and on a
 * perfect one: memory and completions must be the same. Where losses may show (UC, UD, a QP
 * moved to ERR, a peer that counts otherwise, falls silent or comes late) the properties that
 * remain are checked instead: no work request of RC stays without a completion.
 *
 *	sim [RUNS [FIRST-SEED]]
 *
 * 2000 from 1; with SOFTHCA_LENGTH=full 40000, in parts. Prints the hash of all that was sent: the
 * same seeds give it again. */
#include <stdio.h>
#include "length.h"
#include "sim/rig.h"
#include "transport/predicted/kept_path.h"

enum {
	FULL = 40000, /* seeds */
	OPS = 24, /* work requests of a side */
	SLOT = 2048,
	RECEIVES = 64 << 10, /* offsets in a side's memory: below it the source pattern */
	RESULTS = 128 << 10,
	TARGETS = 192 << 10,
	QKEY = 0x11111111, /* datagrams */
	WORD = RIG_MEM - 64, /* atomics */
	CQES = 2 * RIG_CQ,
};
#define SPAN	 3000000UL /* ns in which the script's actions lie */
#define PATIENCE 60000000000UL /* ns after them; what has not ended by then never does */

enum kind { POST, RECEIVE, TO_SQD, TO_RTS, TO_ERR, COME, FALL_SILENT };

struct action {
	uint64_t at;
	uint8_t side;
	enum kind kind;
	struct rig_wr wr;
	unsigned int index;
};

struct script {
	struct rig_attr attr[2];
	struct action action[4 * OPS + 16];
	unsigned int n;
	bool moves_to_err;
	bool datagrams;
	bool comes_late; /* the second side is in RESET until its COME */
};

struct record { /* what a run left behind */
	uint8_t *mem[2];
	struct cqe cqe[2][2][CQES];
	unsigned int ncqe[2][2];
	uint16_t newest[2]; /* the last WQE of each side; it is signalled */
	enum ibv_qp_state state[2];
	uint64_t hash;
};

static uint64_t current_seed;
/* In all runs: segments that went the shorter way; predicted WRITEs and READs by direct access. */
static uint64_t plain, direct;

static void complain(const char *what, uint64_t a, uint64_t b)
{
	fprintf(stderr, "sim: seed %lu: %s (%lu, %lu)\n", (unsigned long)current_seed, what,
		(unsigned long)a, (unsigned long)b);
	exit(1);
}

static void expect(bool ok, const char *what, uint64_t a, uint64_t b)
{
	if (!ok)
		complain(what, a, b);
}

static uint32_t size(struct rand *r)
{
	return rand_chance(r, 0.1) ? 0 : 1 + rand_below(r, rand_chance(r, 0.5) ? 256 : SLOT);
}

/* Splits [off, off + len) of a side's memory into up to four SGEs. */
static void split(struct rand *r, struct rig_wr *w, uint32_t off, uint32_t len)
{
	unsigned int max = 1 + rand_below(r, 4);

	w->nsge = 0;
	while (len) {
		uint32_t n = w->nsge + 1 == max ? len : 1 + rand_below(r, len);

		w->sge[w->nsge++] = (struct sge){ RIG_IOVA + off, n, 0 };
		off += n;
		len -= n;
	}
}

static const uint8_t rc_ops[] = { MLX5_OPCODE_SEND,	  MLX5_OPCODE_SEND_IMM,
				  MLX5_OPCODE_RDMA_WRITE, MLX5_OPCODE_RDMA_WRITE_IMM,
				  MLX5_OPCODE_RDMA_READ,  MLX5_OPCODE_ATOMIC_CS,
				  MLX5_OPCODE_ATOMIC_FA,  WQE_OPCODE_ATOMIC_WRITE,
				  MLX5_OPCODE_NOP };

static bool takes_receive(uint8_t op)
{
	return op == MLX5_OPCODE_SEND || op == MLX5_OPCODE_SEND_IMM ||
	       op == MLX5_OPCODE_RDMA_WRITE_IMM;
}

static bool is_atomic(uint8_t op)
{
	return op == MLX5_OPCODE_ATOMIC_CS || op == MLX5_OPCODE_ATOMIC_FA;
}

/* A SEND as header prediction knows it. */
static void make_usual(struct rand *r, struct rig_wr *w)
{
	*w = (struct rig_wr){ .op = MLX5_OPCODE_SEND,
			      .signaled = rand_chance(r, 0.7),
			      .solicited = rand_chance(r, 0.2),
			      .inl = rand_chance(r, 0.4),
			      .nsge = 1 };
	w->sge[0] = (struct sge){ RIG_IOVA + rand_below(r, RECEIVES - SLOT),
				  1 + rand_below(r, w->inl ? 49 : 80), 0 };
}

/* A WRITE or READ as header prediction knows it, where there is direct access. */
static void make_usual_one_sided(struct rand *r, struct rig_wr *w, unsigned int i)
{
	uint32_t source = RIG_IOVA + rand_below(r, RECEIVES - SLOT);

	*w = (struct rig_wr){ .op = MLX5_OPCODE_RDMA_WRITE,
			      .signaled = rand_chance(r, 0.7),
			      .inl = rand_chance(r, 0.3),
			      .nsge = 1,
			      .raddr = RIG_IOVA + TARGETS + i * SLOT };
	w->sge[0] = (struct sge){ source, 1 + rand_below(r, w->inl ? 33 : SLOT), 0 };
	if (w->inl || rand_chance(r, 0.5))
		return;
	w->op = MLX5_OPCODE_RDMA_READ;
	w->raddr = source;
	w->sge[0].addr = RIG_IOVA + RESULTS + i * SLOT;
}

static void make_wr(struct rand *r, struct rig_wr *w, unsigned int i)
{
	uint32_t len = size(r);

	*w = (struct rig_wr){ .op = rc_ops[rand_below(r, sizeof(rc_ops))],
			      .signaled = rand_chance(r, 0.7),
			      .fence = rand_chance(r, 0.2),
			      .solicited = rand_chance(r, 0.2),
			      .imm = rand_u64(r),
			      .raddr = RIG_IOVA + TARGETS + i * SLOT,
			      .swap_add = rand_below(r, 3),
			      .compare = rand_below(r, 3) };
	if (w->op == MLX5_OPCODE_NOP)
		return;
	if (is_atomic(w->op)) {
		w->raddr = RIG_IOVA + WORD;
		split(r, w, RESULTS + i * SLOT, 8);
		return;
	}
	if (w->op == MLX5_OPCODE_RDMA_READ) {
		w->raddr = RIG_IOVA + rand_below(r, RECEIVES - SLOT);
		split(r, w, RESULTS + i * SLOT, len);
		return;
	}
	w->inl = rand_chance(r, 0.2);
	if (w->op == WQE_OPCODE_ATOMIC_WRITE) {
		split(r, w, rand_below(r, RECEIVES - SLOT), 8);
		return;
	}
	split(r, w, rand_below(r, RECEIVES - SLOT), w->inl ? len % 50 : len);
}

static void make_usual_rc(struct rand *r, struct rig_wr *w, unsigned int i)
{
	if (rand_chance(r, 0.4))
		make_usual_one_sided(r, w, i);
	else
		make_usual(r, w);
}

static void add(struct script *s, struct action a)
{
	unsigned int i = s->n++;

	for (; i && s->action[i - 1].at > a.at; i--)
		s->action[i] = s->action[i - 1];
	s->action[i] = a;
}

/* Some are too long for a packet, some have a key that their receiver does not know. */
static void make_datagram(struct rand *r, struct rig_wr *w, double usual)
{
	uint32_t len = 1 + rand_below(r, 1000);

	if (rand_chance(r, usual)) {
		make_usual(r, w);
	} else {
		*w = (struct rig_wr){ .op = rand_chance(r, 0.5) ? MLX5_OPCODE_SEND
								: MLX5_OPCODE_SEND_IMM,
				      .signaled = rand_chance(r, 0.7),
				      .inl = rand_chance(r, 0.2),
				      .imm = rand_u64(r) };
		split(r, w, rand_below(r, RECEIVES - SLOT), w->inl ? len % 50 : len);
	}
	w->qkey = rand_chance(r, 0.9) ? QKEY : rand_chance(r, 0.5) ? 1U << 31 : 7;
}

/* Posts in the order of their indices: the times are sorted by drawing them increasing. */
static void make_side(struct rand *r, struct script *s, uint8_t side, double usual)
{
	uint64_t at = 0, late = rand_chance(r, 0.3) ? 2 * SPAN : 0, receive_at = 0;

	for (unsigned int i = 0; i < OPS; i++) {
		struct action a = { .side = side, .kind = POST, .index = i };

		at += rand_chance(r, 0.6) ? 0 : rand_below(r, SPAN / OPS);
		a.at = at;
		if (s->datagrams)
			make_datagram(r, &a.wr, usual);
		else if (rand_chance(r, usual))
			make_usual_rc(r, &a.wr, i);
		else
			make_wr(r, &a.wr, i);
		a.wr.signaled |= i == OPS - 1;
		add(s, a);
		if (takes_receive(a.wr.op)) {
			receive_at += late ? rand_below(r, late / OPS) : 0;
			add(s,
			    (struct action){
				    .at = receive_at, .side = !side, .kind = RECEIVE, .index = i });
		}
	}
	if (rand_chance(r, 0.2)) {
		uint64_t t = rand_below(r, SPAN);

		add(s, (struct action){ .at = t, .side = side, .kind = TO_SQD });
		add(s,
		    (struct action){ .at = t + rand_below(r, SPAN), .side = side, .kind = TO_RTS });
	}
}

/* @usual: probability of a work request as header prediction knows it. */
static void make_script(struct rand *r, struct script *s, bool to_err, double usual)
{
	uint32_t psn[2] = { rand_chance(r, 0.5) ? 0xffffffU - rand_below(r, 100)
						: rand_u64(r) & 0xffffff,
			    rand_u64(r) & 0xffffff };

	*s = (struct script){ .moves_to_err = to_err, .datagrams = s->datagrams };
	for (int i = 0; i < 2; i++) {
		s->attr[i] = rig_rc;
		s->attr[i].sig_all = false;
		s->attr[i].sq_psn = psn[i];
		s->attr[i].rq_psn = psn[!i];
		s->attr[i].rd_atomic = s->attr[!i].dest_rd_atomic = 1 + rand_below(r, 16);
		s->attr[i].timeout = 7;
	}
	s->attr[1].dest_rd_atomic = s->attr[0].rd_atomic;
	s->attr[0].dest_rd_atomic = s->attr[1].rd_atomic;
	make_side(r, s, 0, usual);
	make_side(r, s, 1, usual);
	if (to_err)
		add(s, (struct action){ .at = rand_below(r, SPAN), .side = 0, .kind = TO_ERR });
}

static void with_keys(struct rig_wr *w, struct rig_qp *self, struct rig_qp *peer)
{
	for (unsigned int i = 0; i < w->nsge; i++)
		w->sge[i].key = self->mr->ib.lkey;
	w->rkey = peer->mr->ib.rkey;
	w->dqpn = peer->q.qp.qpn;
}

static void act(struct rig *r, const struct script *script, const struct action *a,
		struct record *out)
{
	struct rig_qp *p = r->qp[a->side];
	struct rig_wr w = a->wr;
	struct sge s[2];

	switch (a->kind) {
	case POST:
		with_keys(&w, p, r->qp[!a->side]);
		out->newest[a->side] = rig_post(p, &w);
		break;
	case RECEIVE:
		s[0] = rig_sge(p, RECEIVES + a->index * SLOT, a->index % 2 ? 100 : SLOT);
		s[1] = rig_sge(p, RECEIVES + a->index * SLOT + 100, SLOT - 100);
		rig_receive(p, s, 1 + a->index % 2);
		break;
	case TO_SQD:
		if (p->q.qp.state == IBV_QPS_RTS)
			rig_move(p, IBV_QPS_SQD);
		break;
	case TO_RTS:
		if (p->q.qp.state == IBV_QPS_SQD)
			rig_move(p, IBV_QPS_RTS);
		break;
	case TO_ERR:
		rig_move(p, IBV_QPS_ERR);
		break;
	case COME:
		rig_connect(p, &script->attr[a->side], r->qp[!a->side]->q.qp.qpn);
		break;
	case FALL_SILENT:
		p->end.mute = true;
		break;
	}
}

static void collect(struct rig *r, struct record *out)
{
	for (int side = 0; side < 2; side++)
		for (int q = 0; q < 2; q++) {
			unsigned int *n = &out->ncqe[side][q];

			while (rig_poll(r->qp[side], q, &out->cqe[side][q][*n]))
				expect(++*n < CQES, "too many completions", side, q);
		}
}

/* What the engine keeps of the path from one side to the other. */
static void keep_path(struct rig_qp *from, uint32_t dqpn, struct kept_path *k)
{
	const struct grh g = { .sgid = { 0xfe, 0x80 }, .dgid = { 0xfe, 0x80 } };

	*k = (struct kept_path){
		.dqpn = dqpn, .dest = &from->end.d, .until = UINT64_MAX, .has_grh = true
	};
	grh_build(&g, k->grh);
	from->q.req.ud.kept = k;
}

/* A predicted datagram brings the header that its sender has built, others none here. */
static void forget_headers(uint8_t *mem)
{
	for (unsigned int i = 0; i < OPS; i++)
		memset(mem + RECEIVES + i * SLOT, 0, GRH_LEN);
}

/* Runs @s on a network of @cfg. */
static void play(const struct script *s, const struct net_config *cfg, struct record *out)
{
	static struct kept_path path[2];
	struct rig r;

	rig_open(&r, cfg, current_seed);
	for (int i = 0; i < 2; i++)
		rig_qp_open(&r, &s->attr[i], i ? 0x55 : 0x11);
	for (int i = 0; i < 2 - s->comes_late; i++)
		rig_connect(r.qp[i], &s->attr[i], r.qp[!i]->q.qp.qpn);
	for (int i = 0; i < 2; i++) /* the direct access of such a ring is not predicted */
		r.qp[i]->q.qp.laid_open = cfg->prediction == NET_ORDINARY;
	for (int i = 0; i < 2 && s->datagrams; i++)
		keep_path(r.qp[i], r.qp[!i]->q.qp.qpn, &path[i]);
	for (unsigned int i = 0; i < s->n; i++) {
		rig_run_until(&r, s->action[i].at);
		act(&r, s, &s->action[i], out);
	}
	rig_run_until(&r, r.net.now + PATIENCE);
	memset(out->ncqe, 0, sizeof(out->ncqe));
	collect(&r, out);
	out->hash = r.net.hash;
	plain += r.net.plain;
	direct += r.direct_predicted;
	for (int i = 0; i < 2; i++) {
		memcpy(out->mem[i], r.qp[i]->mem, RIG_MEM);
		out->state[i] = r.qp[i]->q.qp.state;
		if (s->datagrams)
			forget_headers(out->mem[i]);
		r.qp[i]->q.req.ud.kept = NULL;
	}
	rig_close(&r);
}

/* Completions come in order, so that of each side's last work request, which is signalled, stands
 * behind all others. */
static void check_all_ended(const struct record *a)
{
	for (int side = 0; side < 2; side++) {
		unsigned int n = a->ncqe[side][0];

		expect(n && a->cqe[side][0][n - 1].wqe_counter == a->newest[side],
		       "a work request stays without a completion: side, completions", side, n);
	}
}

static void compare_cqe(const struct cqe *a, const struct cqe *b, int side, int q)
{
	bool same = a->opcode == b->opcode && a->wqe_opcode == b->wqe_opcode &&
		    a->wqe_counter == b->wqe_counter && a->byte_cnt == b->byte_cnt &&
		    a->imm == b->imm && a->solicited == b->solicited;

	if (!same)
		fprintf(stderr,
			"sim: opcode %u/%u wqe %u/%u bytes %u/%u imm %x/%x solicited %d/%d\n",
			a->opcode, b->opcode, a->wqe_counter, b->wqe_counter, a->byte_cnt,
			b->byte_cnt, a->imm, b->imm, a->solicited, b->solicited);
	expect(same, "completions differ: side, queue", side, q);
	expect(a->opcode != MLX5_CQE_REQ_ERR && a->opcode != MLX5_CQE_RESP_ERR,
	       "a completion failed: syndrome, side", a->syndrome, side);
}

static void compare(const struct record *a, const struct record *b)
{
	for (int side = 0; side < 2; side++) {
		for (uint32_t i = 0; memcmp(a->mem[side], b->mem[side], RIG_MEM); i++)
			expect(a->mem[side][i] == b->mem[side][i], "memory differs: side, offset",
			       side, i);
		for (int q = 0; q < 2; q++) {
			expect(a->ncqe[side][q] == b->ncqe[side][q], "number of completions",
			       a->ncqe[side][q], b->ncqe[side][q]);
			for (unsigned int i = 0; i < a->ncqe[side][q]; i++)
				compare_cqe(&a->cqe[side][q][i], &b->cqe[side][q][i], side, q);
		}
	}
}

/* After a move to ERR: no work request is completed twice, all that failed are, and in order. */
static void check_error_run(const struct script *s, const struct record *a)
{
	unsigned int posts[2] = { 0, 0 }, flushed = 0;

	for (unsigned int i = 0; i < s->n; i++)
		posts[s->action[i].side] += s->action[i].kind == POST;
	expect(a->state[0] == IBV_QPS_ERR, "side 0 is in ERR", a->state[0], 0);
	for (int side = 0; side < 2; side++) {
		int32_t last = -1;

		expect(a->ncqe[side][0] <= posts[side], "more completions than posts", side,
		       a->ncqe[side][0]);
		for (unsigned int i = 0; i < a->ncqe[side][0]; i++) {
			const struct cqe *c = &a->cqe[side][0][i];

			expect(c->wqe_counter > last, "completions in order", side, i);
			last = c->wqe_counter;
			flushed += side == 0 && c->opcode == MLX5_CQE_REQ_ERR;
		}
		expect(a->state[side] != IBV_QPS_ERR || last >= 0, "nothing completed", side, 0);
	}
	/* the last WQE of a QP in ERR is completed whether it is signalled or not */
	expect(flushed > 0 || a->ncqe[0][0] > 0, "flushed", flushed, a->ncqe[0][0]);
}

static void lossy(struct rand *r, struct net_config *c)
{
	*c = (struct net_config){ .max_seg = 256, .delay = 1000 + rand_below(r, 10000) };
	c->loss = rand_chance(r, 0.8) ? rand_below(r, 21) / 100.0 : 0;
	c->dup = rand_chance(r, 0.5) ? rand_below(r, 10) / 100.0 : 0;
	c->late = rand_chance(r, 0.5) ? rand_below(r, 10) / 100.0 : 0;
	c->flip = rand_chance(r, 0.5) ? rand_below(r, 5) / 100.0 : 0;
	c->again = rand_chance(r, 0.3) ? 0.2 : 0;
}

/* Hosts, of which one, both or none knows what the other is able to. */
static void hosts(struct rand *r, struct net_config *c)
{
	lossy(r, c);
	c->window = 4 << rand_below(r, 7);
	c->cork = rand_chance(r, 0.5) ? rand_below(r, 101) / 100.0 : 0;
	for (int i = 0; i < 2; i++)
		c->abilities[i] = rand_chance(r, 0.7) ? DEST_REPORTS : 0;
}

static void same_host(struct rand *r, struct net_config *c)
{
	*c = (struct net_config){ .same_host = true,
				  .max_seg = 256 << rand_below(r, 5),
				  .delay = 1 + rand_below(r, 1000),
				  .inline_max = 64 };
	c->max_ref = rand_chance(r, 0.6) ? 1024 << rand_below(r, 4) : 0;
	c->cannot_fetch = rand_chance(r, 0.3);
	c->again = rand_chance(r, 0.5) ? 0.3 : 0;
	c->prediction = rand_chance(r, 0.5) ? NET_PREDICTED : NET_NO_PREDICTION;
	c->direct = rand_chance(r, 0.3) ? 0 : rand_chance(r, 0.5) ? 0.7 : 1;
	if (c->direct == 0)
		return;
	/* a link with direct access takes all that goes in few steps in one segment */
	c->max_seg = c->max_seg < SLOT ? SLOT : c->max_seg;
	c->max_ref = c->max_ref && c->max_ref < SLOT ? SLOT : c->max_ref;
}

static void some_network(struct rand *r, struct net_config *c)
{
	if (rand_chance(r, 0.4))
		same_host(r, c);
	else if (rand_chance(r, 0.6))
		hosts(r, c);
	else
		lossy(r, c);
}

/* The same run without prediction: where chance is the same, each segment leaves at the same
 * moment, and each direct access happens then. */
static void unpredicted(const struct script *s, const struct net_config *cfg,
			const struct record *a, struct record *b)
{
	struct net_config c = *cfg;

	c.prediction = NET_ORDINARY;
	play(s, &c, b);
	if (cfg->again == 0)
		expect(a->hash == b->hash, "prediction has changed what was sent", a->hash,
		       b->hash);
	if (!s->moves_to_err)
		compare(a, b);
}

/* UD between two processes of a host, which goes the shorter way or not. */
static uint64_t datagrams(struct rand *r, struct record *a, struct record *b)
{
	struct script s = { .datagrams = true };
	struct net_config c;

	same_host(r, &c);
	c.max_seg = 1024;
	c.max_ref = 0;
	c.prediction = NET_PREDICTED;
	make_script(r, &s, false, 0.7);
	for (int i = 0; i < 2; i++) {
		s.attr[i].type = IBV_QPT_UD;
		s.attr[i].mtu = IBV_MTU_1024;
	}
	play(&s, &c, a);
	check_all_ended(a);
	if (c.again == 0)
		unpredicted(&s, &c, a, b);
	return a->hash;
}

static uint64_t reliable(struct rand *r, struct record *a, struct record *b)
{
	static const struct net_config perfect = { .max_seg = 256, .delay = 1000 };
	struct script s = { .datagrams = false };
	struct net_config c;
	bool to_err = rand_chance(r, 0.15);

	some_network(r, &c);
	make_script(r, &s, to_err, c.prediction ? 0.7 : 0);
	play(&s, &c, a);
	check_all_ended(a);
	if (c.prediction)
		unpredicted(&s, &c, a, b);
	if (to_err) {
		check_error_run(&s, a);
		return a->hash;
	}
	play(&s, &perfect, b);
	compare(a, b);
	return a->hash;
}

/* The second side's rq_psn is before or behind the first's sq_psn. */
static void skew(struct rand *r, struct script *s)
{
	uint32_t by = 1 + rand_below(r, rand_chance(r, 0.5) ? 4 : 300);

	s->attr[1].rq_psn += rand_chance(r, 0.5) ? by : -by;
	s->attr[1].rq_psn &= 0xffffff;
}

/* Nothing of one side reaches the other any more, which may still do to it what it likes. */
static void fall_silent(struct rand *r, struct script *s)
{
	add(s, (struct action){
		       .at = rand_below(r, SPAN), .side = rand_below(r, 2), .kind = FALL_SILENT });
}

/* The second side comes to RTR and RTS when the first has long begun, perhaps when it is too
 * late. */
static void come_late(struct rand *r, struct script *s)
{
	uint64_t at = rand_below(r, 2 * SPAN);
	struct script old = *s;

	s->n = 0;
	s->comes_late = true;
	add(s, (struct action){ .at = at, .side = 1, .kind = COME });
	for (unsigned int i = 0; i < old.n; i++) {
		struct action a = old.action[i];

		if (a.side == 1 && a.at < at)
			a.at = at;
		add(s, a);
	}
}

/* A peer that counts otherwise, falls silent or comes late: whatever becomes of a message, its work
 * request ends. */
static uint64_t strange(struct rand *r, struct record *a)
{
	static void (*const ways[])(struct rand *, struct script *) = { skew, fall_silent,
									come_late };
	struct script s = { .datagrams = false };
	struct net_config c;

	some_network(r, &c);
	make_script(r, &s, false, c.prediction ? 0.7 : 0);
	ways[rand_below(r, sizeof(ways) / sizeof(ways[0]))](r, &s);
	play(&s, &c, a);
	check_all_ended(a);
	return a->hash;
}

/* The messages of UC and UD runs: number @i is @len bytes from offset 64 * i, its immediate is
 * i. */
static uint32_t message_len(unsigned int i, bool ud)
{
	return 1 + i * 97 % (ud ? 1000 : SLOT - 1);
}

static void unreliable_receives(struct rig *r, bool ud)
{
	struct rig_qp *p = r->qp[1];
	uint32_t skip = ud ? 40 : 0, next = 0;
	struct cqe c;

	while (rig_poll(p, true, &c)) {
		const uint8_t *got = p->mem + RECEIVES + c.wqe_counter * SLOT;

		expect(c.opcode == MLX5_CQE_RESP_SEND_IMM, "opcode", c.opcode, 0);
		expect(c.imm < RIG_RQ && ((ud && r->net.cfg.late > 0) || c.imm >= next),
		       "message out of order", c.imm, next);
		next = c.imm + 1;
		expect(c.byte_cnt == message_len(c.imm, ud) + skip, "length", c.byte_cnt, c.imm);
		expect(!memcmp(got + skip, r->qp[0]->mem + 64 * c.imm, c.byte_cnt - skip),
		       "damaged message", c.imm, c.byte_cnt);
	}
}

static uint64_t unreliable(struct rand *r)
{
	bool ud = rand_chance(r, 0.5);
	struct rig_attr attr = rig_rc;
	struct net_config c;
	struct rig rig;
	struct cqe done;
	uint64_t hash;

	lossy(r, &c);
	if (rand_chance(r, 0.5)) {
		c.window = 64;
		c.cork = rand_below(r, 101) / 100.0;
	}
	if (ud)
		c.max_seg = 1024;
	c.dup = ud ? 0 : c.dup; /* a datagram that the network doubles arrives twice */
	attr.type = ud ? IBV_QPT_UD : IBV_QPT_UC;
	rig_open(&rig, &c, current_seed);
	for (int i = 0; i < 2; i++)
		rig_qp_open(&rig, &attr, i ? 0x77 : 0x22);
	for (int i = 0; i < 2; i++)
		rig_connect(rig.qp[i], &attr, rig.qp[!i]->q.qp.qpn);
	for (unsigned int i = 0; i < RIG_RQ; i++) {
		struct sge s = rig_sge(rig.qp[1], RECEIVES + i * SLOT, SLOT);

		rig_receive(rig.qp[1], &s, 1);
	}
	for (unsigned int i = 0; i < RIG_RQ; i++) {
		struct rig_wr w = { .op = MLX5_OPCODE_SEND_IMM,
				    .imm = i,
				    .nsge = 1,
				    .dqpn = 0x101,
				    .sge = { rig_sge(rig.qp[0], 64 * i, message_len(i, ud)) },
				    .qkey = 0x11111111 };

		rig_post(rig.qp[0], &w);
		rig_run_until(&rig, rig.net.now + rand_below(r, 20000));
		expect(c.again > 0 || rig_poll(rig.qp[0], false, &done), "send completes at once",
		       i, 0);
	}
	rig_run(&rig);
	unreliable_receives(&rig, ud);
	hash = rig.net.hash;
	rig_close(&rig);
	return hash;
}

static uint64_t run(uint64_t seed, struct record *a, struct record *b)
{
	struct rand r;

	current_seed = seed;
	rand_init(&r, seed);
	if (seed % 10 == 9)
		return seed % 20 == 9 ? unreliable(&r) : datagrams(&r, a, b);
	return seed % 10 == 8 ? strange(&r, a) : reliable(&r, a, b);
}

int main(int argc, char **argv)
{
	uint64_t usual = length_full() ? length_part(FULL) : 2000;
	uint64_t runs = argc > 1 ? strtoul(argv[1], NULL, 0) : usual;
	uint64_t first = 1, hash = 0;
	struct record *a = calloc(1, sizeof(*a)), *b = calloc(1, sizeof(*b));

	if (argc > 2)
		first = strtoul(argv[2], NULL, 0);
	else if (length_full())
		first += length_before(FULL);
	if (!a || !b)
		return 1;
	for (int i = 0; i < 2; i++) {
		a->mem[i] = rig_alloc(RIG_MEM);
		b->mem[i] = rig_alloc(RIG_MEM);
	}
	for (uint64_t seed = first; seed < first + runs; seed++) {
		uint64_t h = run(seed, a, b);

		if (seed % 50 == 0)
			expect(run(seed, a, b) == h, "the same seed gave another run", h, 0);
		hash ^= h;
		rand_mix(&hash);
	}
	expect(runs < 100 || plain > runs, "few segments went the shorter way", plain, runs);
	expect(runs < 1000 || direct > runs / 4, "few WRITEs and READs went the shorter way",
	       direct, runs);
	printf("sim: %lu runs from seed %lu, predicted: %lu segments, %lu by direct access: "
	       "hash %016lx\n",
	       (unsigned long)runs, (unsigned long)first, (unsigned long)plain,
	       (unsigned long)direct, (unsigned long)hash);
	for (int i = 0; i < 2; i++) {
		free(a->mem[i]);
		free(b->mem[i]);
	}
	free(a);
	free(b);
	return 0;
}
