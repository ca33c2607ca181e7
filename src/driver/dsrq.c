// SPDX-License-Identifier: MIT
#include "driver/dsrq.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "driver/dcq_ring.h"
#include "driver/dsrq_tags.h"
#include "driver/ring_memory.h"
#include "hca/limits.h"
#include "obs/explain.h"
#include "util/fork.h"
#include "xrc/xrc_srq.h"

static int check_wr(const char *call, uint32_t max_wr)
{
	if (max_wr <= LIMIT_SRQ_WR)
		return 0;
	return refuse(EINVAL, "%s: max_wr %u exceeds max_srq_wr %d; ask for fewer", call, max_wr,
		      LIMIT_SRQ_WR);
}

static int check_attr(const struct ibv_srq_attr *a)
{
	int err = check_wr("ibv_create_srq", a->max_wr);

	if (err)
		return err;
	if (a->max_sge > LIMIT_SRQ_SGE)
		return refuse(EINVAL,
			      "ibv_create_srq: max_sge %u exceeds max_srq_sge %d; ask for fewer",
			      a->max_sge, LIMIT_SRQ_SGE);
	return 0;
}

static void dsrq_free(struct dsrq *srq)
{
	if (!srq)
		return;
	if (srq->uidx)
		objects_del(srq->uidx);
	ring_memory_free(&srq->memory);
	ring_memory_free(&srq->lent_record);
	ring_pages_free(&srq->pages);
	free(srq->wr_id);
	dsrq_tags_free(srq->tags);
	free(srq);
}

static int ring_memory(struct dsrq *srq, struct pd *pd, const struct ibv_srq_attr *a)
{
	uint32_t sge = a->max_sge ? a->max_sge : 1;

	srq->cnt = dsrq_ring_slots(a->max_wr);
	srq->stride = 32;
	while (srq->stride < 16 + 16 * sge)
		srq->stride *= 2;
	srq->max_wr = srq->cnt - 1;
	srq->max_sge = srq->stride / 16 - 1 < LIMIT_SRQ_SGE ? srq->stride / 16 - 1 : LIMIT_SRQ_SGE;
	srq->wr_id = calloc(srq->cnt, sizeof(*srq->wr_id));
	if (!srq->wr_id || ring_memory_alloc_in(pd, MLX5DV_RES_TYPE_SRQ,
						(size_t)srq->cnt * srq->stride, &srq->memory))
		return refuse_memory("ibv_create_srq", (size_t)srq->cnt * srq->stride);
	srq->buf = srq->memory.at;
	dsrq_ring_init(srq);
	return 0;
}

int dsrq_create(struct pd *pd, struct ibv_srq_init_attr_ex *attr, struct dsrq **out)
{
	bool tm = attr->comp_mask & IBV_SRQ_INIT_ATTR_TM;
	struct xrcd *x = attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD ? to_xrcd(attr->xrcd) : NULL;
	int err = check_attr(&attr->attr);
	struct dsrq *srq;

	if (err)
		return err;
	srq = aligned_alloc(64, sizeof(*srq));
	if (!srq)
		return refuse_memory("ibv_create_srq", sizeof(*srq));
	memset(srq, 0, sizeof(*srq));
	srq->epoch = fork_epoch();
	spin_init(&srq->lock);
	srq->dbrec = srq->record;
	err = ring_memory_record(pd->ctx, pd, &srq->dbrec, &srq->lent_record);
	err = err ? err : ring_memory(srq, pd, &attr->attr);
	if (!err && tm)
		err = dsrq_tags_create(&attr->tm_cap, &srq->tags);
	if (!err)
		err = objects_add(OBJECT_SRQ, srq, &srq->uidx);
	if (err)
		goto fail;
	struct srq_attr dev = {
		.ring = { srq->buf, srq->cnt, srq->stride, srq->dbrec, srq->wr_id },
		.max_wr = srq->max_wr,
		.max_sge = srq->max_sge,
		.limit = 0,
		.uidx = srq->uidx,
		.user = &srq->ib,
		.tm_cq = tm ? to_dcq(attr->cq)->dev : NULL,
		.max_num_tags = tm ? attr->tm_cap.max_num_tags : 0,
		.xrcd = x,
		.cq = x ? to_dcq(attr->cq)->dev : NULL,
	};
	err = x ? xrc_srq_create(pd, &dev, &srq->dev) : srq_create(pd, &dev, &srq->dev);
	if (err)
		goto fail;
	srq->cq = tm || x ? attr->cq : NULL;
	attr->attr.max_wr = srq->max_wr;
	attr->attr.max_sge = srq->max_sge;
	srq->ib.context = pd->ib.context;
	srq->ib.srq_context = attr->srq_context;
	srq->ib.pd = &pd->ib;
	srq->ib.handle = srq->dev->srqn;
	pthread_mutex_init(&srq->ib.mutex, NULL);
	pthread_cond_init(&srq->ib.cond, NULL);
	*out = srq;
	return 0;
fail:
	dsrq_free(srq);
	return err;
}

/* Destroys the device's half, and what it has left on its CQ, which stays until then. */
static int device_half_destroy(struct dsrq *srq)
{
	struct dcq *cq = srq->cq ? to_dcq(srq->cq) : NULL;
	bool ours = fork_is_ours(srq->epoch);
	int err;

	if (cq)
		cq_get(cq->dev);
	err = srq->dev->xrcd ? xrc_srq_destroy(srq->dev) : srq_destroy(srq->dev);
	if (!err && ours && cq) {
		dcq_ring_purge(cq, srq->uidx);
		objects_del(srq->uidx);
		srq->uidx = 0;
		dcq_ring_settle(cq);
	}
	if (cq)
		cq_put(cq->dev);
	return err;
}

