// SPDX-License-Identifier: MIT
#include "prm/wqe_single.h"
#include "transport/completion.h"
#include "transport/direct.h"
#include "transport/inner.h"
#include "transport/predicted/predicted.h"
#include "transport/request.h"
#include "transport/sent.h"

/* Is nothing outstanding, and does the link reach the peer's memory? */
static bool may_reach(const struct tqp *q)
{
	const struct requester *r = &q->req;

	return q->dest && q->dest->ops->direct && r->sent && r->head == r->tail &&
	       r->cur == r->tail && r->una == r->max_psn && r->next_psn == r->una &&
	       r->psn == r->una && !r->blocked && !r->wait && !r->doubt && !r->rec &&
	       !r->pace.kbps && !r->arming && !r->unflushed && !r->direct.done &&
	       !r->direct.waited && !r->direct.series.by_ring && r->timer_at == TQP_NEVER &&
	       !inner_waits(q) && !q->unsettled && !q->rsp.ack_delayed;
}

/* What done_directly() leaves of one that was started. */
static void done(struct tqp *q, const struct wqe_single *w, uint8_t opcode, uint64_t now)
{
	struct requester *r = &q->req;
	struct sent *e = sent_at(r, r->tail++);

	*e = (struct sent){ .block = r->next_block,
			    .opcode = opcode,
			    .flags = SENT_DONE,
			    .psn = r->next_psn,
			    .len = w->sge.len };
	if (opcode == MLX5_OPCODE_RDMA_READ)
		e->flags |= SENT_READ;
	if (w->signaled || q->qp.sq_sig_all)
		e->flags |= SENT_SIGNALED;
	r->cur++;
	r->next_block += w->nbb;
	moved_add(&q->tally.direct, e->len, request_psns(q, e->len));
	completion_done(q, now);
}

static bool next(struct tqp *q, uint16_t avail, uint64_t now)
{
	uint8_t opcode = wqe_single_opcode(&q->qp.sq, q->req.next_block);
	bool read = opcode == MLX5_OPCODE_RDMA_READ;
	struct wqe_remote to;
	struct wqe_single w;
	struct piece piece;

	if ((!read && opcode != MLX5_OPCODE_RDMA_WRITE) ||
	    (read && (!q->qp.attr.max_rd_atomic || load_relaxed(&q->qp.inlines))) ||
	    !wqe_single_remote(&q->qp.sq, q->req.next_block, opcode, q->qp.qpn, &w, &to) ||
	    w.nbb > avail || w.sge.len > DIRECT_SHORT ||
	    !predicted_piece(q, &w, read ? IBV_ACCESS_LOCAL_WRITE : 0, &piece))
		return false;

	struct direct_ask ask = { .write = !read,
				  .psn = q->req.next_psn,
				  .sqpn = q->qp.qpn,
				  .dqpn = q->qp.attr.dest_qp_num,
				  .rkey = to.key,
				  .va = to.addr,
				  .len = w.sge.len,
				  .pieces = &piece,
				  .npieces = 1,
				  .grant = &q->req.direct.grant };

	if (!direct_at_once(q, &ask, now))
		return false;
	done(q, &w, opcode, now);
	return true;
}

bool predicted_one_sided(struct tqp *q, uint64_t now)
{
	uint16_t avail;

	if (!predicted_is_rc(q) || !may_reach(q))
		return false;
	for (avail = sent_posted(q); avail; avail = sent_posted(q))
		if (q->qp.state != IBV_QPS_RTS || !next(q, avail, now))
			return false;
	return true;
}
