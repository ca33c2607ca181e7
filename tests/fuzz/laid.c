// SPDX-License-Identifier: MIT
/* Queue pairs whose rings and records a program writes itself, with anything in them, while they
 * work. Whatever stands there, only memory that its keys allow is written, the queue pair works or
 * stops, and the pair beside it goes on message by message. The input is a script: the service,
 * then what is written, rung and waited for. */
#include <string.h>
#include "fuzz.h"
#include "hca/srq.h"
#include "sim/rig.h"
#include "wire/frame.h"

enum { STEPS = 64, MTU = 256, OPEN_AT = 0x8000, OPEN = 0x4000, GUARD = 0x11, LEN = 600 };
enum { SLOTS = 16, SLOT = 32, SQ_BYTES = RIG_SQ * WQE_BB, RQ_BYTES = RIG_RQ * RIG_STRIDE };

const struct fuzz_target fuzz_target = { "laid", 1024, 10000 };

static struct rig rig;
static struct rig_qp *a, *b; /* their rings are the program's */
static struct rig_qp *c, *d; /* beside them */
static struct mr *open_mr[2]; /* what keys of a and b reach: [OPEN_AT, OPEN_AT + OPEN) */
static struct srq *srq;
static struct rq_ring shared;
static uint32_t shared_record;
static uint16_t shared_posted;
static uint32_t told; /* messages from c to d */

/* Frames and multicast are out; nobody hears them. */
static int cast(struct tqp *q, const struct seg *s)
{
	(void)q;
	must(s->len <= FRAME_MAX);
	return 0;
}

static struct mr *open_memory(struct rig_qp *p)
{
	struct mr_attr attr = { .addr = p->mem + OPEN_AT,
				.len = OPEN,
				.iova = RIG_IOVA + OPEN_AT,
				.access = rig_rc.access };
	struct mr *mr;

	if (mr_create(p->pd, &attr, &mr))
		abort();
	return mr;
}

static void begin(void)
{
	static const struct net_config cfg = { .max_seg = MTU, .delay = 1000 };
	struct srq_attr sa = { .max_wr = SLOTS, .max_sge = 1 };
	static struct tqp_env env;
	struct rig_attr closed = rig_rc;

	env = rig_env;
	env.cast = cast;
	closed.access = 0;
	closed.sig_all = false;
	rig_open(&rig, &cfg, 1);
	a = rig_qp_open(&rig, &closed, GUARD);
	b = rig_qp_open(&rig, &closed, GUARD);
	c = rig_qp_open(&rig, &rig_rc, GUARD);
	d = rig_qp_open(&rig, &rig_rc, GUARD);
	open_mr[0] = open_memory(a);
	open_mr[1] = open_memory(b);
	shared = (struct rq_ring){ rig_alloc(SLOTS * SLOT), SLOTS, SLOT, &shared_record };
	sa.ring = shared;
	if (srq_create(b->pd, &sa, &srq))
		abort();
	for (struct rig_qp *p = a; p; p = p == a ? b : NULL) {
		p->q.env = &env;
		p->q.qp.laid_open = true;
		p->q.qp.atomic_writes = p->q.qp.binds = false;
	}
	rig_connect(c, &rig_rc, d->q.qp.qpn);
	rig_connect(d, &rig_rc, c->q.qp.qpn);
}

/* --- what is done --- */

static struct rig_qp *one_of(uint8_t x)
{
	return x & 1 ? b : a;
}

/* Some bytes of @size at @at become others. */
static void poke(struct fuzz_bytes *bytes, void *at, size_t size)
{
	size_t off = fuzz_take(bytes, 2) % size, n = 1 + fuzz_take(bytes, 1) % WQE_BB;
	const uint8_t *run;

	n = fuzz_take_run(bytes, n < size - off ? n : size - off, &run);
	memcpy((uint8_t *)at + off, run, n);
}

static void poke_ring(struct fuzz_bytes *bytes)
{
	uint8_t x = (uint8_t)fuzz_take(bytes, 1);
	struct rig_qp *p = one_of(x);

	switch (x >> 1 & 3) {
	case 0:
		poke(bytes, p->rq, RQ_BYTES);
		break;
	case 1:
		poke(bytes, p->cq[x >> 3 & 1], RIG_CQ * sizeof(struct mlx5_cqe64));
		break;
	case 2:
		poke(bytes, shared.buf, SLOTS * SLOT);
		break;
	default:
		poke(bytes, p->sq, SQ_BYTES);
	}
}

