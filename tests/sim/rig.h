// SPDX-License-Identifier: MIT
/* A device, queue pairs with their rings, and a virtual clock: what the simulator and the
 * transport's unit tests have in common. WQEs are written and CQEs read here as a program would
 * with mlx5dv. Everything runs in one thread inside one quiesce section; rig_run() passes the
 * time. */
#pragma once
#include <errno.h>
#include <string.h>
#include <stdlib.h>
#include "hca/key_table.h"
#include "hca/mr.h"
#include "hca/mcast.h"
#include "link/copy.h"
#include "sim/net.h"
#include "transport/tqp.h"
#include "util/be.h"
#include "util/fork.h"
#include "util/guard.h"
#include "util/quiesce.h"

enum {
	RIG_SQ = 64, /* blocks */
	RIG_RQ = 32, /* WQEs */
	RIG_CQ = 256, /* entries */
	RIG_STRIDE = 64, /* bytes of a receive WQE: 4 SGEs */
	RIG_MEM = 1 << 18, /* bytes of a side's memory */
	RIG_HOLD = 50000, /* ns that an ACK waits for a reply */
	RIG_CORK = 50000, /* ns that a post waits for the next */
};
#define RIG_IOVA 0x10000000UL /* the address of a side's memory in work requests */

struct rig_qp {
	struct tqp q; /* first */
	struct ibv_qp ib;
	struct net_end end; /* its way to the peer, and its address */
	struct rig *rig;
	uint8_t *sq, *rq, *cq[2]; /* 0: send CQ, 1: receive CQ */
	uint32_t dbrec[2]; /* receive, send */
	uint32_t cqrec[2][2];
	uint32_t ci[2];
	struct cq *cqs[2];
	uint16_t sq_pi, rq_pi;
	uint8_t *mem;
	struct pd *pd;
	struct mr *mr;
	unsigned int ack_later; /* how often the QP asked for it */
	bool ack_queued;
	unsigned int ack_delay; /* how often the QP asked for it */
	uint64_t hold_end; /* TQP_NEVER: none */
	unsigned int cork; /* how often the QP asked for it */
	uint64_t cork_end; /* TQP_NEVER: nothing waits for more posts */
};

struct rig {
	struct hca hca;
	struct context *ctx;
	struct counters counters;
	struct net net;
	struct rig_qp *qp[8];
	unsigned int n;
	uint64_t direct_predicted; /* WRITEs and READs by direct access, in few steps */
};

struct rig_attr {
	enum ibv_qp_type type;
	enum ibv_mtu mtu;
	uint32_t sq_psn, rq_psn;
	uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer, rd_atomic, dest_rd_atomic;
	uint32_t access;
	bool sig_all;
};

static const struct rig_attr rig_rc = {
	.type = IBV_QPT_RC,
	.mtu = IBV_MTU_256,
	.timeout = 8,
	.retry_cnt = 7,
	.rnr_retry = 7,
	.min_rnr_timer = 1,
	.rd_atomic = 4,
	.dest_rd_atomic = 4,
	.sig_all = true,
	.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		  IBV_ACCESS_REMOTE_ATOMIC,
};

struct rig_wr {
	uint8_t op; /* MLX5_OPCODE_* */
	bool signaled, solicited, fence, inl;
	uint8_t lead; /* SGEs from the first on that go inline before the others */
	uint32_t imm;
	uint64_t raddr, swap_add, compare;
	uint32_t rkey;
	unsigned int nsge;
	struct sge sge[4];
	uint32_t dqpn, qkey; /* UD */
	uint32_t srqn; /* XRC */
};

static inline int rig_gid(void *arg, unsigned int index, union ibv_gid *gid, bool *v2,
			  uint32_t *ifi)
{
	(void)arg;
	memset(gid, index < 4 ? 1 : 0, sizeof(*gid));
	*v2 = index & 1;
	*ifi = 1;
	return index < 16 ? 0 : EINVAL;
}

static inline bool rig_active(void *arg)
{
	(void)arg;
	return true;
}

static inline enum ibv_mtu rig_mtu(void *arg)
{
	(void)arg;
	return IBV_MTU_1024;
}

static inline void rig_mac(void *arg, uint8_t mac[6])
{
	(void)arg;
	memset(mac, 2, 6);
}

static inline struct rig_qp *rig_find(struct rig *r, uint32_t qpn)
{
	for (unsigned int i = 0; i < r->n; i++)
		if (r->qp[i]->q.qp.qpn == qpn)
			return r->qp[i];
	return NULL;
}

