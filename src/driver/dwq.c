// SPDX-License-Identifier: MIT
#include "driver/dwq.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "driver/data_segment.h"
#include "driver/dcq_ring.h"
#include "driver/ring_memory.h"
#include "engine/doorbell.h"
#include "hca/limits.h"
#include "obs/explain.h"
#include "util/be.h"
#include "util/fork.h"

#define SEG   16
#define FLAGS (IBV_WQ_FLAGS_CVLAN_STRIPPING | IBV_WQ_FLAGS_SCATTER_FCS)

static int check_attr(const struct context *ctx, const struct ibv_wq_init_attr *a)
{
	if (a->wq_type != IBV_WQT_RQ)
		return refuse(EINVAL, "ibv_create_wq: wq_type %d; IBV_WQT_RQ is what there is",
			      (int)a->wq_type);
	if (!a->pd || !a->cq || to_pd(a->pd)->ctx->root != ctx->root)
		return refuse(EINVAL, "ibv_create_wq: %s; give a PD and a CQ of this context",
			      !a->pd   ? "pd is NULL"
			      : !a->cq ? "cq is NULL"
				       : "pd is of another context");
	if (!a->max_wr || a->max_wr > LIMIT_QP_WR)
		return refuse(EINVAL,
			      "ibv_create_wq: max_wr %u is not in 1..%d (max_qp_wr); ask for a "
			      "number in it",
			      a->max_wr, LIMIT_QP_WR);
	if (a->max_sge > LIMIT_SGE)
		return refuse(EINVAL,
			      "ibv_create_wq: max_sge %u exceeds the device's %d; ask for fewer",
			      a->max_sge, LIMIT_SGE);
	if (a->comp_mask & ~(uint32_t)IBV_WQ_INIT_ATTR_FLAGS)
		return refuse(EOPNOTSUPP,
			      "ibv_create_wq: comp_mask 0x%x, known is IBV_WQ_INIT_ATTR_FLAGS; "
			      "leave the rest out",
			      a->comp_mask);
	if ((a->comp_mask & IBV_WQ_INIT_ATTR_FLAGS) && (a->create_flags & ~(uint32_t)FLAGS))
		return refuse(EOPNOTSUPP,
			      "ibv_create_wq: create_flags 0x%x, of which 0x%x do not work on this "
			      "device (raw_packet_caps); leave them out",
			      a->create_flags, a->create_flags & ~(uint32_t)FLAGS);
	return 0;
}

static uint32_t pow2_at_least(uint32_t n)
{
	return n <= 1 ? 1 : 1U << (32 - __builtin_clz(n - 1));
}

/* Segments of a WQE before its list. */
static uint32_t lead_of(const struct dwq *wq)
{
	return wq->strides.size_log ? 1 : 0;
}

static int memory(struct dwq *wq, const struct ibv_wq_init_attr *a)
{
	uint32_t lead = lead_of(wq);
	uint32_t segs = pow2_at_least((a->max_sge ? a->max_sge : 1) + lead);
	struct dqp_rq *rq = &wq->rq;
	size_t bytes;

	rq->cnt = rq->max_wr = pow2_at_least(a->max_wr);
	rq->stride = segs * SEG;
	rq->max_sge = segs - lead < LIMIT_SGE ? segs - lead : LIMIT_SGE;
	bytes = (size_t)rq->cnt * rq->stride;
	rq->wr_id = calloc(rq->cnt, sizeof(*rq->wr_id));
	if (!rq->wr_id ||
	    ring_memory_alloc_in(to_pd(a->pd), MLX5DV_RES_TYPE_RWQ, bytes, &wq->memory))
		return refuse_memory("ibv_create_wq", bytes);
	rq->buf = wq->memory.at;
	return 0;
}

static void dwq_free(struct dwq *wq)
{
	if (wq->uidx)
		objects_del(wq->uidx);
	ring_memory_free(&wq->memory);
	ring_memory_free(&wq->lent_record);
	ring_pages_free(&wq->pages);
	free(wq->rq.wr_id);
	free(wq);
}

static int post_one(struct dwq *wq, const struct ibv_recv_wr *wr)
{
	struct dqp_rq *rq = &wq->rq;
	uint32_t i = rq->head & (rq->cnt - 1), lead = lead_of(wq);

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > rq->max_sge)
		return refuse_work(
			EINVAL, wr->wr_id,
			"ibv_post_wq_recv: num_sge %d, WQ 0x%x was created with max_sge %u; "
			"use fewer, or create it with more",
			wr->num_sge, wq->ib.wq_num, rq->max_sge);
	/* (B) with dwq_complete() */
	if (rq->head - load_acquire(&rq->tail) >= rq->max_wr)
		return refuse_work(
			ENOMEM, wr->wr_id,
			"ibv_post_wq_recv: all %u work requests of WQ 0x%x are posted; poll "
			"completions first",
			rq->max_wr, wq->ib.wq_num);
	rq->wr_id[i] = wr->wr_id;
	data_segment_list(rq->buf + (size_t)i * rq->stride + (size_t)lead * SEG, wr->sg_list,
			  wr->num_sge, rq->stride / SEG - lead);
	rq->head++;
	return 0;
}

