// SPDX-License-Identifier: MIT
#include "driver/cq_poll.h"
#include <errno.h>
#include "driver/completion.h"
#include "obs/explain.h"
#include "util/fork.h"

static void fill(const struct cqe *c, const struct completion *d, struct ibv_wc *wc)
{
	wc->wr_id = d->wr_id;
	wc->opcode = d->op;
	wc->qp_num = d->qpn;
	wc->vendor_err = c->vendor_err;
	wc->status = completion_status(c, d);
	wc->byte_len = c->byte_cnt;
	if (d->wc_flags & IBV_WC_WITH_INV)
		wc->invalidated_rkey = be32toh(c->imm);
	else
		wc->imm_data = c->imm;
	wc->src_qp = c->src_qp;
	wc->wc_flags = d->wc_flags;
	wc->pkey_index = 0;
	wc->slid = 0;
	wc->sl = c->sl;
	wc->dlid_path_bits = 0;
}

int dcq_poll(struct ibv_cq *ib, int n, struct ibv_wc *wc)
{
	struct dcq *cq = to_dcq(ib);
	struct completion d;
	struct cqe c;
	bool nested = false;
	int got = 0;

	if (!fork_is_ours(cq->epoch))
		return -refuse(EIO, "ibv_poll_cq: CQ 0x%x was made before fork(); make a new one",
			       cq->dev->cqn);
	if (!cq_poll_ready(cq))
		return 0;
	if (unlikely(!spin_trylock(&cq->lock))) {
		nested = dcq_ring_polling(cq);
		dcq_ring_lock(cq);
	}
	while (got < n && completion_next(cq, &c, &d))
		fill(&c, &d, &wc[got++]);
	if (got)
		dcq_ring_publish(cq);
	if (likely(!nested))
		spin_unlock(&cq->lock);
	return got;
}

int dcq_arm(struct ibv_cq *ib, int solicited_only)
{
	struct dcq *cq = to_dcq(ib);

	if (!fork_is_ours(cq->epoch))
		return refuse(EIO,
			      "ibv_req_notify_cq: CQ 0x%x was made before fork(); make a new one",
			      cq->dev->cqn);
	cq_arm(cq->dev, solicited_only != 0);
	doorbell_armed();
	return 0;
}