static inline void rig_deliver(void *arg, uint32_t qpn, struct seg *s, uint64_t now)
{
	struct rig_qp *to = rig_find(arg, qpn);

	s->from = &to->end.d;
	tqp_input(&to->q, s, now);
	tqp_settle(&to->q);
}

/* Does the state of @q let its peer @sqpn reach the memory of this side? */
static inline bool rig_is_open(const struct tqp *q, uint32_t sqpn, uint32_t need)
{
	return (q->qp.state == IBV_QPS_RTR || q->qp.state == IBV_QPS_RTS) &&
	       q->qp.attr.dest_qp_num == sqpn && (q->qp.attr.qp_access_flags & need);
}

/* Direct access between two QPs of the rig: all of it at once. */
static inline int rig_direct(void *arg, struct direct_ask *ask)
{
	struct rig *r = arg;
	const struct requester *req = &rig_find(r, ask->sqpn)->q.req;
	const struct rig_qp *to = rig_find(r, ask->dqpn);
	struct key_ask key = { .key = ask->rkey, .va = ask->va, .len = ask->len };
	struct piece far = { .len = ask->len };
	int err;

	key.need = ask->write ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_READ;
	if (!to || !rig_is_open(&to->q, ask->sqpn, key.need))
		return EAGAIN;
	key.pdn = to->pd->pdn;
	if (key_check(r->hca.keys, &key, &far.addr) != KEY_OK)
		return EAGAIN;
	if (ask->write)
		err = copy_pieces(&far, 1, ask->pieces, ask->npieces, 0);
	else
		err = copy_pieces(ask->pieces, ask->npieces, &far, 1, 0);
	if (err)
		return EAGAIN;
	ask->done = ask->len;
	r->direct_predicted += req->tail == req->cur; /* the general way has an entry by now */
	return 0;
}

static inline void rig_resume(struct waiter *w)
{
	struct tqp *q = container_of(w, struct tqp, waiter);
	struct rig_qp *p = container_of(q, struct rig_qp, q);

	tqp_resume(q, p->rig->net.now);
	tqp_settle(q);
}

static inline void rig_ack_later(struct tqp *q)
{
	struct rig_qp *p = container_of(q, struct rig_qp, q);

	p->ack_later++;
	p->ack_queued = true;
}

static inline bool rig_ack_delay(struct tqp *q)
{
	struct rig_qp *p = container_of(q, struct rig_qp, q);

	p->ack_delay++;
	p->hold_end = p->rig->net.now + RIG_HOLD;
	return true;
}

static inline bool rig_cork(struct tqp *q, uint64_t now)
{
	struct rig_qp *p = container_of(q, struct rig_qp, q);
	struct net *n = &p->rig->net;

	p->cork++;
	if (!rand_chance(&n->rand, n->cfg.cork))
		return false;
	if (p->cork_end == TQP_NEVER)
		p->cork_end = now + RIG_CORK;
	return true;
}

static inline int rig_resolve(struct tqp *q, const struct av *av, uint32_t dqpn, struct dest **out)
{
	struct rig_qp *p = container_of(q, struct rig_qp, q);

	(void)av;
	if (!rig_find(p->rig, dqpn) && dqpn != 0xffffff)
		return EHOSTUNREACH;
	*out = &p->end.d;
	return 0;
}

static const struct tqp_env rig_env = {
	.resolve = rig_resolve,
	.ack_later = rig_ack_later,
	.ack_delay = rig_ack_delay,
	.cork = rig_cork,
};

static inline void rig_open(struct rig *r, const struct net_config *cfg, uint64_t seed)
{
	static const struct hca_ports ports = { rig_gid, rig_active, rig_mtu, rig_mac };

	memset(r, 0, sizeof(*r));
	net_init(&r->net, cfg, seed, rig_deliver, r);
	r->net.direct = rig_direct;
	if (fork_init() || guard_init())
		abort();
	snprintf(r->hca.name, sizeof(r->hca.name), "mlx5_0");
	r->hca.epoch = fork_epoch();
	r->hca.ports = &ports;
	r->hca.counters = &r->counters;
	if (key_table_create(NULL, 64, &r->hca.keys) || mcast_table_create(&r->hca.mcast) ||
	    context_create(&r->hca, NULL, &r->ctx))
		abort();
	quiesce_enter();
}

static inline void *rig_alloc(size_t n)
{
	void *p = aligned_alloc(4096, (n + 4095) & ~4095UL);

	if (!p)
		abort();
	return memset(p, 0, n);
}