/* A bit of a WQE that is posted already, or is next. */
static void flip(struct fuzz_bytes *bytes)
{
	uint8_t x = (uint8_t)fuzz_take(bytes, 1);
	struct rig_qp *p = one_of(x);
	uint32_t block = (uint32_t)(p->sq_pi - (x >> 1 & 7)) % RIG_SQ;

	p->sq[block * WQE_BB + fuzz_take(bytes, 1) % WQE_BB] ^= (uint8_t)(1 << (x >> 5));
}

/* Mostly near to what it should be. */
static void set_record(struct fuzz_bytes *bytes)
{
	uint8_t x = (uint8_t)fuzz_take(bytes, 1);
	uint16_t to = (uint16_t)fuzz_take(bytes, x & 0x80 ? 2 : 1);
	struct rig_qp *p = one_of(x);

	if (!(x & 0x80))
		to = (uint16_t)(int8_t)to;
	switch (x >> 1 & 3) {
	case 0:
		p->dbrec[0] = htobe32((uint16_t)(p->rq_pi + to));
		break;
	case 1:
		p->dbrec[1] = htobe32((uint16_t)(p->sq_pi + to));
		break;
	case 2:
		shared_record = htobe32((uint16_t)(shared_posted + to));
		break;
	default:
		p->cqrec[x >> 3 & 1][0] = htobe32(p->cqs[x >> 3 & 1]->pi + (uint32_t)(int16_t)to);
	}
}

static void write_wqe(struct fuzz_bytes *bytes)
{
	static const uint8_t ops[] = { MLX5_OPCODE_SEND,       MLX5_OPCODE_RDMA_WRITE,
				       MLX5_OPCODE_RDMA_READ,  MLX5_OPCODE_ATOMIC_FA,
				       MLX5_OPCODE_SEND_IMM,   MLX5_OPCODE_RDMA_WRITE_IMM,
				       MLX5_OPCODE_SEND_INVAL, MLX5_OPCODE_ATOMIC_CS,
				       MLX5_OPCODE_UMR,	       MLX5_OPCODE_LOCAL_INVAL,
				       MLX5_OPCODE_NOP,	       MLX5_OPCODE_TSO,
				       MLX5_OPCODE_MMO,	       WQE_OPCODE_BIND_MW };
	uint8_t x = (uint8_t)fuzz_take(bytes, 1), flags = (uint8_t)fuzz_take(bytes, 1);
	struct rig_qp *p = one_of(x);
	struct rig_wr w = { .op = ops[(x >> 1) % sizeof(ops)],
			    .nsge = 1 + (flags & 1),
			    .lead = flags >> 1 & 1,
			    .signaled = flags & 4,
			    .fence = flags & 8,
			    .solicited = flags & 16,
			    .rkey = open_mr[p == a]->ib.rkey,
			    .raddr = RIG_IOVA + OPEN_AT,
			    .dqpn = (p == a ? b : a)->q.qp.qpn,
			    .qkey = 0x11111111 };

	for (unsigned int i = 0; i < w.nsge; i++)
		w.sge[i] = (struct sge){ RIG_IOVA + OPEN_AT + 64UL * i,
					 (uint32_t)fuzz_take(bytes, 2) % (12 * MTU),
					 open_mr[p == b]->ib.lkey };
	if (w.lead)
		w.sge[0].len %= WQE_BB;
	if (w.op == MLX5_OPCODE_ATOMIC_FA || w.op == MLX5_OPCODE_ATOMIC_CS)
		w.sge[0].len = 8, w.nsge = 1, w.lead = 0;
	rig_write(p, &w);
	if (!(flags & 32))
		rig_ring(p);
}

static void write_receive(struct fuzz_bytes *bytes)
{
	uint8_t x = (uint8_t)fuzz_take(bytes, 1);
	struct rig_qp *p = one_of(x);
	struct sge s = { RIG_IOVA + OPEN_AT, OPEN, open_mr[p == b]->ib.lkey };

	if (x & 2 || !p->q.qp.srq) {
		rig_receive(p, &s, 1);
		return;
	}
	for (unsigned int i = 0; i < SLOTS; i++)
		rig_put_sge((struct rig_ds *)(shared.buf + (size_t)i * SLOT + 16), &s);
	shared_record = htobe32(++shared_posted);
	tqp_rq_doorbell(&p->q, rig.net.now);
}

