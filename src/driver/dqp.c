// SPDX-License-Identifier: MIT
#include "driver/dqp.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "dc/dc_initiator.h"
#include "dc/dc_target.h"
#include "driver/dcq_ring.h"
#include "driver/dqp_raw.h"
#include "driver/dsrq_ring.h"
#include "driver/ring_memory.h"
#include "driver/wqe_build.h"
#include "hca/limits.h"
#include "obs/explain.h"
#include "util/be.h"
#include "util/fork.h"

#define SEG 16
#define CREATE_FLAGS                                                                               \
	(IBV_QP_CREATE_BLOCK_SELF_MCAST_LB | IBV_QP_CREATE_SCATTER_FCS |                           \
	 IBV_QP_CREATE_CVLAN_STRIPPING)
#define COMP_MASK                                                                                  \
	(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS |   \
	 DQP_RAW_MASK)

/* max_inline_data of the QP that this thread has destroyed last, if that never left RESET and no
 * other was created since; else 0. A program that makes QPs for nothing but to ask for more inline
 * data each time looks for the limit, as libfabric does: the refusal is the answer, no failure. */
static __thread uint32_t tried_inline __attribute__((tls_model("initial-exec")));

static int over(const char *what, uint32_t asked, uint32_t limit)
{
	return refuse(EINVAL, "ibv_create_qp: cap.%s %u exceeds the device's %u; ask for less",
		      what, asked, limit);
}

static int check_cap(const struct ibv_qp_cap *c)
{
	if (c->max_send_wr > LIMIT_QP_WR)
		return over("max_send_wr", c->max_send_wr, LIMIT_QP_WR);
	if (c->max_recv_wr > LIMIT_QP_WR)
		return over("max_recv_wr", c->max_recv_wr, LIMIT_QP_WR);
	if (c->max_send_sge > LIMIT_SGE)
		return over("max_send_sge", c->max_send_sge, LIMIT_SGE);
	if (c->max_recv_sge > LIMIT_SGE)
		return over("max_recv_sge", c->max_recv_sge, LIMIT_SGE);
	if (c->max_inline_data > LIMIT_INLINE && tried_inline && tried_inline < c->max_inline_data)
		return EINVAL;
	if (c->max_inline_data > LIMIT_INLINE)
		return over("max_inline_data", c->max_inline_data, LIMIT_INLINE);
	return 0;
}

/* What is ignored of queues that the QP does not have (ibv_create_qp(3)). */
static void ignore_cap(const struct ibv_qp_init_attr_ex *a, const struct service *s,
		       struct ibv_qp_cap *cap)
{
	if (a->srq || !s->receives)
		cap->max_recv_wr = cap->max_recv_sge = 0;
	if (!s->sends)
		cap->max_send_wr = cap->max_send_sge = cap->max_inline_data = 0;
}

/* @s: the service of a->qp_type, or NULL */
static int check_attr(const struct ibv_qp_init_attr_ex *a, const struct service *s)
{
	struct ibv_qp_cap cap = a->cap;

	if (a->comp_mask & ~(uint32_t)COMP_MASK)
		return refuse(EOPNOTSUPP,
			      "ibv_create_qp_ex: comp_mask 0x%x, of which 0x%x does not work on "
			      "this device; leave it out",
			      a->comp_mask, a->comp_mask & ~(uint32_t)COMP_MASK);
	/* gate: services: a type that says no service, and names another call */
	if (!s && a->qp_type == IBV_QPT_DRIVER)
		return refuse(EOPNOTSUPP, "ibv_create_qp: qp_type IBV_QPT_DRIVER is "
					  "mlx5dv_create_qp()'s; call that one");
	if (!s || (s->home != HOME_PD && s->home != HOME_DRIVER))
		return refuse(EOPNOTSUPP,
			      "ibv_create_qp: qp_type %d is not built; RC, UC, UD, XRC and "
			      "RAW_PACKET are",
			      a->qp_type);
	if ((a->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) &&
	    (a->create_flags & ~(uint32_t)CREATE_FLAGS))
		return refuse(EOPNOTSUPP,
			      "ibv_create_qp_ex: create_flags 0x%x, of which 0x%x do not work on "
			      "this device; leave them out",
			      a->create_flags, a->create_flags & ~(uint32_t)CREATE_FLAGS);
	if (dqp_is_rss(a))
		return 0;
	if ((!a->send_cq && s->sends) || (!a->recv_cq && s->receives))
		return refuse(EINVAL, "ibv_create_qp: %s is NULL; %s QPs need %s",
			      a->send_cq || !s->sends ? "recv_cq" : "send_cq", s->name,
			      s->receives && s->sends ? "both CQs" : "it");
	if (a->srq && !s->srq && s->wqe != WQE_DC) /* perftest gives an initiator its target's */
		return refuse(
			EINVAL,
			"ibv_create_qp: srq is set, and qp_type is %s; only RC and UD take one",
			s->name);
	if (a->srq && to_dsrq(a->srq)->tags && !s->tags)
		return refuse(
			EINVAL,
			"ibv_create_qp: srq 0x%x matches tags, which %s QPs do not (tm_caps); "
			"use a basic one",
			a->srq->handle, s->name);
	if (a->srq && to_dsrq(a->srq)->dev->xrcd)
		return refuse(EINVAL,
			      "ibv_create_qp: SRQ 0x%x is an XRC SRQ; %s QPs take basic ones",
			      a->srq->handle, s->name);
	ignore_cap(a, s, &cap);
	return check_cap(&cap);
}