/* As above, of an SRQ with the ring in memory that its parent domain may have made. */
static int destroy(struct dsrq *srq)
{
	bool ours = fork_is_ours(srq->epoch), laid_open = ours && unrung_is(&srq->unrung);
	int err;

	if (laid_open)
		unrung_del(&srq->unrung);
	err = device_half_destroy(srq);
	if (err && laid_open)
		unrung_add(&srq->unrung, srq->unrung.look);
	if (err)
		return err;
	if (ours) {
		struct account a = dsrq_ring_account(srq);

		account_close(&a, to_context(srq->ib.context), &srq->ib);
	}
	dsrq_free(srq);
	return 0;
}

int dsrq_destroy(struct dsrq *srq)
{
	struct pd *kept = ring_memory_keep(srq->dev->pd);
	int err = destroy(srq);

	ring_memory_release(kept);
	return err;
}

/* --- resizing --- */

static void memory_free(struct dsrq_memory *n)
{
	ring_memory_free(&n->ring);
	free(n->wr_id);
}

static int memory_alloc(struct dsrq_memory *n, struct pd *pd, uint32_t cnt, uint32_t stride)
{
	*n = (struct dsrq_memory){ .cnt = cnt, .wr_id = calloc(cnt, sizeof(*n->wr_id)) };
	if (n->wr_id &&
	    !ring_memory_alloc_in(pd, MLX5DV_RES_TYPE_SRQ, (size_t)cnt * stride, &n->ring))
		return 0;
	memory_free(n);
	return refuse_memory("ibv_modify_srq", (size_t)cnt * stride);
}

/* Puts @n in the ring's place here and in the device; @n is the old ring then. Under the lock. */
static void switch_ring(struct dsrq *srq, struct dsrq_memory *n)
{
	bool anew = dsrq_ring_switch(srq, n);
	struct rq_ring ring = { srq->buf, srq->cnt, srq->stride, srq->dbrec, srq->wr_id };

	srq_switch(srq->dev, &ring, anew);
}

/* A smaller ring takes the old one's place only while no slot is in use; else the old ring stays,
 * and only max_wr is less. Under the lock, since other threads may lay the ring open. */
static int take_size(struct dsrq *srq, struct dsrq_memory *n, uint32_t max_wr)
{
	uint32_t cnt = n->cnt;

	if (srq->opening || srq->told)
		return refuse(EINVAL,
			      "ibv_modify_srq: the program writes the ring of SRQ 0x%x itself "
			      "(mlx5dv_init_obj), which cannot move; make another SRQ",
			      srq->ib.handle);
	if (srq->used > cnt - 1)
		return refuse(EINVAL,
			      "ibv_modify_srq: max_wr %u is below the %u work requests that are "
			      "posted to SRQ 0x%x or not polled yet; poll them first",
			      max_wr, srq->used, srq->ib.handle);
	store_relaxed(&srq->max_wr, cnt - 1); /* dsrq_query() takes no lock */
	srq_set_max_wr(srq->dev, cnt - 1);
	if (cnt > srq->cnt || (cnt < srq->cnt && !srq->used))
		switch_ring(srq, n);
	return 0;
}

static int resize(struct dsrq *srq, uint32_t max_wr)
{
	uint32_t cnt = dsrq_ring_slots(max_wr);
	struct dsrq_memory n;
	int err = memory_alloc(&n, to_pd(srq->ib.pd), cnt, srq->stride);

	if (err)
		return err;
	spin_lock(&srq->lock);
	err = take_size(srq, &n, max_wr);
	spin_unlock(&srq->lock);
	memory_free(&n);
	return err;
}

static int check_modify(struct dsrq *srq, const struct ibv_srq_attr *attr, int mask)
{
	uint32_t limit = mask & IBV_SRQ_LIMIT ? attr->srq_limit : srq_limit(srq->dev);
	uint32_t max_wr = load_relaxed(&srq->max_wr);

	if (mask & IBV_SRQ_MAX_WR) {
		int err = check_wr("ibv_modify_srq", attr->max_wr);

		if (err)
			return err;
		max_wr = dsrq_ring_slots(attr->max_wr) - 1;
	}
	if (limit <= max_wr)
		return 0;
	return refuse(EINVAL,
		      "ibv_modify_srq: srq_limit %u is above max_wr %u of SRQ 0x%x; ask for less",
		      limit, max_wr, srq->ib.handle);
}

int dsrq_modify(struct dsrq *srq, const struct ibv_srq_attr *attr, int mask)
{
	int err;

	if (!fork_is_ours(srq->epoch))
		return refuse(EIO,
			      "ibv_modify_srq: SRQ 0x%x was made before fork(); make a new one",
			      srq->ib.handle);
	if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
		return refuse(EINVAL,
			      "ibv_modify_srq: mask %#x on SRQ 0x%x, known are IBV_SRQ_MAX_WR and "
			      "IBV_SRQ_LIMIT; leave the rest out",
			      mask, srq->ib.handle);
	err = check_modify(srq, attr, mask);
	if (!err && (mask & IBV_SRQ_MAX_WR))
		err = resize(srq, attr->max_wr);
	if (!err && (mask & IBV_SRQ_LIMIT))
		err = srq_set_limit(srq->dev, attr->srq_limit);
	return err;
}

int dsrq_query(struct dsrq *srq, struct ibv_srq_attr *attr)
{
	attr->max_wr = load_relaxed(&srq->max_wr);
	attr->max_sge = srq->max_sge;
	attr->srq_limit = srq_limit(srq->dev);
	return 0;
}