static void ring(struct fuzz_bytes *bytes)
{
	uint8_t x = (uint8_t)fuzz_take(bytes, 1);

	if (x & 2)
		tqp_rq_doorbell(&one_of(x)->q, rig.net.now);
	else
		rig_ring(one_of(x));
}

static void pass_time(struct fuzz_bytes *bytes)
{
	rig_run_until(&rig, rig.net.now + (UINT64_C(1) << fuzz_take(bytes, 1) % 22));
}

/* The pair beside it works. */
static void beside(struct fuzz_bytes *bytes)
{
	struct rig_wr w = { .op = MLX5_OPCODE_SEND, .nsge = 1, .signaled = true };
	struct sge to = rig_sge(d, OPEN_AT, LEN);
	struct cqe e;

	(void)bytes;
	w.sge[0] = rig_sge(c, OPEN_AT, LEN);
	memset(c->mem + OPEN_AT, (int)(++told & 0xff), LEN);
	rig_receive(d, &to, 1);
	rig_post(c, &w);
	rig_run_until(&rig, rig.net.now + 200000);
	must(rig_poll(c, false, &e) && e.opcode == MLX5_CQE_REQ);
	must(rig_poll(d, true, &e) && e.opcode == MLX5_CQE_RESP_SEND && e.byte_cnt == LEN);
	must(!memcmp(c->mem + OPEN_AT, d->mem + OPEN_AT, LEN));
}

static void step(struct fuzz_bytes *bytes)
{
	static void (*const doings[])(struct fuzz_bytes * b) = {
		write_wqe,  write_wqe, write_receive, flip,   poke_ring,
		set_record, ring,      pass_time,     beside,
	};

	doings[fuzz_take(bytes, 1) % (sizeof(doings) / sizeof(doings[0]))](bytes);
	tqp_settle(&a->q);
	tqp_settle(&b->q);
}

/* --- before and after --- */

static void connect(struct fuzz_bytes *bytes)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD,
						  IBV_QPT_RAW_PACKET };
	uint8_t head = (uint8_t)fuzz_take(bytes, 1);
	struct rig_attr attr = rig_rc;

	attr.type = types[head & 3];
	attr.rnr_retry = head & 8 ? 2 : 7;
	b->q.qp.srq = head & 4 && attr.type != IBV_QPT_RAW_PACKET ? srq : NULL;
	a->q.qp.service = b->q.qp.service = service_find(attr.type);
	rig_connect(a, &attr, b->q.qp.qpn);
	rig_connect(b, &attr, a->q.qp.qpn);
}

static void cq_anew(struct rig_qp *p, int i)
{
	struct cq *cq = p->cqs[i];

	cq->pi = p->ci[i] = 0;
	cq->overrun = false;
	cqe_init(p->cq[i], RIG_CQ, sizeof(struct mlx5_cqe64));
	p->cqrec[i][0] = p->cqrec[i][1] = 0;
}

static void leave(void)
{
	for (struct rig_qp *p = a; p; p = p == a ? b : NULL) {
		rig_move(p, IBV_QPS_ERR);
		rig_run(&rig);
		must(p->q.req.head == p->q.req.tail && !p->q.rsp.have_rwqe);
		rig_move(p, IBV_QPS_RESET);
		cq_anew(p, 0);
		cq_anew(p, 1);
	}
	shared_record = htobe32(srq->taken);
	shared_posted = srq->taken;
	for (unsigned int i = 0; i < SLOTS; i++)
		put_be16(shared.buf + (size_t)i * SLOT + 2, (uint16_t)((i + 1) % SLOTS));
	srq_switch(srq, &shared, true);
	memset(a->sq, 0, SQ_BYTES);
	memset(b->sq, 0, SQ_BYTES);
}

/* Nobody wrote around the memory that the keys allow. */
static void untouched(const struct rig_qp *p)
{
	for (uint32_t i = 0; i < RIG_MEM; i++) {
		if (i == OPEN_AT)
			i += OPEN;
		must(p->mem[i] == (uint8_t)(GUARD + i * 7 + (i >> 8)));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct fuzz_bytes bytes = { data, len };
	static unsigned int runs;

	if (!a)
		begin();
	connect(&bytes);
	for (unsigned int i = 0; i < STEPS && bytes.left; i++)
		step(&bytes);
	must(c->q.qp.state == IBV_QPS_RTS && d->q.qp.state == IBV_QPS_RTS);
	leave();
	beside(&bytes);
	if (!(runs++ % 64))
		for (unsigned int i = 0; i < rig.n; i++)
			untouched(rig.qp[i]);
	return 0;
}
