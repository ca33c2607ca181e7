// SPDX-License-Identifier: MIT
#include "driver/dsrq.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "driver/data_segment.h"
#include "driver/events.h"
#include "driver/ring_memory.h"
#include "engine/doorbell.h"
#include "hca/limits.h"
#include "obs/explain.h"
#include "util/be.h"
#include "util/fork.h"

static int check_attr(const struct ibv_srq_attr *a)
{
	if (a->max_wr > LIMIT_SRQ_WR)
		return refuse(EINVAL,
			      "ibv_create_srq: max_wr %u exceeds max_srq_wr %d; ask for fewer",
			      a->max_wr, LIMIT_SRQ_WR);
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
	ring_memory_free(srq->buf, (size_t)srq->cnt * srq->stride);
	free(srq->wr_id);
	free(srq);
}

/* Slot i links to i + 1; the last one's link is 0 (UCX asserts it). */
static void link_slots(struct dsrq *srq)
{
	for (uint32_t i = 0; i < srq->cnt; i++)
		put_be16(srq->buf + (size_t)i * srq->stride + 2, i + 1 < srq->cnt ? i + 1 : 0);
	srq->head = 0;
	srq->tail = srq->cnt - 1;
}

static int dsrq_memory(struct dsrq *srq, const struct ibv_srq_attr *a)
{
	uint32_t sge = a->max_sge ? a->max_sge : 1;

	/* one slot stays free: the list of free slots never runs empty */
	srq->cnt = 1U << (32 - __builtin_clz(a->max_wr | 1));
	srq->stride = 32;
	while (srq->stride < 16 + 16 * sge)
		srq->stride *= 2;
	srq->max_wr = srq->cnt - 1;
	srq->max_sge = srq->stride / 16 - 1 < LIMIT_SRQ_SGE ? srq->stride / 16 - 1 : LIMIT_SRQ_SGE;
	srq->wr_id = calloc(srq->cnt, sizeof(*srq->wr_id));
	if (!srq->wr_id || ring_memory_alloc((size_t)srq->cnt * srq->stride, &srq->buf))
		return refuse_memory("ibv_create_srq", (size_t)srq->cnt * srq->stride);
	link_slots(srq);
	return 0;
}

int dsrq_create(struct pd *pd, struct ibv_srq_init_attr *attr, struct dsrq **out)
{
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
	err = dsrq_memory(srq, &attr->attr);
	if (!err)
		err = objects_add(OBJECT_SRQ, srq, &srq->uidx);
	if (err)
		goto fail;
	struct srq_attr dev = {
		.ring = { srq->buf, srq->cnt, srq->stride, srq->dbrec },
		.max_wr = srq->max_wr,
		.max_sge = srq->max_sge,
		.limit = 0,
		.uidx = srq->uidx,
		.user = &srq->ib,
	};
	err = srq_create(pd, &dev, &srq->dev);
	if (err)
		goto fail;
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

int dsrq_destroy(struct dsrq *srq)
{
	int err = srq_destroy(srq->dev);

	if (err)
		return err;
	if (fork_is_ours(srq->epoch))
		events_settle_srq(srq);
	dsrq_free(srq);
	return 0;
}

int dsrq_modify(struct dsrq *srq, const struct ibv_srq_attr *attr, int mask)
{
	if (!fork_is_ours(srq->epoch))
		return refuse(EIO,
			      "ibv_modify_srq: SRQ 0x%x was made before fork(); make a new one",
			      srq->ib.handle);
	if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
		return refuse(EINVAL,
			      "ibv_modify_srq: mask %#x on SRQ 0x%x, known are IBV_SRQ_MAX_WR and "
			      "IBV_SRQ_LIMIT; leave the rest out",
			      mask, srq->ib.handle);
	if (mask & IBV_SRQ_MAX_WR)
		return refuse(EOPNOTSUPP, "ibv_modify_srq: resizing is not built (no SRQ_RESIZE "
					  "capability); create the SRQ as large as needed");
	return mask & IBV_SRQ_LIMIT ? srq_set_limit(srq->dev, attr->srq_limit) : 0;
}

int dsrq_query(struct dsrq *srq, struct ibv_srq_attr *attr)
{
	attr->max_wr = srq->max_wr;
	attr->max_sge = srq->max_sge;
	attr->srq_limit = srq->dev->limit;
	return 0;
}

static int post_one(struct dsrq *srq, const struct ibv_recv_wr *wr)
{
	uint8_t *slot = srq->buf + (size_t)srq->head * srq->stride;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > srq->max_sge)
		return refuse(EINVAL,
			      "ibv_post_srq_recv: num_sge %d, SRQ 0x%x was created with max_sge "
			      "%u; use fewer, or create it with more",
			      wr->num_sge, srq->ib.handle, srq->max_sge);
	if (srq->head == srq->tail)
		return refuse(ENOMEM,
			      "ibv_post_srq_recv: all %u work requests of SRQ 0x%x are posted; "
			      "poll completions first",
			      srq->max_wr, srq->ib.handle);
	srq->wr_id[srq->head] = wr->wr_id;
	data_segment_list(slot + 16, wr->sg_list, wr->num_sge, srq->stride / 16 - 1);
	srq->head = get_be16(slot + 2) & (srq->cnt - 1);
	srq->posted++;
	return 0;
}

int dsrq_post_recv(struct ibv_srq *ib, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct dsrq *srq = to_dsrq(ib);
	int err = 0;

	if (!fork_is_ours(srq->epoch)) {
		*bad = wr;
		return refuse(EIO,
			      "ibv_post_srq_recv: SRQ 0x%x was made before fork(); make a new one",
			      srq->ib.handle);
	}
	spin_lock(&srq->lock);
	for (; wr; wr = wr->next) {
		err = post_one(srq, wr);
		if (err)
			break;
	}
	store_release(&srq->dbrec[0], htobe32(srq->posted)); /* (A) with srq_take() */
	spin_unlock(&srq->lock);
	if (err)
		*bad = wr;
	doorbell_srq(srq->dev);
	return err;
}

uint64_t dsrq_complete(struct dsrq *srq, uint16_t idx)
{
	uint64_t wr_id;

	idx &= srq->cnt - 1;
	spin_lock(&srq->lock);
	wr_id = srq->wr_id[idx];
	put_be16(srq->buf + (size_t)srq->tail * srq->stride + 2, idx);
	srq->tail = idx;
	spin_unlock(&srq->lock);
	return wr_id;
}
