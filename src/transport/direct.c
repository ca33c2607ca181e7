// SPDX-License-Identifier: MIT
#include "transport/direct.h"
#include "transport/completion.h"
#include "transport/sent.h"

enum {
	WAIT_MIN = 16 << 10, /* bytes: a READ or WRITE of this length may wait for direct access */
	WAIT_AGAIN_MIN = 32, /* READs or WRITEs that do not wait after one that waited in vain */
	WAIT_AGAIN_MAX = 4096,
};

/* Has the QP exchanged something with a peer whose memory the link reaches? */
static bool reaches(const struct tqp *q)
{
	const struct requester *r = &q->req;

	return r->exchanged && !r->pace.kbps && !r->arming && q->dest && q->dest->ops->direct;
}

/* No other entry is outstanding or started. */
static bool alone(const struct tqp *q, const struct sent *e)
{
	const struct requester *r = &q->req;

	return r->cur == r->head && r->tail == r->cur + 1 && e->psn == r->una &&
	       e->psn == r->max_psn;
}

static bool one_sided(const struct sent *e)
{
	return e->opcode == MLX5_OPCODE_RDMA_WRITE || e->opcode == MLX5_OPCODE_RDMA_READ;
}

/* A stream of READs or WRITEs that began by the ring would stay there, since direct access needs an
 * empty queue. So one of them waits until the queue is empty; if its direct access then succeeds,
 * the others follow. */
static bool must_wait(struct tqp *q, const struct sent *e)
{
	struct requester *r = &q->req;
	bool write = e->opcode == MLX5_OPCODE_RDMA_WRITE;

	if (r->waited)
		return r->cur != r->head;
	if (e->len < WAIT_MIN || r->cur == r->head || r->tail != r->cur + 1 ||
	    !link_is_lossless(q->dest) || !one_sided(sent_at(r, r->cur - 1)))
		return false;
	if (r->wait_again[write].in) {
		r->wait_again[write].in--;
		return false;
	}
	return true;
}

/* The entry, which is alone, was done without PSNs: gives them back. */
static void done_directly(struct tqp *q, struct sent *e, uint64_t now)
{
	q->req.next_psn = e->psn;
	e->npsn = 0;
	e->flags |= SENT_DONE;
	q->req.cur++;
	completion_done(q, now);
}

/* The wait was in vain: doubles the number of entries that do not wait. */
static void wait_longer(struct requester *r, bool write)
{
	uint16_t gap = r->wait_again[write].gap * 2;

	gap = gap < WAIT_AGAIN_MIN ? WAIT_AGAIN_MIN : gap > WAIT_AGAIN_MAX ? WAIT_AGAIN_MAX : gap;
	r->wait_again[write].in = r->wait_again[write].gap = gap;
}

enum direct_way direct_try(struct tqp *q, struct sent *e, const struct wqe *w,
			   const struct gather *g, uint64_t now)
{
	struct requester *r = &q->req;
	uint32_t done = r->direct_done;

	r->direct_done = 0;
	if (!reaches(q) || !e->len) {
		r->waited = false;
		return BY_RING;
	}
	if (!alone(q, e)) {
		r->waited = must_wait(q, e);
		return r->waited ? LATER : BY_RING;
	}
	struct direct_ask ask = { .write = w->opcode == MLX5_OPCODE_RDMA_WRITE,
				  .sqpn = q->qp.qpn,
				  .dqpn = q->qp.attr.dest_qp_num,
				  .rkey = w->rkey,
				  .va = w->raddr,
				  .len = w->len,
				  .mapped = r->waited && w->opcode == MLX5_OPCODE_RDMA_WRITE,
				  .done = done,
				  .pieces = g->piece,
				  .npieces = g->n };

	if (q->dest->ops->direct(q->dest, &ask)) {
		if (r->waited)
			wait_longer(r, ask.write);
		r->waited = false;
		return BY_RING;
	}
	if (ask.done == ask.len) {
		r->waited = false;
		done_directly(q, e, now);
		return DIRECTLY;
	}
	r->direct_done = ask.done;
	q->again = true;
	return LATER;
}
