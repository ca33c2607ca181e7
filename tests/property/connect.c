// SPDX-License-Identifier: MIT
/* What a side is made of, and its way to RTS. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "property/side.h"
#include "verbs/peer.h"

enum { SKEW = 0x400000 }; /* PSNs; a requester that far ahead is sent a NAK */

enum {
	RIGHTS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		 IBV_ACCESS_REMOTE_ATOMIC,
	REGION = RIGHTS | IBV_ACCESS_MW_BIND
};

static struct ibv_mr *reg(struct side *s, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(s->pr->pd, s->mem, s->bytes, access);

	if (!mr)
		board_fail("ibv_reg_mr: errno %d", errno);
	return mr;
}

static void open_box(struct side *s, struct box *b)
{
	pthread_mutex_init(&b->lock, NULL);
	b->cq = ibv_create_cq(s->pr->ctx, OPS + RECVS, b, s->channel, 0);
	if (!b->cq)
		board_fail("ibv_create_cq: errno %d", errno);
}

void connect_open(struct side *s)
{
	const struct program *p = s->pr->p;
	bool shared = p->link[s->link].shared_cq[s->s];

	s->bytes = memory_bytes(p);
	s->mem = aligned_alloc(4096, s->bytes);
	s->channel = ibv_create_comp_channel(s->pr->ctx);
	if (!s->mem || !s->channel)
		die("a side");
	memset(s->mem, 0, s->bytes);
	pattern_fill(s->mem + SOURCE_AT, p->max_len, source_pattern(p, s->link, s->s), 0);
	s->mr = reg(s, REGION);
	s->read_only = reg(s, IBV_ACCESS_REMOTE_READ);
	open_box(s, &s->own[0]);
	open_box(s, &s->own[1]);
	s->sbox = &s->own[0];
	s->rbox = shared ? &s->pr->shared : &s->own[p->seed & 1];
	if (p->link[s->link].type == IBV_QPT_XRC_SEND) {
		s->pool = &s->own_pool;
		s->pool->id = pool_id(s);
		pool_open(s->pr, s->pool, s->rbox->cq);
	} else if (p->link[s->link].srq[s->s]) {
		s->pool = &s->pr->pool;
	}
}

static void close_box(struct side *s, struct box *b)
{
	if (b->events)
		ibv_ack_cq_events(b->cq, b->events);
	must_eq(s, ibv_destroy_cq(b->cq), 0);
}

void connect_close(struct side *s)
{
	if (s->qp)
		side_destroy(s);
	if (s->ah)
		must_eq(s, ibv_destroy_ah(s->ah), 0);
	if (s->pool == &s->own_pool)
		pool_close(s->pool);
	close_box(s, &s->own[0]);
	close_box(s, &s->own[1]);
	must_eq(s, ibv_destroy_comp_channel(s->channel), 0);
	window_close(s);
	if (s->fickle)
		must_eq(s, ibv_dereg_mr(s->fickle), 0);
	must_eq(s, ibv_dereg_mr(s->read_only), 0);
	must_eq(s, ibv_dereg_mr(s->mr), 0);
	free(s->mem);
}

/* A send before RTS is refused, a receive in RESET. */
static void refused_early(struct side *s, bool reset)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .wr.ud.ah = s->ah }, *bad;
	struct ibv_recv_wr rwr = { 0 }, *rbad;

	must_eq(s, ibv_post_send(s->qp, &wr, &bad), EINVAL);
	if (reset)
		must_eq(s, ibv_post_recv(s->qp, &rwr, &rbad), EINVAL);
}

void connect_create(struct side *s)
{
	const struct plan *p = s->v.mine;
	bool srq = s->v.l->srq[s->s], xrc = s->v.l->type == IBV_QPT_XRC_SEND;
	struct ibv_qp_init_attr_ex a = { .qp_context = s,
					 .send_cq = s->sbox->cq,
					 .recv_cq = xrc ? NULL : s->rbox->cq,
					 .srq = srq && !xrc ? s->pool->srq : NULL,
					 .cap = p->cap,
					 .qp_type = s->v.l->type,
					 .sq_sig_all = p->sig_all,
					 .comp_mask = IBV_QP_INIT_ATTR_PD,
					 .pd = s->pr->pd };

	if (p->builder) {
		a.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		a.send_ops_flags = builder_ops(a.qp_type);
	}
	s->qp = ibv_create_qp_ex(s->pr->ctx, &a);
	if (!s->qp)
		board_fail("ibv_create_qp_ex: errno %d", errno);
	s->qpx = p->builder ? ibv_qp_to_qp_ex(s->qp) : NULL;
	must(s, !p->builder || s->qpx);
	must(s, a.cap.max_send_wr >= p->cap.max_send_wr &&
			a.cap.max_send_sge >= p->cap.max_send_sge &&
			a.cap.max_inline_data >= p->cap.max_inline_data);
	must(s, srq || (a.cap.max_recv_wr >= p->cap.max_recv_wr &&
			a.cap.max_recv_sge >= p->cap.max_recv_sge));
	s->cap = a.cap;
	atomic_store(&s->qpn, s->qp->qp_num);
	domain_create(s);
}