static inline void rig_cq_open(struct rig_qp *p, int i)
{
	p->cq[i] = rig_alloc(RIG_CQ * 64);
	cqe_init(p->cq[i], RIG_CQ, 64);
	struct cq_attr a = { .buf = p->cq[i], .cnt = RIG_CQ, .cqe_size = 64, .dbrec = p->cqrec[i] };

	if (cq_create(p->rig->ctx, &a, &p->cqs[i]))
		abort();
}

/* @fill: the first byte of the pattern that its memory starts with. */
static inline struct rig_qp *rig_qp_open(struct rig *r, const struct rig_attr *a, uint8_t fill)
{
	struct rig_qp *p = rig_alloc(sizeof(*p));
	struct mr_attr ma = { .len = RIG_MEM, .iova = RIG_IOVA, .access = a->access };
	struct qp_attr qa = { .service = service_find(a->type), .sq_sig_all = a->sig_all };

	p->rig = r;
	p->sq = rig_alloc(RIG_SQ * WQE_BB);
	p->rq = rig_alloc(RIG_RQ * RIG_STRIDE);
	p->mem = ma.addr = rig_alloc(RIG_MEM);
	for (uint32_t i = 0; i < RIG_MEM; i++)
		p->mem[i] = (uint8_t)(fill + i * 7 + (i >> 8));
	rig_cq_open(p, 0);
	rig_cq_open(p, 1);
	if (pd_create(r->ctx, &p->pd) || mr_create(p->pd, &ma, &p->mr))
		abort();
	qa.scq = p->cqs[0];
	qa.rcq = p->cqs[1];
	qa.sq = (struct sq_ring){ p->sq, RIG_SQ, &p->dbrec[1] };
	qa.rq = (struct rq_ring){ p->rq, RIG_RQ, RIG_STRIDE, &p->dbrec[0] };
	qa.user = &p->ib;
	if (qp_init(&p->q.qp, p->pd, &qa, 0x100 + r->n))
		abort();
	p->q.qp.atomic_writes = p->q.qp.binds = true; /* as the driver says when it writes one */
	p->q.qp.attr.path_mtu = a->mtu;
	p->hold_end = p->cork_end = TQP_NEVER;
	tqp_init(&p->q, &rig_env);
	p->q.waiter.resume = rig_resume;
	net_end_init(&p->end, &r->net, p->q.qp.qpn);
	r->qp[r->n++] = p;
	return p;
}

static inline void rig_move(struct rig_qp *p, enum ibv_qp_state to)
{
	enum ibv_qp_state old = p->q.qp.state;

	p->q.qp.state = to;
	if (to == IBV_QPS_RESET) { /* as ibv_modify_qp() */
		p->q.qp.attr = (struct ibv_qp_attr){ 0 };
		p->sq_pi = p->rq_pi = 0;
		p->dbrec[0] = p->dbrec[1] = 0;
	}
	tqp_moved(&p->q, old, p->rig->net.now);
}

static inline void rig_attributes(struct rig_qp *p, const struct rig_attr *a, uint32_t peer)
{
	p->q.qp.attr = (struct ibv_qp_attr){
		.path_mtu = a->mtu,
		.dest_qp_num = peer,
		.sq_psn = a->sq_psn,
		.rq_psn = a->rq_psn,
		.timeout = a->timeout,
		.retry_cnt = a->retry_cnt,
		.rnr_retry = a->rnr_retry,
		.min_rnr_timer = a->min_rnr_timer,
		.max_rd_atomic = a->rd_atomic,
		.max_dest_rd_atomic = a->dest_rd_atomic,
		.qp_access_flags = a->access,
		.qkey = 0x11111111,
	};
	p->q.dest = a->type == IBV_QPT_UD ? NULL : &p->end.d;
}

/* RESET to RTS; @peer's number must be known. */
static inline void rig_connect(struct rig_qp *p, const struct rig_attr *a, uint32_t peer)
{
	rig_attributes(p, a, peer);
	rig_move(p, IBV_QPS_INIT);
	rig_move(p, IBV_QPS_RTR);
	rig_move(p, IBV_QPS_RTS);
}

static inline void rig_close(struct rig *r)
{
	quiesce_exit();
	for (unsigned int i = 0; i < r->n; i++) {
		struct rig_qp *p = r->qp[i];

		tqp_fini(&p->q);
		net_end_fini(&p->end);
		qp_fini(&p->q.qp);
		if (mr_destroy(p->mr) || cq_destroy(p->cqs[0]) || cq_destroy(p->cqs[1]) ||
		    pd_destroy(p->pd))
			abort();
		free(p->cq[0]);
		free(p->cq[1]);
		free(p->sq);
		free(p->rq);
		free(p->mem);
		free(p);
	}
	context_destroy(r->ctx);
	mcast_table_destroy(r->hca.mcast);
	key_table_destroy(r->hca.keys);
	net_fini(&r->net);
}

