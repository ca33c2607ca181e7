// SPDX-License-Identifier: MIT
#include "driver/cq_readers.h"
#include <errno.h>
#include "driver/completion.h"
#include "driver/cq_poll.h"
#include "obs/explain.h"
#include "util/clock.h"
#include "util/fork.h"

static inline struct dcq *ex(struct ibv_cq_ex *ib)
{
	return (struct dcq *)ib;
}

static int ex_advance(struct dcq *cq)
{
	struct completion d;

	if (!completion_next(cq, &cq->cur, &d))
		return ENOENT;
	cq->ib.wr_id = d.wr_id;
	cq->ib.status = completion_status(&cq->cur, &d);
	cq->cur_op = d.op;
	cq->cur_flags = d.wc_flags;
	cq->cur_qpn = d.qpn;
	cq->cur_raw = d.raw;
	return 0;
}

static int ex_start_poll(struct ibv_cq_ex *ib, struct ibv_poll_cq_attr *attr)
{
	struct dcq *cq = ex(ib);
	int err;

	if (attr->comp_mask)
		return refuse(EINVAL, "ibv_start_poll: comp_mask 0x%x, nothing is defined; pass 0",
			      attr->comp_mask);
	if (unlikely(dcq_ring_polling(cq)))
		return refuse(EINVAL,
			      "ibv_start_poll: this thread is polling CQ 0x%x already; "
			      "ibv_next_poll goes on, ibv_end_poll ends it",
			      cq->dev->cqn);
	if (!fork_is_ours(cq->epoch))
		return refuse(EIO, "ibv_start_poll: CQ 0x%x was made before fork(); make a new one",
			      cq->dev->cqn);
	if (!cq_poll_ready(cq))
		return ENOENT;
	if (!cq->single)
		spin_lock(&cq->lock);
	err = ex_advance(cq);
	if (!err)
		store_relaxed(&cq->poller, (const void *)&dcq_ring_self);
	else if (!cq->single)
		spin_unlock(&cq->lock);
	if (!err && cq->wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
		cq->wall = clock_wall_offset();
	return err;
}

static int ex_next_poll(struct ibv_cq_ex *ib)
{
	struct dcq *cq = ex(ib);

	if (unlikely(!dcq_ring_polling(cq)))
		return refuse(EINVAL,
			      "ibv_next_poll: this thread is not polling CQ 0x%x; "
			      "ibv_start_poll comes first",
			      cq->dev->cqn);
	return ex_advance(cq);
}

/* After an ibv_start_poll() that found nothing it does nothing. */
static void ex_end_poll(struct ibv_cq_ex *ib)
{
	struct dcq *cq = ex(ib);

	if (!dcq_ring_polling(cq))
		return;
	store_relaxed(&cq->poller, NULL);
	dcq_ring_publish(cq);
	if (!cq->single)
		spin_unlock(&cq->lock);
}

static enum ibv_wc_opcode ex_opcode(struct ibv_cq_ex *ib)
{
	return ex(ib)->cur_op;
}

static uint32_t ex_vendor_err(struct ibv_cq_ex *ib)
{
	return ex(ib)->cur.vendor_err;
}

static uint32_t ex_byte_len(struct ibv_cq_ex *ib)
{
	return ex(ib)->cur.byte_cnt;
}

static __be32 ex_imm_data(struct ibv_cq_ex *ib)
{
	const struct dcq *cq = ex(ib);

	return cq->cur_flags & IBV_WC_WITH_INV ? be32toh(cq->cur.imm) : cq->cur.imm;
}

static uint32_t ex_qp_num(struct ibv_cq_ex *ib)
{
	return ex(ib)->cur_qpn;
}

static uint32_t ex_src_qp(struct ibv_cq_ex *ib)
{
	return ex(ib)->cur.src_qp;
}

static unsigned int ex_wc_flags(struct ibv_cq_ex *ib)
{
	return ex(ib)->cur_flags;
}

static uint32_t ex_slid(struct ibv_cq_ex *ib __attribute__((unused)))
{
	return 0;
}

static uint8_t ex_sl(struct ibv_cq_ex *ib)
{
	return ex(ib)->cur.sl;
}

static uint16_t ex_cvlan(struct ibv_cq_ex *ib)
{
	return ex(ib)->cur.vlan;
}

static uint32_t ex_flow_tag(struct ibv_cq_ex *ib)
{
	const struct dcq *cq = ex(ib);

	return cq->cur_raw ? cq->cur.qpn : 0; /* other CQEs have a QPN in its place */
}

static uint8_t ex_dlid_path_bits(struct ibv_cq_ex *ib __attribute__((unused)))
{
	return 0;
}

static void ex_tm_info(struct ibv_cq_ex *ib, struct ibv_wc_tm_info *info)
{
	const struct cqe *c = &ex(ib)->cur;

	*info = (struct ibv_wc_tm_info){ .tag = 0 };
	if (c->app_op) {
		info->tag = c->tm_tag;
		info->priv = c->tm_ctx;
	}
}

static uint64_t ex_completion_ts(struct ibv_cq_ex *ib)
{
	return ex(ib)->cur.timestamp;
}

static uint64_t ex_wallclock_ns(struct ibv_cq_ex *ib)
{
	return ex(ib)->cur.timestamp + ex(ib)->wall;
}

/* With hardware's library a program that reads a field that it has not asked for calls NULL. Here
 * it gets a zero, and a reason is recorded. */
static uint64_t unasked(struct ibv_cq_ex *ib, const char *flag)
{
	reason("CQ 0x%x: a field is read that %s did not ask for at ibv_create_cq_ex; add it to "
	       "wc_flags",
	       ex(ib)->dev->cqn, flag);
	return 0;
}

static uint64_t unasked_ts(struct ibv_cq_ex *ib)
{
	return unasked(ib, "IBV_WC_EX_WITH_COMPLETION_TIMESTAMP");
}

static uint64_t unasked_wallclock(struct ibv_cq_ex *ib)
{
	return unasked(ib, "IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK");
}

void cq_readers_attach(struct dcq *cq)
{
	struct ibv_cq_ex *ib = &cq->ib;
	uint64_t asked = cq->wc_flags;

	ib->start_poll = ex_start_poll;
	ib->next_poll = ex_next_poll;
	ib->end_poll = ex_end_poll;
	ib->read_opcode = ex_opcode;
	ib->read_vendor_err = ex_vendor_err;
	ib->read_wc_flags = ex_wc_flags;
	ib->read_byte_len = ex_byte_len;
	ib->read_imm_data = ex_imm_data;
	ib->read_qp_num = ex_qp_num;
	ib->read_src_qp = ex_src_qp;
	ib->read_slid = ex_slid;
	ib->read_sl = ex_sl;
	ib->read_tm_info = ex_tm_info;
	ib->read_dlid_path_bits = ex_dlid_path_bits;
	ib->read_completion_ts =
		asked & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP ? ex_completion_ts : unasked_ts;
	ib->read_completion_wallclock_ns = asked & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK
						   ? ex_wallclock_ns
						   : unasked_wallclock;
	ib->read_cvlan = ex_cvlan;
	ib->read_flow_tag = ex_flow_tag;
}
