// SPDX-License-Identifier: MIT
/* A QP on a tag-matching SRQ and what its peer sends it: headers of any content, in one packet or
 * several, while tagged buffers come and go; and the answers to the READs by which the device
 * fetches a rendezvous. Only posted buffers are written, each is completed at most once, and what
 * the QP asks its peer for is a part of the buffer that the rendezvous has taken. The input is a
 * script of both sides' doings. */
#include <infiniband/tm_types.h>
#include "fuzz.h"
#include "hca/srq_tags.h"
#include "sim/rig.h"
#include "transport/inner.h"
#include "wire/aeth.h"
#include "wire/opcode.h"

enum { MTU = 256, STEPS = 64, SLOTS = 16, TAGS = 8, STRIDE = 32, BUFFER = 1024, GUARD = 0x11 };
enum { OPEN_AT = 0x8000, OPEN = (SLOTS + TAGS) * BUFFER, HEAD = 32 };

const struct fuzz_target fuzz_target = { "tag", 1024, 60000 };

static struct rig rig;
static struct rig_qp *qp;
static struct mr *open_mr; /* the buffers: [OPEN_AT, OPEN_AT + OPEN) */
static struct srq *srq;
static struct rq_ring ring;
static uint32_t dbrec;
static uint16_t posted; /* ordinary receives, since the ring was made anew */
static unsigned int owed; /* messages that may complete: receives and tagged buffers posted */

static void begin(void)
{
	static const struct net_config cfg = { .max_seg = MTU, .delay = 1000 };
	struct mr_attr a = { .len = OPEN, .iova = RIG_IOVA + OPEN_AT };
	struct srq_attr sa = { .max_wr = SLOTS, .max_sge = 1, .max_num_tags = TAGS };
	struct rig_attr attr = rig_rc;

	attr.access = IBV_ACCESS_LOCAL_WRITE;
	rig_open(&rig, &cfg, 1);
	rig.net.cut = true;
	qp = rig_qp_open(&rig, &attr, GUARD);
	a.addr = qp->mem + OPEN_AT;
	a.access = rig_rc.access;
	ring = (struct rq_ring){ rig_alloc(SLOTS * STRIDE), SLOTS, STRIDE, &dbrec };
	sa.ring = ring;
	sa.tm_cq = qp->cqs[1];
	if (mr_create(qp->pd, &a, &open_mr) || srq_create(qp->pd, &sa, &srq))
		abort();
	qp->q.qp.srq = srq;
}

static struct sge buffer(unsigned int i, uint32_t len)
{
	return (struct sge){ RIG_IOVA + OPEN_AT + i * BUFFER, len, open_mr->ib.lkey };
}

static void poll_all(void)
{
	struct cqe c;

	while (rig_poll(qp, false, &c))
		;
	while (rig_poll(qp, true, &c)) {
		must(c.app_op != TAG_CQE_CONSUMED || c.app_info < TAGS);
		if (c.app_op == TAG_CQE_EXPECTED || c.app_op == TAG_CQE_ADD ||
		    c.app_op == TAG_CQE_DEL || c.app_op == TAG_CQE_SYNC)
			continue;
		must(owed);
		owed--;
	}
}

static void receive(struct fuzz_bytes *b)
{
	struct sge s = buffer(posted % SLOTS, (uint32_t)fuzz_take(b, 2) % (BUFFER + 1));
	struct rig_ds *d = (struct rig_ds *)(ring.buf + (size_t)(posted % SLOTS) * STRIDE);

	if (posted == SLOTS)
		return;
	put_be16(d->b + 2, (uint16_t)((posted + 1) % SLOTS));
	rig_put_sge(&d[1], &s);
	owed++;
	posted++;
	dbrec = htobe32((be32toh(dbrec) + 1) & 0xffff);
	tqp_rq_doorbell(&qp->q, rig.net.now);
}

/* Small numbers, so that some match. */
static void change_tags(struct fuzz_bytes *b)
{
	uint8_t what = (uint8_t)fuzz_take(b, 1);
	struct tag_ask ask = { .op = what % 3, .slot = what >> 2 & (TAGS - 1), .nsge = 1 };
	const struct tag_entry *e = &srq->tags->e[ask.slot];

	ask.sync = what & 0x80;
	ask.signaled = what & 0x40;
	ask.count = ask.sync ? srq->tags->unexpected : (uint16_t)fuzz_take(b, 1);
	ask.tag = fuzz_take(b, 1) & 3;
	ask.mask = fuzz_take(b, 1) & 1 ? UINT64_MAX : 0;
	ask.sge[0] = buffer(SLOTS + ask.slot, (uint32_t)fuzz_take(b, 2) % (BUFFER + 1));
	if (ask.op == TAG_ADD && e->listed)
		return; /* as the driver */
	owed += ask.op == TAG_ADD;
	srq_tags_do(srq, &ask);
}

static void put_headers(struct fuzz_bytes *b, uint8_t *head)
{
	uint8_t how = (uint8_t)fuzz_take(b, 1);

	memset(head, 0, HEAD);
	head[0] = how & 3;
	put_be64(head + offsetof(struct ibv_tmh, tag), how >> 2 & 3);
	if (how & 16)
		put_be64(head + offsetof(struct ibv_tmh, tag), fuzz_take(b, 8));
	put_be64(head + 16, fuzz_take(b, 8));
	put_be32(head + 24, (uint32_t)fuzz_take(b, 4));
	put_be32(head + 28, (uint32_t)fuzz_take(b, how & 32 ? 4 : 2));
}

