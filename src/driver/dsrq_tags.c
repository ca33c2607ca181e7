// SPDX-License-Identifier: MIT
#include "driver/dsrq_tags.h"
#include <errno.h>
#include <stdlib.h>
#include "hca/limits.h"
#include "hca/srq_tags.h"
#include "obs/explain.h"
#include "util/fork.h"

#define SYNC_EARLY 0x3fff /* unexpected messages after which a completion asks for a sync */

static int check_cap(const struct ibv_tm_cap *cap)
{
	if (!cap->max_num_tags || cap->max_num_tags > LIMIT_TM_TAGS)
		return refuse(EINVAL,
			      "ibv_create_srq_ex: tm_cap.max_num_tags %u is not in 1..%d "
			      "(tm_caps.max_num_tags); ask for a number in it",
			      cap->max_num_tags, LIMIT_TM_TAGS);
	if (!cap->max_ops || cap->max_ops > LIMIT_TM_OPS)
		return refuse(EINVAL,
			      "ibv_create_srq_ex: tm_cap.max_ops %u is not in 1..%d "
			      "(tm_caps.max_ops); ask for a number in it",
			      cap->max_ops, LIMIT_TM_OPS);
	return 0;
}

int dsrq_tags_create(const struct ibv_tm_cap *cap, struct dsrq_tags **out)
{
	int err = check_cap(cap);
	struct dsrq_tags *t;

	if (err)
		return err;
	t = calloc(1, sizeof(*t) + cap->max_num_tags * sizeof(t->tag[0]));
	if (!t)
		return refuse_memory("ibv_create_srq_ex", cap->max_num_tags * sizeof(t->tag[0]));
	t->n = cap->max_num_tags;
	t->max_ops = cap->max_ops;
	t->op_mask = 1;
	while (t->op_mask < cap->max_ops)
		t->op_mask *= 2;
	t->op = calloc(t->op_mask--, sizeof(*t->op));
	for (uint32_t i = 0; i < t->n; i++)
		t->tag[i].next = (uint16_t)(i + 1);
	*out = t;
	if (t->op)
		return 0;
	dsrq_tags_free(t);
	return refuse_memory("ibv_create_srq_ex", cap->max_ops * sizeof(*t->op));
}

void dsrq_tags_free(struct dsrq_tags *t)
{
	if (t)
		free(t->op);
	free(t);
}

/* Under the lock. */
static void give_slot(struct dsrq_tags *t, uint16_t slot)
{
	t->tag[slot].used = false;
	t->tag[slot].next = t->free;
	t->free = slot;
}

/* --- operations, all under the lock --- */

static int check_add(const struct dsrq *srq, const struct ibv_ops_wr *wr)
{
	if (wr->tm.add.num_sge < 0 || wr->tm.add.num_sge > TAG_SGES)
		return refuse_work(EINVAL, wr->wr_id,
				   "ibv_post_srq_ops: num_sge %d, a tagged buffer has at most %d "
				   "(tm_caps.max_sge); use fewer",
				   wr->tm.add.num_sge, TAG_SGES);
	if (srq->tags->free == srq->tags->n)
		return refuse_work(ENOMEM, wr->wr_id,
				   "ibv_post_srq_ops: all %u tags of SRQ 0x%x are in use; poll "
				   "completions or delete some first",
				   srq->tags->n, srq->ib.handle);
	return 0;
}

static int check_del(const struct dsrq *srq, const struct ibv_ops_wr *wr)
{
	uint32_t slot = wr->tm.handle;

	if (slot < srq->tags->n && srq->tags->tag[slot].used)
		return 0;
	return refuse_work(
		EINVAL, wr->wr_id,
		"ibv_post_srq_ops: handle %u is none that IBV_WR_TAG_ADD gave for SRQ 0x%x, or "
		"its completion was polled; delete tags that are listed",
		slot, srq->ib.handle);
}

static int check(const struct dsrq *srq, const struct ibv_ops_wr *wr)
{
	if (wr->flags & ~(IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC))
		return refuse_work(EINVAL, wr->wr_id,
				   "ibv_post_srq_ops: flags %#x, known are %#x; leave the rest out",
				   wr->flags, IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC);
	if ((wr->flags & IBV_OPS_SIGNALED) && srq->tags->ops >= srq->tags->max_ops)
		return refuse_work(
			ENOMEM, wr->wr_id,
			"ibv_post_srq_ops: all %u operations of SRQ 0x%x are outstanding; "
			"poll completions first",
			srq->tags->max_ops, srq->ib.handle);
	switch (wr->opcode) {
	case IBV_WR_TAG_ADD:
		return check_add(srq, wr);
	case IBV_WR_TAG_DEL:
		return check_del(srq, wr);
	case IBV_WR_TAG_SYNC:
		return 0;
	}
	return refuse_work(
		EINVAL, wr->wr_id,
		"ibv_post_srq_ops: opcode %d is none of ADD, DEL and SYNC; use one of these",
		wr->opcode);
}

static void fill_add(struct dsrq_tags *t, struct ibv_ops_wr *wr, struct tag_ask *ask)
{
	struct dsrq_tag *tag = &t->tag[t->free];

	ask->op = TAG_ADD;
	ask->slot = t->free;
	ask->tag = wr->tm.add.tag;
	ask->mask = wr->tm.add.mask;
	ask->nsge = (uint8_t)wr->tm.add.num_sge;
	for (int i = 0; i < wr->tm.add.num_sge; i++)
		ask->sge[i] =
			(struct sge){ wr->tm.add.sg_list[i].addr, wr->tm.add.sg_list[i].length,
				      wr->tm.add.sg_list[i].lkey };
	wr->tm.handle = t->free;
	t->free = tag->next;
	tag->used = true;
	tag->wr_id = wr->tm.add.recv_wr_id;
}