void connect_init(struct side *s)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = side_qkey(s) };
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	if (reliable(s->v.l))
		a.qp_access_flags = RIGHTS;
	else if (s->v.l->type == IBV_QPT_UC)
		a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	mask |= s->v.l->type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
	if (s->v.l->type == IBV_QPT_RAW_PACKET)
		mask = IBV_QP_STATE | IBV_QP_PORT;
	refused_early(s, true);
	must_eq(s, ibv_modify_qp(s->qp, &a, mask), 0);
	refused_early(s, false);
	domain_init(s);
}

void connect_publish(struct side *s)
{
	struct address *a = &board->seat[s->link][s->s].addr;

	if (!s->fickle)
		s->fickle = reg(s, RIGHTS);
	s->fickle_lkey = s->fickle->lkey;
	s->psn = (uint32_t)mix(s->pr->p->seed, s->ep * 64 + s->link * 2 + s->s) & 0xffffff;
	*a = (struct address){ .qpn = s->qp->qp_num,
			       .psn = s->psn,
			       .va = (uintptr_t)s->mem,
			       .rkey = s->mr->rkey,
			       .read_only_rkey = s->read_only->rkey,
			       .fickle_rkey = s->fickle->rkey };
	memcpy(a->gid, &s->pr->gid, sizeof(a->gid));
	window_alloc(s);
	domain_publish(s);
}

static struct ibv_ah_attr path(const struct side *s)
{
	struct ibv_ah_attr ah = { .is_global = 1, .port_num = 1 };

	memcpy(&ah.grh.dgid, s->peer.gid, sizeof(ah.grh.dgid));
	ah.grh.sgid_index = PEER_GID_INDEX;
	ah.grh.hop_limit = 64;
	return ah;
}

struct ibv_qp_attr connect_rtr(const struct side *s, uint32_t qpn)
{
	bool skewed = s->v.l->ep[s->ep].skewed == 1 + s->s;

	return (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
				     .path_mtu = s->v.l->ep[s->ep].mtu,
				     .dest_qp_num = qpn,
				     .rq_psn = (s->peer.psn - (skewed ? SKEW : 0)) & 0xffffff,
				     .max_dest_rd_atomic = s->v.theirs->rd_atomic,
				     .min_rnr_timer = 1,
				     .ah_attr = path(s) };
}

static void to_rtr(struct side *s)
{
	bool xrc = s->v.l->type == IBV_QPT_XRC_SEND;
	struct ibv_qp_attr a = connect_rtr(s, xrc ? s->peer.target : s->peer.qpn);
	int mask = IBV_QP_STATE;

	if (reliable(s->v.l) || s->v.l->type == IBV_QPT_UC)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (s->v.l->type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	must_eq(s, ibv_modify_qp(s->qp, &a, mask), 0);
}

/* Where timers run, a machine that is busy must not look like a peer that is gone. */
static uint8_t timeout(const struct side *s)
{
	const struct episode *e = &s->v.l->ep[s->ep];

	if (e->endless)
		return 0;
	if (s->pr->p->way != WAY_PLAIN)
		return 15;
	return e->quick ? 8 : 12;
}

static void to_rts(struct side *s)
{
	bool quick = s->v.l->ep[s->ep].quick && s->pr->p->way == WAY_PLAIN;
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS,
				 .sq_psn = s->psn,
				 .timeout = timeout(s),
				 .retry_cnt = quick ? 2 : 7,
				 .rnr_retry = s->v.mine->rnr_retry,
				 .max_rd_atomic = s->v.mine->rd_atomic };
	int mask = IBV_QP_STATE;

	if (s->v.l->type != IBV_QPT_RAW_PACKET)
		mask |= IBV_QP_SQ_PSN;
	if (reliable(s->v.l))
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	must_eq(s, ibv_modify_qp(s->qp, &a, mask), 0);
}

void connect_up(struct side *s)
{
	struct ibv_ah_attr ah;

	s->peer = board->seat[s->link][!s->s].addr;
	domain_up(s);
	to_rtr(s);
	to_rts(s);
	window_bind(s);
	frame_up(s);
	if (s->v.l->type != IBV_QPT_UD)
		return;
	if (s->ah)
		must_eq(s, ibv_destroy_ah(s->ah), 0);
	ah = path(s);
	s->ah = ibv_create_ah(s->pr->pd, &ah);
	must(s, s->ah);
}