static int post_recv(struct ibv_wq *ib, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct dwq *wq = to_dwq(ib);
	int err = 0;

	if (!fork_is_ours(wq->epoch)) {
		*bad = wr;
		return refuse(EIO,
			      "ibv_post_wq_recv: WQ 0x%x was made before fork(); make a new one",
			      ib->wq_num);
	}
	if (load_relaxed(&ib->state) == IBV_WQS_RESET) {
		*bad = wr;
		return refuse(EINVAL,
			      "ibv_post_wq_recv: WQ 0x%x is in RESET; receiving needs RDY "
			      "(ibv_modify_wq)",
			      ib->wq_num);
	}
	spin_lock(&wq->rq.lock);
	for (; wr; wr = wr->next) {
		err = post_one(wq, wr);
		if (err) {
			*bad = wr;
			break;
		}
	}
	/* (C) with rq_take(): WQEs before the count */
	store_fenced(&wq->dbrec[MLX5_RCV_DBR], htobe32(wq->rq.head & 0xffff));
	spin_unlock(&wq->rq.lock);
	wq_doorbell(wq->dev);
	return err;
}

static int device_half(struct dwq *wq, const struct ibv_wq_init_attr *a)
{
	struct wq_attr dev = {
		.cq = to_dcq(a->cq)->dev,
		.rq = { wq->rq.buf, wq->rq.cnt, wq->rq.stride, &wq->dbrec[MLX5_RCV_DBR],
			wq->rq.wr_id },
		.strides = wq->strides,
		.flags = a->comp_mask & IBV_WQ_INIT_ATTR_FLAGS ? a->create_flags : 0,
		.uidx = wq->uidx,
		.user = &wq->ib,
	};

	return wq_create(to_pd(a->pd), &dev, &wq->dev);
}

int dwq_create(struct context *ctx, struct ibv_wq_init_attr *a, const struct stride_form *strides,
	       struct dwq **out)
{
	struct dwq *wq;
	int err = check_attr(ctx, a);

	if (err)
		return err;
	wq = aligned_alloc(64, sizeof(*wq));
	if (!wq)
		return refuse_memory("ibv_create_wq", sizeof(*wq));
	memset(wq, 0, sizeof(*wq));
	wq->epoch = fork_epoch();
	spin_init(&wq->rq.lock);
	if (strides)
		wq->strides = *strides;
	wq->dbrec = wq->record;
	err = ring_memory_record(ctx, to_pd(a->pd), &wq->dbrec, &wq->lent_record);
	err = err ? err : memory(wq, a);
	if (!err)
		err = objects_add(OBJECT_WQ, wq, &wq->uidx);
	if (!err)
		err = device_half(wq, a);
	if (err) {
		dwq_free(wq);
		return err;
	}
	wq->ib.context = &ctx->ib.context;
	wq->ib.pd = a->pd;
	wq->ib.cq = a->cq;
	wq->ib.wq_num = wq->ib.handle = wq->dev->wqn;
	wq->ib.wq_type = a->wq_type;
	wq->ib.state = IBV_WQS_RESET;
	wq->ib.post_recv = post_recv;
	a->max_wr = wq->rq.max_wr;
	a->max_sge = wq->rq.max_sge;
	*out = wq;
	return 0;
}

/* Destroys the device's half, and what it has left on its CQ, which stays until then. */
static int device_half_destroy(struct dwq *wq)
{
	struct cq *cq = wq->dev->cq;
	bool ours = fork_is_ours(wq->epoch);
	int err;

	cq_get(cq);
	err = wq_destroy(wq->dev);
	if (!err && ours) {
		dcq_ring_purge(to_dcq(wq->ib.cq), wq->uidx);
		objects_del(wq->uidx);
		wq->uidx = 0;
		dcq_ring_settle(to_dcq(wq->ib.cq));
	}
	cq_put(cq);
	return err;
}

/* As above, of a WQ with the ring in memory that its parent domain may have made. */
static int destroy(struct dwq *wq)
{
	bool ours = fork_is_ours(wq->epoch), laid_open = ours && unrung_is(&wq->unrung);
	int err;

	if (laid_open)
		unrung_del(&wq->unrung);
	err = device_half_destroy(wq);
	if (err && laid_open)
		unrung_add(&wq->unrung, wq->unrung.look);
	if (err)
		return err;
	if (ours) {
		struct account a = dwq_account(wq);

		account_close(&a, to_context(wq->ib.context), &wq->ib);
	}
	dwq_free(wq);
	return 0;
}

int dwq_destroy(struct dwq *wq)
{
	struct pd *kept = ring_memory_keep(wq->dev->pd);
	int err = destroy(wq);

	ring_memory_release(kept);
	return err;
}

int dwq_modify(struct dwq *wq, struct ibv_wq_attr *attr)
{
	bool reset;
	int err = wq_modify(wq->dev, attr, &reset);

	if (err)
		return err;
	if (attr->attr_mask & IBV_WQ_ATTR_STATE)
		store_relaxed(&wq->ib.state, attr->wq_state);
	if (reset) {
		dcq_ring_purge(to_dcq(wq->ib.cq), wq->uidx);
		spin_lock(&wq->rq.lock);
		wq->rq.head = wq->rq.tail = 0;
		store_relaxed(&wq->dbrec[MLX5_RCV_DBR], 0);
		spin_unlock(&wq->rq.lock);
	}
	return 0;
}

/* Was that the last of a striding WQ's receive? After an error it has no more. */
static bool is_last(const struct dwq *wq, const struct cqe *c)
{
	return c->syndrome ||
	       c->wqe_counter + cqe_strides(c->byte_cnt) == 1U << wq->strides.count_log;
}

uint64_t dwq_complete(struct dwq *wq, const struct mlx5_cqe64 *e, const struct cqe *c)
{
	bool strides = wq->strides.size_log;
	uint16_t idx = strides && !c->syndrome ? cqe_wqe_id(e) : c->wqe_counter;
	uint64_t wr_id = wq->rq.wr_id[idx & (wq->rq.cnt - 1)];

	if (!strides || is_last(wq, c))
		store_release(&wq->rq.tail, wq->rq.tail + 1); /* (B) */
	return wr_id;
}