static inline struct sge rig_sge(const struct rig_qp *p, uint32_t off, uint32_t len)
{
	return (struct sge){ RIG_IOVA + off, len, p->mr->ib.lkey };
}

struct rig_ds { /* 16 bytes of a WQE */
	uint8_t b[16];
};

static inline void rig_put_sge(struct rig_ds *d, const struct sge *s)
{
	put_be32(d->b, s->len);
	put_be32(d->b + 4, s->key);
	put_be64(d->b + 8, s->addr);
}

/* The first @nsge of its SGEs in one segment. */
static inline unsigned int rig_inline(struct rig_qp *p, struct rig_ds *d, const struct rig_wr *w,
				      unsigned int nsge)
{
	uint8_t *to = d->b + 4;
	uint32_t len = 0;

	for (unsigned int i = 0; i < nsge; i++) {
		memcpy(to + len, p->mem + (w->sge[i].addr - RIG_IOVA), w->sge[i].len);
		len += w->sge[i].len;
	}
	put_be32(d->b, len | 1U << 31);
	return (len + 4 + 15) / 16;
}

/* Segments behind the control segment. */
static inline unsigned int rig_segments(struct rig_qp *p, struct rig_ds *d, const struct rig_wr *w)
{
	unsigned int n = 0;

	if (p->q.qp.service->wqe == WQE_DATAGRAM) {
		put_be32(d[0].b, w->qkey);
		put_be32(d[0].b + 8, w->dqpn | 1U << 31);
		n = 3;
	}
	if (p->q.qp.service->wqe == WQE_ETHERNET)
		n = 1; /* no inline headers, no checksums */
	if (p->q.qp.service->wqe == WQE_XRC)
		put_be32(d[n++].b, w->srqn);
	if (w->op == MLX5_OPCODE_RDMA_WRITE || w->op == MLX5_OPCODE_RDMA_WRITE_IMM ||
	    w->op == MLX5_OPCODE_RDMA_READ || w->op == MLX5_OPCODE_ATOMIC_CS ||
	    w->op == MLX5_OPCODE_ATOMIC_FA || w->op == WQE_OPCODE_ATOMIC_WRITE) {
		put_be64(d[n].b, w->raddr);
		put_be32(d[n++].b + 8, w->rkey);
	}
	if (w->op == MLX5_OPCODE_ATOMIC_CS || w->op == MLX5_OPCODE_ATOMIC_FA) {
		put_be64(d[n].b, w->swap_add);
		put_be64(d[n++].b + 8, w->compare);
	}
	if (w->inl)
		return n + rig_inline(p, &d[n], w, w->nsge);
	if (w->lead)
		n += rig_inline(p, &d[n], w, w->lead);
	for (unsigned int i = w->lead; i < w->nsge; i++)
		rig_put_sge(&d[n++], &w->sge[i]);
	return n;
}

/* Writes a WQE without ringing; returns its first block's number. */
static inline uint16_t rig_write(struct rig_qp *p, const struct rig_wr *w)
{
	struct rig_ds d[64] = { 0 };
	unsigned int n = 1 + rig_segments(p, d + 1, w);
	uint16_t pi = p->sq_pi;

	put_be32(d[0].b, (uint32_t)pi << 8 | w->op);
	put_be32(d[0].b + 4, p->q.qp.qpn << 8 | n);
	d[0].b[11] = (w->signaled ? MLX5_WQE_CTRL_CQ_UPDATE : 0) |
		     (w->solicited ? MLX5_WQE_CTRL_SOLICITED : 0) |
		     (w->fence ? MLX5_WQE_CTRL_FENCE : 0);
	memcpy(d[0].b + 12, &w->imm, 4);
	for (unsigned int i = 0; i < n; i++)
		memcpy(p->sq + (pi * WQE_BB + i * 16) % (RIG_SQ * WQE_BB), &d[i], 16);
	p->sq_pi += (n + 3) / 4;
	p->dbrec[1] = htobe32(p->sq_pi);
	return pi;
}

static inline void rig_ring(struct rig_qp *p)
{
	if (!tqp_doorbell_timeless(&p->q))
		tqp_doorbell(&p->q, p->rig->net.now);
}

static inline uint16_t rig_post(struct rig_qp *p, const struct rig_wr *w)
{
	uint16_t block = rig_write(p, w);

	rig_ring(p);
	return block;
}