static void send(struct fuzz_bytes *b)
{
	static const uint8_t ops[] = { OP_SEND_ONLY,	 OP_SEND_FIRST,	   OP_SEND_MIDDLE,
				       OP_SEND_LAST,	 OP_SEND_ONLY_IMM, OP_SEND_LAST_IMM,
				       OP_SEND_ONLY_INV, OP_SEND_ONLY };
	uint8_t what = (uint8_t)fuzz_take(b, 1), bytes[MTU];
	struct seg s = { .op = ops[what & 7], .pkey = 0xffff, .npsn = 1, .data = bytes };
	const uint8_t *run;
	size_t n;

	put_headers(b, bytes);
	n = fuzz_take_run(b, fuzz_take(b, 1), &run);
	n = n > MTU - HEAD ? MTU - HEAD : n;
	memcpy(bytes + HEAD, run, n);
	s.len = (uint32_t)(what & 8 ? n : n + HEAD);
	if (what & 16) /* as FIRST and MIDDLE have to be */
		s.len = MTU, memset(bytes + HEAD + n, 0, MTU - HEAD - n);
	s.dqpn = qp->q.qp.qpn;
	s.from = &qp->end.d;
	s.psn = what & 0x80 ? psn_add(qp->q.rsp.epsn, (uint32_t)-1) : qp->q.rsp.epsn;
	s.flags = what & 0x40 ? SEG_ACKREQ : 0;
	s.imm = open_mr->ib.rkey + 1; /* a key that is none */
	tqp_input(&qp->q, &s, rig.net.now);
}

/* What comes of a READ that the rendezvous has sent. */
static void answer(struct fuzz_bytes *b)
{
	static const uint8_t ops[] = { OP_READ_RESP_ONLY, OP_READ_RESP_FIRST, OP_READ_RESP_MIDDLE,
				       OP_READ_RESP_LAST, OP_ACKNOWLEDGE,     OP_ACKNOWLEDGE };
	uint8_t what = (uint8_t)fuzz_take(b, 1);
	static uint8_t bytes[MTU];
	struct seg s = { .op = ops[what % 6],
			 .pkey = 0xffff,
			 .npsn = 1,
			 .dqpn = qp->q.qp.qpn,
			 .data = bytes,
			 .psn = qp->q.req.una };

	s.from = &qp->end.d;
	s.syndrome = (uint8_t)fuzz_take(b, 1);
	s.len = what % 6 < 4 ? (uint32_t)fuzz_take(b, 2) % (MTU + 1) : 0;
	s.psn = psn_add(s.psn, what >> 4);
	tqp_input(&qp->q, &s, rig.net.now);
}

/* Each READ of the queue lands within a tagged buffer. */
static void reads_fit(void)
{
	const struct inner_queue *in = qp->q.req.inner;

	for (uint32_t i = in ? in->done : 0; in && i != in->tail; i++) {
		const struct inner *e = &in->e[i % INNER_MAX];
		uint64_t at = e->sge.addr - buffer(SLOTS, 0).addr;

		if (e->opcode != MLX5_OPCODE_RDMA_READ || !e->len)
			continue;
		must(at < TAGS * BUFFER && e->len <= BUFFER - at % BUFFER && e->sge.len == e->len);
	}
}

static void step(struct fuzz_bytes *b)
{
	static void (*const doings[])(struct fuzz_bytes *) = { receive, change_tags, send,
							       send,	change_tags, answer };

	doings[fuzz_take(b, 1) % 6](b);
	tqp_settle(&qp->q);
	poll_all();
	reads_fit();
}

/* The list is empty again, and all that the program does not know is told. */
static void leave(void)
{
	struct tag_ask ask = { .op = TAG_SYNC, .sync = true };

	rig_move(qp, IBV_QPS_ERR);
	rig_run(&rig);
	for (ask.slot = 0; ask.slot < TAGS; ask.slot++) {
		ask.count = srq->tags->unexpected;
		ask.op = TAG_DEL;
		srq_tags_do(srq, &ask);
	}
	poll_all();
	rig_move(qp, IBV_QPS_RESET);
	must(qp->q.req.inner == NULL || qp->q.req.inner->done == qp->q.req.inner->tail);
	dbrec = htobe32(srq->taken); /* the others are not posted */
	posted = 0;
	owed = 0;
	srq_switch(srq, &ring, true);
}

static void untouched(void)
{
	for (uint32_t i = 0; i < RIG_MEM; i++) {
		if (i == OPEN_AT)
			i += OPEN;
		must(qp->mem[i] == (uint8_t)(GUARD + i * 7 + (i >> 8)));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct fuzz_bytes b = { data, len };
	static unsigned int runs;

	if (!qp)
		begin();
	rig_connect(qp, &rig_rc, 0x999);
	for (unsigned int i = 0; i < STEPS && b.left; i++)
		step(&b);
	leave();
	if (!(runs++ % 64))
		untouched();
	return 0;
}
