// SPDX-License-Identifier: MIT
/* Two connected queue pairs, a and b, and a record of what was sent. */
#pragma once
#include "test.h"
#include "sim/rig.h"
#include "hca/async.h"
#include "hca/srq.h"
#include "wire/aeth.h"
#include "wire/opcode.h"

enum { PAIR_LOG = 256 };

struct pair {
	struct rig rig;
	struct rig_qp *a, *b;
	struct seg log[PAIR_LOG]; /* without payload */
	uint64_t at[PAIR_LOG];
	unsigned int n;
};

static const struct net_config pair_lossy = { .max_seg = 256, .delay = 1000 };
static const struct net_config pair_host = {
	.same_host = true, .max_seg = 4096, .max_ref = 1 << 16, .inline_max = 512, .delay = 100
};

static inline void pair_watch(void *arg, const struct seg *s)
{
	struct pair *p = arg;

	if (p->n < PAIR_LOG) {
		p->at[p->n] = p->rig.net.now;
		p->log[p->n++] = *s;
	}
}

static inline struct pair *pair_open(const struct net_config *cfg, const struct rig_attr *attr)
{
	struct pair *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	rig_open(&p->rig, cfg, 1);
	p->rig.net.watch = pair_watch;
	p->rig.net.watch_arg = p;
	p->a = rig_qp_open(&p->rig, attr, 0x11);
	p->b = rig_qp_open(&p->rig, attr, 0x77);
	rig_connect(p->a, attr, p->b->q.qp.qpn);
	rig_connect(p->b, attr, p->a->q.qp.qpn);
	return p;
}

static inline void pair_close(struct pair *p)
{
	rig_close(&p->rig);
	free(p);
}

/* How many segments with operation @op were sent to @to. */
static inline unsigned int pair_count(const struct pair *p, const struct rig_qp *to, uint8_t op)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < p->n; i++)
		n += p->log[i].dqpn == to->q.qp.qpn && opcode_operation(p->log[i].op) == op;
	return n;
}

static inline struct rig_wr pair_send(const struct rig_qp *p, uint32_t off, uint32_t len)
{
	return (struct rig_wr){
		.op = MLX5_OPCODE_SEND, .nsge = 1, .sge = { rig_sge(p, off, len) }, .signaled = true
	};
}

static inline struct rig_wr pair_remote(const struct pair *p, uint8_t op, uint32_t off,
					uint32_t len)
{
	return (struct rig_wr){ .op = op,
				.nsge = 1,
				.sge = { rig_sge(p->a, off, len) },
				.signaled = true,
				.rkey = p->b->mr->ib.rkey,
				.raddr = RIG_IOVA + 0x8000 };
}

static inline void pair_receive(struct rig_qp *p, uint32_t off, uint32_t len)
{
	struct sge s = rig_sge(p, off, len);

	rig_receive(p, &s, 1);
}

/* The next completion is a success. */
static inline struct cqe pair_good(struct rig_qp *p, bool recv)
{
	struct cqe c = { 0 };

	check(rig_poll(p, recv, &c));
	check_ne(c.opcode, MLX5_CQE_REQ_ERR);
	check_ne(c.opcode, MLX5_CQE_RESP_ERR);
	return c;
}

/* The next completion failed so. */
static inline struct cqe pair_bad(struct rig_qp *p, bool recv, uint8_t syndrome, uint8_t vendor)
{
	struct cqe c = { 0 };

	check(rig_poll(p, recv, &c));
	check_eq(c.opcode, recv ? MLX5_CQE_RESP_ERR : MLX5_CQE_REQ_ERR);
	check_eq(c.syndrome, syndrome);
	check_eq(c.vendor_err, vendor);
	return c;
}

static inline void pair_none(struct rig_qp *p, bool recv)
{
	struct cqe c;

	check(!rig_poll(p, recv, &c));
}

/* The next asynchronous event is @type and names @p's QP. */
static inline void pair_event(struct rig_qp *p, enum ibv_event_type type)
{
	struct ibv_async_event e;

	check_eq(async_pop(p->rig->ctx, &e), 0);
	check_eq(e.event_type, type);
	assert_ptr_equal(e.element.qp, &p->ib);
}

static inline void pair_no_event(struct rig_qp *p)
{
	struct ibv_async_event e;

	check_eq(async_pop(p->rig->ctx, &e), EAGAIN);
}

/* A request to b, made by hand. */
static inline struct seg pair_request(struct pair *p, uint8_t op, uint32_t psn)
{
	return (struct seg){ .op = op,
			     .flags = SEG_ACKREQ | SEG_SQPN,
			     .pkey = 0xffff,
			     .dqpn = p->b->q.qp.qpn,
			     .sqpn = p->a->q.qp.qpn,
			     .psn = psn,
			     .npsn = 1,
			     .rkey = p->b->mr->ib.rkey,
			     .va = RIG_IOVA,
			     .from = &p->b->end.d };
}

static inline void pair_input(struct pair *p, const struct seg *s)
{
	tqp_input(&p->b->q, s, p->rig.net.now);
}

/* An SRQ of two slots on @p, with @n receives of 8 bytes. */
static inline struct srq *pair_srq_open(struct rig_qp *p, uint8_t *ring, uint32_t *rec, uint16_t n)
{
	struct srq_attr attr = { .ring = { ring, 2, 32, rec }, .max_wr = 2, .max_sge = 1 };
	struct srq *srq;

	memset(ring, 0, 64);
	for (uint32_t i = 0; i < 2; i++) {
		struct sge s = rig_sge(p, 0x4000 + i * 0x100, 8);

		put_be16(ring + i * 32 + 2, !i);
		rig_put_sge((struct rig_ds *)(ring + i * 32 + 16), &s);
	}
	*rec = htobe32(n);
	check_eq(srq_create(p->pd, &attr, &srq), 0);
	p->q.qp.srq = srq;
	srq_get(srq);
	return srq;
}

static inline void pair_srq_close(struct rig_qp *p, struct srq *srq)
{
	p->q.qp.srq = NULL;
	srq_put(srq);
	check_eq(srq_destroy(srq), 0);
}