static inline void rig_receive(struct rig_qp *p, const struct sge *sge, unsigned int n)
{
	struct rig_ds *d = (struct rig_ds *)(p->rq + (p->rq_pi % RIG_RQ) * RIG_STRIDE);
	struct sge end = { 0, 0, 0x100 };

	for (unsigned int i = 0; i < RIG_STRIDE / 16; i++)
		rig_put_sge(&d[i], i < n ? &sge[i] : &end);
	p->dbrec[0] = htobe32(++p->rq_pi & 0xffff);
	tqp_rq_doorbell(&p->q, p->rig->net.now);
}

/* @recv: of the receive CQ. False: none. */
static inline bool rig_poll(struct rig_qp *p, bool recv, struct cqe *out)
{
	uint32_t *ci = &p->ci[recv];
	struct mlx5_cqe64 *slot = (struct mlx5_cqe64 *)(p->cq[recv] + (*ci % RIG_CQ) * 64);

	if (!cqe_ours(slot, *ci, RIG_CQ))
		return false;
	cqe_read(slot, out);
	p->cqrec[recv][0] = htobe32(++*ci & 0xffffff);
	return true;
}

static inline void rig_acks(struct rig *r)
{
	for (unsigned int i = 0; i < r->n; i++)
		if (r->qp[i]->ack_queued) {
			r->qp[i]->ack_queued = false;
			tqp_flush_ack(&r->qp[i]->q);
		}
}

/* Looks that find nothing to do are not waited for. */
static inline bool rig_is_watched(const struct tqp *q)
{
	return q->req.una != q->req.max_psn &&
	       (q->qp.state == IBV_QPS_RTS || q->qp.state == IBV_QPS_SQD);
}

static inline uint64_t rig_deadline(const struct rig *r)
{
	uint64_t at = TQP_NEVER;

	for (unsigned int i = 0; i < r->n; i++) {
		if (r->qp[i]->q.deadline < at)
			at = r->qp[i]->q.deadline;
		if (rig_is_watched(&r->qp[i]->q) && r->qp[i]->q.watch_at < at)
			at = r->qp[i]->q.watch_at;
		if (r->qp[i]->hold_end < at)
			at = r->qp[i]->hold_end;
		if (r->qp[i]->cork_end < at)
			at = r->qp[i]->cork_end;
	}
	return at;
}

static inline void rig_hold_over(struct rig_qp *p)
{
	if (p->hold_end > p->rig->net.now)
		return;
	p->hold_end = TQP_NEVER;
	tqp_flush_ack(&p->q);
}

static inline void rig_cork_over(struct rig_qp *p)
{
	if (p->cork_end > p->rig->net.now)
		return;
	p->cork_end = TQP_NEVER;
	tqp_uncork(&p->q);
}

/* As the engine: a later turn of a QP whose work was too long for one. False: there is none. */
static inline bool rig_go_on(struct rig *r)
{
	bool any = false;

	for (unsigned int i = 0; i < r->n; i++) {
		if (!r->qp[i]->q.again)
			continue;
		r->qp[i]->q.again = false;
		tqp_resume(&r->qp[i]->q, r->net.now);
		tqp_settle(&r->qp[i]->q);
		any = true;
	}
	return any;
}

/* The next thing that happens, no later than @until: an arrival, or a timer. False: nothing
 * does. */
static inline bool rig_step(struct rig *r, uint64_t until)
{
	uint64_t timer, arrival;

	rig_acks(r);
	if (rig_go_on(r))
		return true;
	timer = rig_deadline(r);
	arrival = net_next(&r->net);
	if ((timer < arrival ? timer : arrival) > until || (timer == arrival && timer == TQP_NEVER))
		return false;
	if (arrival <= timer) {
		net_step(&r->net);
		return true;
	}
	if (timer > r->net.now)
		r->net.now = timer;
	for (unsigned int i = 0; i < r->n; i++) {
		if (r->qp[i]->q.deadline <= r->net.now || r->qp[i]->q.watch_at <= r->net.now)
			tqp_timer(&r->qp[i]->q, r->net.now);
		rig_hold_over(r->qp[i]);
		rig_cork_over(r->qp[i]);
		tqp_settle(&r->qp[i]->q);
	}
	return true;
}

/* Runs until nothing is left to happen. */
static inline void rig_run(struct rig *r)
{
	while (rig_step(r, TQP_NEVER - 1))
		;
}

/* Runs until @until, which it is then. */
static inline void rig_run_until(struct rig *r, uint64_t until)
{
	while (rig_step(r, until))
		;
	r->net.now = until;
}