static int post_op(struct dsrq *srq, struct ibv_ops_wr *wr)
{
	struct dsrq_tags *t = srq->tags;
	int err = check(srq, wr);
	struct tag_ask ask = { .op = wr->opcode == IBV_WR_TAG_DEL ? TAG_DEL : TAG_SYNC,
			       .slot = (uint16_t)wr->tm.handle,
			       .signaled = wr->flags & IBV_OPS_SIGNALED,
			       .sync = wr->flags & IBV_OPS_TM_SYNC,
			       .count = (uint16_t)wr->tm.unexpected_cnt };

	if (err)
		return err;
	if (wr->opcode == IBV_WR_TAG_SYNC)
		ask.sync = true;
	if (ask.sync)
		t->count = ask.count;
	if (wr->opcode == IBV_WR_TAG_ADD)
		fill_add(t, wr, &ask);
	if (ask.signaled) {
		t->ops++;
		ask.op_index = (uint16_t)t->op_next++;
		t->op[ask.op_index & t->op_mask] = (struct dsrq_op){ wr->wr_id, t->count };
	}
	if (srq_tags_do(srq->dev, &ask) && ask.op == TAG_DEL)
		give_slot(t, ask.slot);
	return 0;
}

int dsrq_post_ops(struct ibv_srq *ib, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad)
{
	struct dsrq *srq = to_dsrq(ib);
	int err = 0;

	if (!srq->tags)
		err = refuse(EINVAL,
			     "ibv_post_srq_ops: SRQ 0x%x matches no tags; create one of type "
			     "IBV_SRQT_TM",
			     ib->handle);
	else if (!fork_is_ours(srq->epoch))
		err = refuse(EIO,
			     "ibv_post_srq_ops: SRQ 0x%x was made before fork(); make a new one",
			     ib->handle);
	if (!err) {
		spin_lock(&srq->lock);
		for (; wr && !err; wr = err ? wr : wr->next)
			err = post_op(srq, wr);
		spin_unlock(&srq->lock);
	}
	if (err)
		*bad = wr;
	return err;
}

/* --- completions --- */

static bool message_done(struct dsrq *srq, const struct cqe *c, struct dsrq_done *out)
{
	struct dsrq_tags *t = srq->tags;

	out->op = c->app_op == TAG_CQE_NO_TAG ? IBV_WC_TM_NO_TAG : IBV_WC_TM_RECV;
	out->wr_id = dsrq_ring_complete(srq, c->app_info);
	if (c->app_op == TAG_CQE_UNEXPECTED && (uint16_t)(++t->seen - t->count) > SYNC_EARLY)
		out->flags |= IBV_WC_TM_SYNC_REQ;
	return true;
}

static bool match_done(struct dsrq *srq, const struct cqe *c, struct dsrq_done *out)
{
	struct dsrq_tags *t = srq->tags;
	bool used;

	out->op = IBV_WC_TM_RECV;
	if (c->app_op != TAG_CQE_EXPECTED)
		out->flags |= IBV_WC_TM_MATCH;
	if (c->app_op != TAG_CQE_CONSUMED)
		out->flags |= IBV_WC_TM_DATA_VALID;
	if (c->app_op == TAG_CQE_SOFTWARE)
		out->status = IBV_WC_TM_RNDV_INCOMPLETE;
	if (c->app_info >= t->n)
		return false;
	spin_lock(&srq->lock);
	used = t->tag[c->app_info].used;
	out->wr_id = t->tag[c->app_info].wr_id;
	if (used && (c->app_op != TAG_CQE_CONSUMED || c->syndrome))
		give_slot(t, c->app_info);
	spin_unlock(&srq->lock);
	return used;
}

static bool op_done(struct dsrq *srq, const struct cqe *c, struct dsrq_done *out)
{
	static const uint8_t ops[] = { [TAG_CQE_ADD] = IBV_WC_TM_ADD,
				       [TAG_CQE_DEL] = IBV_WC_TM_DEL,
				       [TAG_CQE_SYNC] = IBV_WC_TM_SYNC };
	struct dsrq_tags *t = srq->tags;
	const struct dsrq_op *op = &t->op[c->wqe_counter & t->op_mask];

	if (c->app_op < TAG_CQE_ADD || c->app_op > TAG_CQE_SYNC)
		return false;
	out->op = ops[c->app_op];
	spin_lock(&srq->lock);
	t->ops--;
	out->wr_id = op->wr_id;
	if (c->tm_phase != op->count)
		out->flags |= IBV_WC_TM_SYNC_REQ;
	spin_unlock(&srq->lock);
	if (!c->tm_success)
		out->status = IBV_WC_TM_ERR;
	return true;
}

bool dsrq_tags_done(struct dsrq *srq, const struct cqe *c, struct dsrq_done *out)
{
	*out = (struct dsrq_done){ .wr_id = 0 };
	if (!srq->tags)
		return false;
	switch (c->app_op) {
	case TAG_CQE_UNEXPECTED:
	case TAG_CQE_NO_TAG:
		return message_done(srq, c, out);
	case TAG_CQE_CONSUMED:
	case TAG_CQE_EXPECTED:
	case TAG_CQE_MESSAGE:
	case TAG_CQE_SOFTWARE:
		return match_done(srq, c, out);
	default:
		return op_done(srq, c, out);
	}
}
