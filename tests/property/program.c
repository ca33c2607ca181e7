// SPDX-License-Identifier: MIT
#include "property/program.h"
#include <stdio.h>
#include <string.h>

uint64_t mix(uint64_t a, uint64_t b)
{
	uint64_t z = a * 0x9e3779b97f4a7c15 + b + 0x632be59bd9b4e019;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

static uint64_t state;

static uint32_t draw(uint32_t below)
{
	state = mix(state, 1);
	return (uint32_t)((state >> 20) % below);
}

static bool chance(uint32_t percent)
{
	return draw(100) < percent;
}

uint64_t source_pattern(const struct program *p, unsigned int link, unsigned int side)
{
	return mix(p->seed, 1000 + link * SIDES + side);
}

unsigned int program_index(unsigned int link, unsigned int ep, unsigned int side, unsigned int step)
{
	return ((link * EPISODES + ep) * SIDES + side) * STEPS + step;
}

/* --- operations --- */

static const uint8_t opcodes[] = {
	IBV_WR_SEND,
	IBV_WR_SEND_WITH_IMM,
	IBV_WR_RDMA_WRITE,
	IBV_WR_RDMA_WRITE_WITH_IMM, /* UC: up to here; UD: the first two */
	IBV_WR_RDMA_WRITE,
	IBV_WR_RDMA_READ,
	IBV_WR_RDMA_READ,
	IBV_WR_ATOMIC_FETCH_AND_ADD,
	IBV_WR_ATOMIC_CMP_AND_SWP,
	IBV_WR_ATOMIC_WRITE,
};

static uint32_t a_length(uint32_t max)
{
	static const uint32_t edges[] = { 0,   1,   8,	 12,  63,   64,	  65,	196,
					  255, 256, 257, 511, 1023, 1024, 1025, 4097 };
	uint32_t n;

	if (chance(60))
		n = edges[draw(sizeof(edges) / sizeof(edges[0]))];
	else
		n = draw(chance(70) ? 300 : max);
	return n > max ? max : n;
}

static bool any(const struct plan *p, uint32_t k, uint8_t opcode, uint16_t *out)
{
	uint32_t i = k ? draw(k) : 0;

	for (uint32_t n = 0; n < k; n++, i = (i + 1) % k)
		if (p->op[i].opcode == opcode && p->op[i].len && !p->op[i].sin) {
			*out = (uint16_t)i;
			return true;
		}
	return false;
}

/* What an operation has to do with an earlier one of its side. */
static void relate(struct plan *p, uint32_t k, uint64_t source)
{
	struct op *o = &p->op[k];
	uint32_t longest;

	if (o->opcode == IBV_WR_RDMA_READ) {
		o->content = source;
		if (!chance(40) || !any(p, k, IBV_WR_RDMA_WRITE, &o->of))
			return;
	} else if (must_align(o) || !chance(25) || !any(p, k, IBV_WR_RDMA_READ, &o->of)) {
		return;
	} else {
		o->flags |= IBV_SEND_FENCE;
		o->flags &= (uint8_t)~IBV_SEND_INLINE; /* read when it is posted */
		o->nsge = p->op[o->of].nsge;
		o->len = p->op[o->of].len; /* the same pieces */
	}
	longest = p->op[o->of].len;
	if (o->len > longest)
		o->len = longest;
	o->content = p->op[o->of].content;
}

/* Windows: of the peer's for access, of its own to bind and to invalidate in turn. */
static void by_window(const struct link *l, struct plan *p, uint32_t k)
{
	struct op *o = &p->op[k];
	uint32_t bound = 0;

	if (l->type == IBV_QPT_RC && o->opcode == IBV_WR_SEND && p->inv == NONE && chance(10)) {
		o->opcode = IBV_WR_SEND_WITH_INV;
		o->flags = IBV_SEND_FENCE; /* a READ may be executed once more */
		p->inv = (uint16_t)k;
	} else if (l->type == IBV_QPT_RC && (is_write(o) || brings(o)) && chance(35)) {
		o->via = p->inv == NONE && chance(50) ? VIA_TYPE_2 : VIA_TYPE_1;
	} else if ((l->type == IBV_QPT_RC || l->type == IBV_QPT_UC) && chance(6)) {
		for (uint32_t i = 0; i < k; i++)
			bound += is_local(&p->op[i]);
		o->opcode = bound % 2 ? IBV_WR_LOCAL_INV : IBV_WR_BIND_MW;
	}
}

static uint32_t frame_most(const struct program *p)
{
	return FRAME_LEAST + (p->max_len < FRAME_MOST ? p->max_len : FRAME_MOST);
}

static uint32_t kinds_of(uint8_t type)
{
	switch (type) {
	case IBV_QPT_RC:
		return sizeof(opcodes);
	case IBV_QPT_XRC_SEND:
		return sizeof(opcodes) - 1;
	case IBV_QPT_RAW_PACKET:
		return 1;
	default:
		return type == IBV_QPT_UC ? 4 : 2;
	}
}

static void make_op(const struct program *pr, const struct link *l, struct plan *p, uint32_t k,
		    uint64_t source)
{
	struct op *o = &p->op[k];
	uint32_t kinds = kinds_of(l->type);
	uint32_t max = l->type == IBV_QPT_UD ? 256 : pr->max_len;

	*o = (struct op){ .opcode = opcodes[draw(kinds)], .of = NONE, .content = mix(state, k) };
	by_window(l, p, k);
	o->len = must_align(o) ? 8 : is_local(o) ? 0 : a_length(max);
	o->nsge = must_align(o) ? 1 : (uint8_t)(1 + draw(p->cap.max_send_sge));
	if (chance(60))
		o->flags |= IBV_SEND_SIGNALED;
	if (chance(20))
		o->flags |= IBV_SEND_SOLICITED;
	if (chance(15))
		o->flags |= IBV_SEND_FENCE;
	if (is_local(o)) {
		o->nsge = 0;
		return;
	}
	if (l->type == IBV_QPT_RAW_PACKET) {
		o->len = FRAME_LEAST + a_length(frame_most(pr) - FRAME_LEAST);
		o->nsge = (uint8_t)(1 + draw(p->cap.max_send_sge - 1U)); /* and the header */
		return;
	}
	if (!brings(o) && o->len <= p->cap.max_inline_data && chance(50))
		o->flags |= IBV_SEND_INLINE;
	if (p->builder && o->opcode == IBV_WR_ATOMIC_WRITE)
		o->flags |= IBV_SEND_INLINE; /* by value */
	if (reliable(l))
		relate(p, k, source);
}

/* --- sins --- */

static bool can_sin(const struct link *l, const struct plan *p, uint32_t k, enum sin s)
{
	const struct op *o = &p->op[k];
	bool local = !(o->flags & IBV_SEND_INLINE) && o->len;
	bool remote = reliable(l) && (is_write(o) || brings(o)) && o->len;

	if (o->of != NONE)
		return false;
	switch (s) {
	case SIN_LKEY:
	case SIN_FICKLE:
		return local;
	case SIN_RKEY:
	case SIN_BOUNDS:
		return remote;
	case SIN_RIGHT:
		return remote && is_write(o);
	case SIN_UNALIGNED:
		return must_align(o);
	case SIN_STALE:
		return remote && l->type == IBV_QPT_RC && p->inv < k;
	case SIN_SRQ:
		return l->type == IBV_QPT_XRC_SEND;
	case SIN_WINDOW:
		return is_local(o) || o->opcode == IBV_WR_SEND_WITH_INV;
	case SIN_LONG:
		return local && (o->opcode == IBV_WR_SEND || o->opcode == IBV_WR_SEND_WITH_IMM) &&
		       reliable(l);
	default:
		return false;
	}
}

static bool leaned_on(const struct plan *p, uint32_t k)
{
	for (uint32_t i = k + 1; i < p->ops; i++)
		if (p->op[i].of == k)
			return true;
	return false;
}

static void sin_once(const struct link *l, struct plan *p)
{
	uint32_t k = draw(p->ops);
	enum sin s = 1 + draw(SIN_FICKLE - 1);

	if (!can_sin(l, p, k, s) || leaned_on(p, k))
		return;
	p->op[k].sin = (uint8_t)s;
	if (s == SIN_RKEY || s == SIN_RIGHT)
		p->op[k].via = VIA_REGION;
	if (s == SIN_STALE)
		p->op[k].via = VIA_TYPE_2;
}

/* --- steps --- */

static void add(struct plan *p, enum step_kind kind, uint32_t n)
{
	if (p->steps < STEPS)
		p->step[p->steps++] = (struct step){ (uint8_t)kind, (uint8_t)n };
}

static const struct {
	uint8_t kind, upto;
} often[] = {
	{ S_SEND, 4 },	 { S_SEND, 4 },	    { S_SEND, 4 },	{ S_SEND, 12 },
	{ S_RECV, 12 },	 { S_RECV, 12 },    { S_POLL, 20 },	{ S_POLL, 3 },
	{ S_PAUSE, 20 }, { S_CHAIN, 1 },    { S_ILLEGAL, 250 }, { S_QUERY, 1 },
	{ S_ARM, 2 },	 { S_RESIZE, 250 }, { S_SQD, 2 },	{ S_OPEN, 4 },
};

static void one_step(struct plan *p)
{
	uint32_t i = draw(sizeof(often) / sizeof(often[0]));

	add(p, often[i].kind, draw(often[i].upto) + (often[i].kind <= S_PAUSE));
	if (often[i].kind == S_SQD) {
		add(p, chance(50) ? S_POLL : S_SEND, 1 + draw(5));
		add(p, S_RTS, 0);
	}
	if (chance(1))
		add(p, S_FORK, 0);
}

static void make_steps(struct plan *p, enum step_kind breaks)
{
	uint32_t n = 6 + draw(STEPS / 2 - 6), at = draw(n);

	add(p, S_RECV, draw(16));
	for (uint32_t i = 0; i < n; i++) {
		if (i == at && breaks != S_PAUSE)
			add(p, breaks, 0);
		one_step(p);
	}
	add(p, S_RECV, RECVS);
	add(p, S_SEND, OPS);
}

static const uint8_t breaking[] = { S_ERR, S_ERR, S_RESET, S_DESTROY, S_DEREG, S_DEREG };

/* What a QP is made with stays the same from one episode to the next. */
static void make_caps(struct link *l, unsigned int s)
{
	struct ibv_qp_cap cap = { .max_send_wr = 1 + draw(OPS),
				  .max_recv_wr = 2 + draw(RECVS),
				  .max_send_sge = 1 + draw(SGES),
				  .max_recv_sge = 1 + draw(SGES),
				  .max_inline_data = draw(2) * draw(400) };
	bool raw = l->type == IBV_QPT_RAW_PACKET;
	bool sig_all = chance(20), builder = chance(40);

	if (raw && cap.max_send_sge < 2)
		cap.max_send_sge = 2;
	if (raw)
		cap.max_inline_data = 0;
	for (unsigned int e = 0; e < EPISODES; e++) {
		l->ep[e].side[s].cap = cap;
		l->ep[e].side[s].sig_all = sig_all;
		l->ep[e].side[s].builder = builder;
	}
}

static void make_recvs(const struct program *pr, const struct link *l, struct plan *p)
{
	uint32_t len = l->type == IBV_QPT_UD ? 40 + 256 : pr->max_len;

	if (l->type == IBV_QPT_RAW_PACKET)
		len = FRAME_HEAD + frame_most(pr);
	p->recvs = chance(75) ? RECVS : (uint16_t)draw(RECVS);
	for (uint32_t i = 0; i < p->recvs; i++)
		p->recv[i] = (struct recv){ .nsge = (uint8_t)(1 + draw(p->cap.max_recv_sge)),
					    .len = len };
}

static void make_plan(const struct program *pr, const struct link *l, struct plan *p,
		      enum step_kind breaks, uint64_t source)
{
	p->rd_atomic = (uint8_t)(1 + draw(chance(50) ? 2 : 16));
	p->rnr_retry = chance(85) ? 7 : (uint8_t)draw(7);
	p->fresh = chance(30);
	p->by_events = chance(50);
	p->end = (uint8_t)draw(ENDS);
	p->inv = NONE;
	p->zero_based = chance(50);
	make_recvs(pr, l, p);
	p->ops = (uint16_t)(1 + draw(OPS));
	for (uint32_t k = 0; k < p->ops; k++)
		make_op(pr, l, p, k, source);
	make_steps(p, breaks);
}

/* Keys that vanish: of this side's memory, or of the peer's. */
static void make_fickle(const struct link *l, struct plan *p, enum via what, bool own)
{
	for (uint32_t k = 0; k < p->ops; k++) {
		struct op *o = &p->op[k];
		bool inv = what == VIA_TYPE_2 && o->opcode == IBV_WR_SEND_WITH_INV;

		if (what != VIA_REGION && !own && (o->via == what || inv))
			o->sin = SIN_FICKLE;
		if (what != VIA_REGION || !chance(30) ||
		    !can_sin(l, p, k, own ? SIN_FICKLE : SIN_RKEY))
			continue;
		o->sin = SIN_FICKLE;
		o->via = VIA_REGION;
	}
}

/* In these a process may be killed, by link 0. */
static bool deadly(const struct program *pr)
{
	return pr->seed % 4 == 0;
}

/* Half of the episodes are clean: all of it must succeed. In the others one thing goes wrong. */
static void make_episode(struct program *pr, struct link *l, struct episode *e, bool kill)
{
	uint64_t source[SIDES] = { source_pattern(pr, (unsigned int)(l - pr->link), 0),
				   source_pattern(pr, (unsigned int)(l - pr->link), 1) };
	uint32_t who = draw(SIDES), what = draw(5);
	int fickle = -1;

	e->mtu = (uint8_t)(IBV_MTU_256 + draw(5));
	for (unsigned int s = 0; s < SIDES; s++) {
		enum step_kind b = S_PAUSE;

		if (s == who && what == 3)
			b = kill ? S_KILL : breaking[draw(l->srq[s] ? 2 : sizeof(breaking))];
		make_plan(pr, l, &e->side[s], b, source[!s]);
		fickle = b == S_DEREG ? (int)s : fickle;
	}
	if (l->type == IBV_QPT_RC)
		e->fickle = (uint8_t)draw(VIA_TYPE_2 + 1);
	for (unsigned int s = 0; fickle >= 0 && s < SIDES; s++)
		make_fickle(l, &e->side[s], e->fickle, (int)s == fickle);
	if (what == 2 && chance(75))
		sin_once(l, &e->side[who]);
	else if (what == 2 && e->side[who].recvs)
		e->side[who].recv[draw(e->side[who].recvs)].sin = SIN_LKEY;
	if (what == 4 && l->type == IBV_QPT_RC)
		e->skewed = (uint8_t)(1 + who);
	e->quick = what >= 2;
	e->endless = chance(30) && what < 2 && pr->way == WAY_PLAIN && !deadly(pr) &&
		     e->side[0].rnr_retry == 7 && e->side[1].rnr_retry == 7;
}

static void make_link(struct program *pr, struct link *l, unsigned int i)
{
	static const uint8_t types[] = { IBV_QPT_RC,	   IBV_QPT_RC,	      IBV_QPT_RC,
					 IBV_QPT_UC,	   IBV_QPT_UD,	      IBV_QPT_XRC_SEND,
					 IBV_QPT_XRC_SEND, IBV_QPT_RAW_PACKET };

	l->type = types[draw(sizeof(types))];
	for (unsigned int s = 0; s < SIDES; s++) {
		l->proc[s] = i ? (uint8_t)draw(PROCS) : (uint8_t)s; /* one between processes */
		l->srq[s] = l->type == IBV_QPT_XRC_SEND ||
			    (l->type != IBV_QPT_UC && l->type != IBV_QPT_RAW_PACKET && chance(25));
		l->shared_cq[s] = chance(35);
		make_caps(l, s);
	}
	for (unsigned int e = 0; e < EPISODES; e++)
		make_episode(pr, l, &l->ep[e], !i && e == 1 && deadly(pr));
}

void program_make(struct program *p, uint64_t seed)
{
	static const uint32_t lengths[] = { 600, 5000, 70000 };

	memset(p, 0, sizeof(*p));
	state = mix(seed, 77);
	p->seed = seed;
	p->max_len = lengths[draw(3)];
	p->way = chance(94) ? WAY_PLAIN : (uint8_t)(1 + draw(WAYS - 1)); /* these take long */
	p->links = (uint8_t)(1 + draw(LINKS));
	for (unsigned int i = 0; i < p->links; i++)
		make_link(p, &p->link[i], i);
}

static const char *const names[STEP_KINDS] = { "send",	"receive", "poll", "pause", "illegal",
					       "chain", "query",   "open", "arm",   "resize",
					       "fork",	"sqd",	   "rts",  "dereg", "err",
					       "reset", "destroy", "kill" };

const char *step_name(enum step_kind k)
{
	return names[k];
}

static void print_ops(const struct plan *plan)
{
	for (unsigned int k = 0; k < plan->ops; k++)
		printf("#     operation %u: opcode %u, %u bytes in %u, flags 0x%x, via %u, sin %u, "
		       "of "
		       "%d\n",
		       k, plan->op[k].opcode, plan->op[k].len, plan->op[k].nsge, plan->op[k].flags,
		       plan->op[k].via, plan->op[k].sin,
		       plan->op[k].of == NONE ? -1 : plan->op[k].of);
	for (unsigned int r = 0; r < plan->recvs; r++)
		if (plan->recv[r].sin)
			printf("#     receive %u has a bad key\n", r);
}

static void print_side(const struct program *p, unsigned int l, unsigned int e, unsigned int s)
{
	const struct plan *plan = &p->link[l].ep[e].side[s];

	printf("#   link %u (type %u, process %u%s) episode %u%s side %c%s\n", l, p->link[l].type,
	       p->link[l].proc[s], p->link[l].srq[s] ? ", SRQ" : "", e,
	       p->link[l].ep[e].endless ? " (timeout 0)" : "", "ab"[s],
	       p -> link[l].ep[e].skewed == 1 + s ? ", whose rq_psn is wrong" : "");
	print_ops(plan);
	for (unsigned int i = 0; i < plan->steps; i++)
		if (!p->off[program_index(l, e, s, i)])
			printf("#   link %u episode %u side %c step %u: %s %u\n", l, e, "ab"[s], i,
			       names[plan->step[i].kind], plan -> step[i].n);
}

void program_print(const struct program *p)
{
	printf("#   the link is %s\n", (const char *[]){ "plain", "faultless", "late" }[p->way]);
	for (unsigned int l = 0; l < p->links; l++)
		for (unsigned int e = 0; e < EPISODES; e++)
			for (unsigned int s = 0; s < SIDES; s++)
				print_side(p, l, e, s);
}