static uint32_t pow2_at_least(uint32_t n)
{
	return n <= 1 ? n : 1U << (32 - __builtin_clz(n - 1));
}

/* Bytes before the data of the largest WQE: control segment, receiver, remote address or what the
 * device does with a frame, an atomic's operands or a TSO send's headers. An atomic has no inline
 * data; a TSO send has it only if it fits (wqe_build.c). */
static uint32_t fixed_part(const struct dqp *qp, bool inl)
{
	const struct service *s = qp->service;
	bool remote = service_takes(s, IBV_WR_RDMA_WRITE);
	uint32_t segs = 1 + s->address_segs + (remote || s->frames);

	if (!inl && service_takes(s, IBV_WR_ATOMIC_FETCH_AND_ADD))
		segs++;
	if (!inl && s->frames)
		segs += dqp_tso_segs(qp->max_tso_header);
	return segs * SEG;
}

static uint32_t min(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* Sizes the SQ and writes the granted values back. */
static int sq_memory(struct dqp *qp, struct pd *pd, struct ibv_qp_cap *cap)
{
	uint32_t gather = fixed_part(qp, false) + cap->max_send_sge * SEG;
	uint32_t inl = cap->max_inline_data ? fixed_part(qp, true) + 4 + cap->max_inline_data : 0;
	uint32_t blocks = ((gather > inl ? gather : inl) + WQE_BB - 1) / WQE_BB;
	uint32_t room = min(blocks * WQE_BB, WQE_MAX_SEGS * SEG);
	uint32_t header = fixed_part(qp, true) + 4; /* of inline data */
	uint32_t tso = dqp_tso_segs(qp->max_tso_header) * SEG;
	uint64_t need = (uint64_t)cap->max_send_wr * blocks;

	if (gather > room)
		return refuse(EINVAL,
			      "ibv_create_qp: %u SGEs behind TSO headers of %u B are more than a "
			      "work request's %d B; ask for fewer",
			      cap->max_send_sge, qp->max_tso_header, WQE_MAX_SEGS * SEG);
	if (need > LIMIT_QP_WR)
		return refuse(EINVAL,
			      "ibv_create_qp: %u send work requests of %u blocks (%u SGEs, %u "
			      "bytes inline) exceed the queue's %d blocks; ask for fewer",
			      cap->max_send_wr, blocks, cap->max_send_sge, cap->max_inline_data,
			      LIMIT_QP_WR);
	qp->sq.cnt = pow2_at_least(need);
	qp->sq.max_wr = qp->sq.cnt / blocks;
	qp->max_send_sge = min((room - fixed_part(qp, false)) / SEG, LIMIT_SGE);
	qp->max_inline = room > header ? min(room - header, LIMIT_INLINE) : 0;
	header += tso;
	qp->any_inline = (uint16_t)(room > header ? min(room - header, LIMIT_INLINE) : 0);
	if (qp->sq.cnt) {
		size_t bytes = (size_t)qp->sq.cnt * WQE_BB;

		qp->sq.slot = calloc(qp->sq.cnt, sizeof(*qp->sq.slot));
		if (!qp->sq.slot ||
		    ring_memory_alloc_in(pd, MLX5DV_RES_TYPE_QP, bytes, &qp->sq_memory))
			return refuse_memory("ibv_create_qp", bytes);
		qp->sq.buf = qp->sq_memory.at;
	}
	cap->max_send_wr = qp->sq.max_wr;
	cap->max_send_sge = qp->max_send_sge;
	cap->max_inline_data = qp->max_inline;
	return 0;
}

static int rq_memory(struct dqp *qp, struct pd *pd, struct ibv_qp_cap *cap)
{
	uint32_t sge = cap->max_recv_sge ? cap->max_recv_sge : 1;

	qp->rq.cnt = pow2_at_least(cap->max_recv_wr);
	qp->rq.stride = pow2_at_least(sge) * SEG;
	qp->rq.max_wr = qp->rq.cnt;
	qp->rq.max_sge = min(qp->rq.stride / SEG, LIMIT_SGE);
	if (qp->rq.cnt) {
		size_t bytes = (size_t)qp->rq.cnt * qp->rq.stride;

		qp->rq.wr_id = calloc(qp->rq.cnt, sizeof(*qp->rq.wr_id));
		if (!qp->rq.wr_id ||
		    ring_memory_alloc_in(pd, MLX5DV_RES_TYPE_QP, bytes, &qp->rq_memory))
			return refuse_memory("ibv_create_qp", bytes);
		qp->rq.buf = qp->rq_memory.at;
	}
	cap->max_recv_wr = qp->rq.max_wr;
	cap->max_recv_sge = qp->rq.max_sge;
	return 0;
}

static void dqp_free(struct dqp *qp)
{
	if (!qp)
		return;
	if (qp->uidx)
		objects_del(qp->uidx);
	ring_memory_free(&qp->sq_memory);
	ring_memory_free(&qp->rq_memory);
	ring_memory_free(&qp->lent_record);
	ring_pages_free(&qp->pages);
	free(qp->umr);
	free(qp->sq.slot);
	free(qp->rq.wr_id);
	free(qp);
}

static void fill_public(struct dqp *qp, struct pd *pd, const struct ibv_qp_init_attr_ex *a)
{
	struct ibv_qp *ib = &qp->ib.qp_base;

	ib->context = pd->ib.context;
	ib->qp_context = a->qp_context;
	ib->pd = &pd->ib;
	if (!dqp_is_rss(a)) { /* an RSS QP has no CQs, whatever the program has given */
		ib->send_cq = a->send_cq;
		ib->recv_cq = a->recv_cq;
	}
	ib->srq = qp->service->srq ? a->srq : NULL;
	ib->qp_type = a->qp_type;
	ib->state = IBV_QPS_RESET;
	ib->handle = ib->qp_num = qp->dev->qp.qpn;
	pthread_mutex_init(&ib->mutex, NULL);
	pthread_cond_init(&ib->cond, NULL);
}

static int device_half(struct dqp *qp, struct pd *pd, const struct ibv_qp_init_attr_ex *a,
		       const struct dqp_dc *dc)
{
	bool rss = dqp_is_rss(a);
	uint64_t ops = a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS ? a->send_ops_flags : 0;
	struct qp_attr dev = {
		.service = qp->service,
		.scq = rss ? NULL : to_dcq(qp->service->sends ? a->send_cq : a->recv_cq)->dev,
		.rcq = rss || !qp->service->receives ? NULL : to_dcq(a->recv_cq)->dev,
		.srq = a->srq && qp->service->srq ? to_dsrq(a->srq)->dev : NULL,
		.sq = { qp->sq.buf, qp->sq.cnt, &qp->dbrec[MLX5_SND_DBR] },
		.rq = { qp->rq.buf, qp->rq.cnt, qp->rq.stride, &qp->dbrec[MLX5_RCV_DBR],
			qp->rq.wr_id },
		.sq_sig_all = a->sq_sig_all,
		.create_flags = a->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS ? a->create_flags : 0,
		.atomic_writes = ops & IBV_QP_EX_WITH_ATOMIC_WRITE,
		.cap = a->cap,
		.uidx = qp->uidx,
		.sq_ids = { qp->sq.slot, sizeof(*qp->sq.slot), qp->sq.cnt - 1 },
		.user = &qp->ib,
	};

	if (rss)
		dqp_hash(a, &dev.hash);
	if (qp->service->wqe != WQE_DC)
		return qp_life_create(pd, &dev, &qp->dev);
	if (qp->service->sends)
		return dc_initiator_create(pd, &dev, dc->errored, &qp->dev);
	return dc_target_create(pd, &dev, dc->access_key, &qp->dev);
}

/* The environment is read each time, as mlx5's driver does. */
static uint8_t inlines_by_default(const struct dqp *qp)
{
	const char *text = secure_getenv("MLX5_SCATTER_TO_CQE");

	if (!qp->service->inlines || (text && strcmp(text, "0") == 0))
		return 0;
	return QP_INLINES_RECEIVES | (qp->sq_sig_all ? QP_INLINES_ANSWERS : 0);
}

void dqp_inlines(struct dqp *qp, bool allow)
{
	qp->inlines = allow && qp->service->inlines ? QP_INLINES_RECEIVES | QP_INLINES_ANSWERS : 0;
}

void dqp_dv_flags(struct dqp *qp, uint32_t flags)
{
	qp->dev->qp.packet_credits = flags & MLX5DV_QP_CREATE_PACKET_BASED_CREDIT_MODE;
	qp->dev->qp.tunnels = flags & MLX5DV_QP_CREATE_TUNNEL_OFFLOADS;
	qp->dev->qp.deaf =
		(flags & MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_UC ? 0 : QP_DEAF_UNICAST) |
		(flags & MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_MC ? 0 : QP_DEAF_MULTICAST);
}

static int create(struct pd *pd, struct ibv_qp_init_attr_ex *a, const struct service *service,
		  const struct dqp_dc *dc, struct dqp **out)
{
	int err = check_attr(a, service);
	struct ibv_qp_cap cap = a->cap;
	struct dqp *qp;

	if (err)
		return err;
	qp = aligned_alloc(64, sizeof(*qp));
	if (!qp)
		return refuse_memory("ibv_create_qp", sizeof(*qp));
	memset(qp, 0, sizeof(*qp));
	qp->epoch = fork_epoch();
	qp->service = service;
	qp->sq_sig_all = a->sq_sig_all;
	qp->inlines = inlines_by_default(qp);
	spin_init(&qp->sq.lock);
	spin_init(&qp->rq.lock);
	ignore_cap(a, service, &a->cap);
	qp->dbrec = qp->record;
	err = ring_memory_record(pd->ctx, pd, &qp->dbrec, &qp->lent_record);
	err = err ? err : dqp_raw_check(qp, a);
	if (!err && !dqp_is_rss(a)) {
		err = service->sends ? sq_memory(qp, pd, &a->cap) : 0;
		if (!err && !a->srq && qp->service->receives)
			err = rq_memory(qp, pd, &a->cap);
	}
	if (!err && (a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
		err = wr_builder_attach(qp, a->send_ops_flags);
	if (!err)
		err = objects_add(OBJECT_QP, qp, &qp->uidx);
	if (!err)
		err = device_half(qp, pd, a, dc);
	if (err)
		goto fail;
	fill_public(qp, pd, a);
	tried_inline = 0;
	*out = qp;
	return 0;
fail:
	a->cap = cap;
	dqp_free(qp);
	return err;
}

int dqp_create(struct pd *pd, struct ibv_qp_init_attr_ex *a, struct dqp **out)
{
	return create(pd, a, service_find(a->qp_type), NULL, out);
}

int dqp_create_dc(struct pd *pd, struct ibv_qp_init_attr_ex *a, const struct dqp_dc *dc,
		  struct dqp **out)
{
	return create(pd, a, &services[dc->target ? SERVICE_DCT : SERVICE_DCI], dc, out);
}

int dqp_stream_reset(struct dqp *qp, uint16_t id)
{
	if (!fork_is_ours(qp->epoch))
		return refuse(EIO,
			      "mlx5dv_dci_stream_id_reset: QP 0x%x was made before fork(); make "
			      "one in the child",
			      qp->ib.qp_base.qp_num);
	if (qp->service != &services[SERVICE_DCI])
		return refuse(EINVAL,
			      "mlx5dv_dci_stream_id_reset: QP 0x%x (%s) has no streams; a DCI has",
			      qp->ib.qp_base.qp_num, qp->service->name);
	return dc_initiator_stream_reset(qp->dev, id);
}

static void purge(struct dqp *qp)
{
	struct ibv_qp *ib = &qp->ib.qp_base;

	/* Neither: an RSS QP, or an XRC target, whose completions belong to its SRQs. The CQ of a
	 * direction that the service lacks may be gone. */
	if (ib->send_cq && qp->service->sends)
		dcq_ring_purge(to_dcq(ib->send_cq), qp->uidx);
	if (ib->recv_cq && qp->service->receives && ib->recv_cq != ib->send_cq)
		dcq_ring_purge(to_dcq(ib->recv_cq), qp->uidx);
}

/* As purge(), of a QP that is gone: no thread that polls uses it any more. */
static void forget(struct dqp *qp)
{
	struct ibv_qp *ib = &qp->ib.qp_base;

	purge(qp);
	objects_del(qp->uidx);
	qp->uidx = 0;
	if (ib->send_cq && qp->service->sends)
		dcq_ring_settle(to_dcq(ib->send_cq));
	if (ib->recv_cq && qp->service->receives && ib->recv_cq != ib->send_cq)
		dcq_ring_settle(to_dcq(ib->recv_cq));
}

/* Destroys the device's half, and what it has left on its CQs, which stay until then. */
static int device_half_destroy(struct dqp *qp)
{
	struct cq *scq = qp->dev->qp.scq, *rcq = qp->dev->qp.rcq;
	bool ours = fork_is_ours(qp->epoch);
	int err;

	if (scq)
		cq_get(scq);
	if (rcq)
		cq_get(rcq);
	err = qp_life_destroy(qp->dev);
	if (!err && ours)
		forget(qp);
	if (rcq)
		cq_put(rcq);
	if (scq)
		cq_put(scq);
	return err;
}

/* As above, of a QP with the rings in memory that its parent domain may have made. */
static int destroy(struct dqp *qp)
{
	bool ours = fork_is_ours(qp->epoch), laid_open = ours && unrung_is(&qp->unrung);
	int err;

	if (laid_open)
		unrung_del(&qp->unrung);
	err = qp->service->home == HOME_XRCD ? xrc_target_close(qp->dev, &qp->handle)
					     : device_half_destroy(qp);
	if (err && laid_open)
		unrung_add(&qp->unrung, qp->unrung.look);
	if (err)
		return err;
	if (ours) {
		struct account a = dqp_account(qp);

		account_close(&a, to_context(qp->ib.qp_base.context), &qp->ib.qp_base);
	}
	dqp_free(qp);
	return 0;
}

int dqp_destroy(struct dqp *qp)
{
	uint32_t tried = qp->ib.qp_base.state == IBV_QPS_RESET ? qp->max_inline : 0;
	/* A target of XRC has no ring, but the PD of the SRQ it served last, if still there. */
	struct pd *pd = qp->service->home == HOME_XRCD ? NULL : qp->dev->qp.pd;
	struct pd *kept = pd ? ring_memory_keep(pd) : NULL;
	int err = destroy(qp);

	ring_memory_release(kept);
	if (!err)
		tried_inline = tried;
	return err;
}

/* The device's half is in RESET and counts from 0 again; so do the cursors here, and what the last
 * look at the records has seen: no look is under way meanwhile. */
static void rewind_queues(struct dqp *qp)
{
	bool laid_open = unrung_is(&qp->unrung);

	if (laid_open)
		unrung_del(&qp->unrung);
	qp->seen[MLX5_SND_DBR] = qp->seen[MLX5_RCV_DBR] = 0;
	spin_lock(&qp->sq.lock);
	qp->sq.head = qp->sq.tail = qp->sq.pi = 0;
	store_relaxed(&qp->dbrec[MLX5_SND_DBR], 0);
	spin_unlock(&qp->sq.lock);
	spin_lock(&qp->rq.lock);
	qp->rq.head = qp->rq.tail = 0;
	store_relaxed(&qp->dbrec[MLX5_RCV_DBR], 0);
	spin_unlock(&qp->rq.lock);
	if (laid_open)
		unrung_add(&qp->unrung, qp->unrung.look);
}

int dqp_modify(struct dqp *qp, struct ibv_qp_attr *attr, int mask)
{
	int err;

	if (!fork_is_ours(qp->epoch))
		return refuse(EIO, "ibv_modify_qp: QP 0x%x was made before fork(); make a new one",
			      qp->ib.qp_base.qp_num);
	if (wqe_region_mine(qp))
		return refuse(EINVAL,
			      "ibv_modify_qp: this thread is between ibv_wr_start and "
			      "ibv_wr_complete on QP 0x%x; end that first",
			      qp->ib.qp_base.qp_num);
	err = qp_life_modify(qp->dev, attr, mask);
	if (err || !(mask & IBV_QP_STATE))
		return err;
	if (attr->qp_state == IBV_QPS_RESET) {
		purge(qp);
		rewind_queues(qp);
	}
	store_relaxed(&qp->ib.qp_base.state, attr->qp_state);
	return 0;
}

struct cancel {
	struct dqp *qp;
	uint64_t wr_id;
	unsigned int n;
};

static void cancel_from(void *arg, uint16_t block)
{
	struct cancel *c = arg;
	struct dqp_sq *sq = &c->qp->sq;
	struct sq_ring ring = { .buf = sq->buf, .cnt = sq->cnt };
	struct wqe w;

	spin_lock(&sq->lock);
	for (uint16_t left = (uint16_t)(sq->pi - block); left && left <= sq->cnt;) {
		uint32_t at = block & (sq->cnt - 1);

		wqe_peek(&ring, block, &w);
		if (sq->slot[at].wr_id == c->wr_id && w.opcode != MLX5_OPCODE_NOP) {
			put_be32(sq->buf + (size_t)at * WQE_BB,
				 (uint32_t)block << 8 | MLX5_OPCODE_NOP);
			c->n++;
		}
		block += w.nbb;
		left = w.nbb < left ? left - w.nbb : 0;
	}
	spin_unlock(&sq->lock);
}

int dqp_cancel(struct dqp *qp, uint64_t wr_id, unsigned int *n)
{
	static const char call[] = "mlx5dv_qp_cancel_posted_send_wrs";
	struct cancel c = { qp, wr_id, 0 };

	if (!fork_is_ours(qp->epoch))
		return refuse(EIO, "%s: QP 0x%x was made before fork(); make a new one", call,
			      qp->ib.qp_base.qp_num);
	if (wqe_region_mine(qp))
		return refuse(EINVAL,
			      "%s: this thread is between ibv_wr_start and ibv_wr_complete on QP "
			      "0x%x; end that first",
			      call, qp->ib.qp_base.qp_num);
	if (!qp->dev->qp.sig_pipelining || qp_life_stopped(qp->dev, cancel_from, &c))
		return refuse(EINVAL,
			      "%s: QP 0x%x is not drained in SQD, or was created without "
			      "MLX5DV_QP_CREATE_SIG_PIPELINING; wait for IBV_EVENT_SQ_DRAINED",
			      call, qp->ib.qp_base.qp_num);
	*n = c.n;
	return 0;
}

int dqp_udp_sport(struct dqp *qp, uint16_t sport)
{
	if (!fork_is_ours(qp->epoch))
		return refuse(EIO,
			      "mlx5dv_modify_qp_udp_sport: QP 0x%x was made before fork(); make a "
			      "new one",
			      qp->ib.qp_base.qp_num);
	return qp_life_udp_sport(qp->dev, sport);
}

int dqp_rate(struct dqp *qp, const struct ibv_qp_rate_limit_attr *attr)
{
	if (!fork_is_ours(qp->epoch))
		return refuse(
			EIO,
			"ibv_modify_qp_rate_limit: QP 0x%x was made before fork(); make a new "
			"one",
			qp->ib.qp_base.qp_num);
	return qp_life_rate(qp->dev, attr);
}

int dqp_query(struct dqp *qp, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init)
{
	int err = qp_life_query(qp->dev, attr, init);

	if (err)
		return err;
	init->qp_context = qp->ib.qp_base.qp_context;
	init->send_cq = qp->ib.qp_base.send_cq;
	init->recv_cq = qp->ib.qp_base.recv_cq;
	init->srq = qp->ib.qp_base.srq;
	return 0;
}
