// SPDX-License-Identifier: MIT
#include "driver/dsrq_ring.h"
#include <errno.h>
#include <string.h>
#include "driver/data_segment.h"
#include "engine/doorbell.h"
#include "obs/explain.h"
#include "util/be.h"
#include "util/fork.h"

/* Slots from @first on link to their neighbours; the last one's link is 0, which UCX asserts. */
static void link_slots(uint8_t *buf, uint32_t first, uint32_t cnt, uint32_t stride)
{
	for (uint32_t i = first; i < cnt; i++)
		put_be16(buf + (size_t)i * stride + 2, i + 1 < cnt ? i + 1 : 0);
}

void dsrq_ring_init(struct dsrq *srq)
{
	link_slots(srq->buf, 0, srq->cnt, srq->stride);
	srq->head = 0;
	srq->tail = srq->cnt - 1;
}

/* All slots keep their numbers, since unread completions name them; the new slots join the free
 * list at its end. Under the lock. */
static void grow(struct dsrq *srq, struct dsrq_memory *n)
{
	memcpy(n->ring.at, srq->buf, (size_t)srq->cnt * srq->stride);
	memcpy(n->wr_id, srq->wr_id, srq->cnt * sizeof(*n->wr_id));
	link_slots(n->ring.at, srq->cnt, n->cnt, srq->stride);
	put_be16(n->ring.at + (size_t)srq->tail * srq->stride + 2, (uint16_t)srq->cnt);
	srq->tail = n->cnt - 1;
}

bool dsrq_ring_switch(struct dsrq *srq, struct dsrq_memory *n)
{
	struct dsrq_memory old = { srq->memory, srq->wr_id, srq->cnt };
	bool larger = n->cnt > srq->cnt;

	if (larger)
		grow(srq, n);
	srq->memory = n->ring;
	srq->buf = n->ring.at;
	srq->wr_id = n->wr_id;
	srq->cnt = n->cnt;
	if (!larger)
		dsrq_ring_init(srq);
	*n = old;
	return !larger;
}

static int post_one(struct dsrq *srq, const struct ibv_recv_wr *wr)
{
	uint8_t *slot = srq->buf + (size_t)srq->head * srq->stride;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > srq->max_sge)
		return refuse_work(
			EINVAL, wr->wr_id,
			"ibv_post_srq_recv: num_sge %d, SRQ 0x%x was created with max_sge "
			"%u; use fewer, or create it with more",
			wr->num_sge, srq->ib.handle, srq->max_sge);
	if (srq->used >= srq->max_wr)
		return refuse_work(
			ENOMEM, wr->wr_id,
			"ibv_post_srq_recv: all %u work requests of SRQ 0x%x are posted; "
			"poll completions first",
			srq->max_wr, srq->ib.handle);
	srq->wr_id[srq->head] = wr->wr_id;
	data_segment_list(slot + 16, wr->sg_list, wr->num_sge, srq->stride / 16 - 1);
	srq->head = get_be16(slot + 2) & (srq->cnt - 1);
	srq->posted++;
	srq->used++;
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

uint64_t dsrq_ring_complete(struct dsrq *srq, uint16_t idx)
{
	uint64_t wr_id;

	spin_lock(&srq->lock);
	idx &= srq->cnt - 1;
	wr_id = srq->wr_id[idx];
	put_be16(srq->buf + (size_t)srq->tail * srq->stride + 2, idx);
	srq->tail = idx;
	srq->used--;
	spin_unlock(&srq->lock);
	return wr_id;
}
