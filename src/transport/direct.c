// SPDX-License-Identifier: MIT
#include "transport/direct.h"
#include "transport/completion.h"
#include "transport/sent.h"
#include "util/clock.h"

enum {
	WAIT_MIN = 16 << 10, /* bytes: a READ or WRITE of this length may wait for direct access */
	WAIT_AGAIN_MIN = 32, /* READs or WRITEs that do not wait after one that waited in vain */
	WAIT_AGAIN_MAX = 4096,
	SERIES_BEGINS = 16, /* READs or WRITEs without a poll behind which the ring is tried */
	SERIES_GOES_ON = 2, /* the same where the ring has proven faster */
	SERIES_CLOSE = 10000, /* ns from one to the next */
	SERIES_JUDGED = 256, /* by the ring, behind which it is judged */
	SERIES_AGAIN_MIN = 64, /* work requests that go directly after the ring was slower */
	SERIES_AGAIN_MAX = 1 << 20,
};

/* Has the QP exchanged something (UC: sent something) with a peer whose memory the link reaches? */
static bool reaches(const struct tqp *q)
{
	const struct requester *r = &q->req;

	return r->direct.exchanged && !r->pace.kbps && !r->arming && q->dest &&
	       q->dest->ops->direct;
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

/* The ring was slower than direct access, or the program waited: doubles the number of work
 * requests that go directly before it is tried again. */
static void series_failed(struct series *s)
{
	uint32_t gap = s->again_next * 2;

	gap = gap < SERIES_AGAIN_MIN ? SERIES_AGAIN_MIN : gap;
	s->again_in = s->again_next = gap < SERIES_AGAIN_MAX ? gap : SERIES_AGAIN_MAX;
	s->by_ring = s->proven = false;
	s->leave = true;
}

static void series_proven(struct series *s, uint64_t now)
{
	s->proven = true;
	s->again_next = 0;
	s->n = 0;
	s->since = now;
}

/* @e follows others of its series through the ring. */
static void series_judge(struct requester *r, const struct sent *e, uint64_t now)
{
	struct series *s = &r->direct.series;
	uint64_t most = (uint64_t)SERIES_JUDGED * s->direct_ns;

	if (s->n < SERIES_JUDGED && ++s->n == SERIES_JUDGED)
		s->mark = e->psn;
	if (clock_elapsed(s->since, now) > most)
		series_failed(s);
	else if (s->n == SERIES_JUDGED && psn_before(s->mark, r->una))
		series_proven(s, now);
}

/* All that went by the ring was acknowledged; the program may have done something else since. */
static void series_over(struct series *s, uint64_t now)
{
	uint64_t direct = (uint64_t)s->n * s->direct_ns, took = clock_elapsed(s->since, now);

	if (took > 2 * direct)
		series_failed(s);
	else if (s->n >= SERIES_BEGINS && took < direct)
		s->proven = true;
	s->leave = s->by_ring = false;
}

/* UC: no answer tells how fast the ring is. It is left when the program posts few at a time. */
static bool bursts_go_on(struct series *s, bool ends, bool pause)
{
	if (!ends) {
		s->n++;
		return true;
	}
	s->proven = s->n >= SERIES_BEGINS;
	s->n = 1;
	return s->proven && !pause;
}

/* A work request is alone, and direct access can do it. Shall it go by the ring? Then the peer's
 * process executes it while this one posts the next. */
static bool series_by_ring(struct tqp *q, uint64_t now)
{
	struct series *s = &q->req.direct.series;
	uint32_t polls = q->env->polls(q);
	bool pause = clock_elapsed(s->last, now) > SERIES_CLOSE;
	bool ends = s->polls != polls || pause;

	s->last = now;
	s->leave = false;
	if (s->by_ring && !q->qp.service->reliable) {
		if (bursts_go_on(s, ends, pause)) {
			s->polls = polls;
			return true;
		}
		s->by_ring = false;
	} else if (s->by_ring) {
		series_over(s, now);
		ends = true;
	}
	if (s->again_in) {
		s->again_in--;
		return false;
	}
	if (ends) {
		s->polls = polls;
		s->since = now;
		s->n = 0;
		return false;
	}
	s->n++;
	if (s->n < (s->proven ? SERIES_GOES_ON : SERIES_BEGINS))
		return false;
	if (!s->proven) {
		now = q->env->clock(q); /* a list is one turn */
		s->direct_ns = (uint32_t)clock_elapsed(s->since, now) / s->n;
	}
	s->by_ring = true;
	s->since = now;
	s->n = 1;
	return true;
}

/* A series of READs or WRITEs that began by the ring would stay there, since direct access needs an
 * empty queue. So one of them waits until the queue is empty; if its direct access then succeeds,
 * the others follow. */
static bool must_wait(struct tqp *q, const struct sent *e)
{
	struct requester *r = &q->req;
	bool write = e->opcode == MLX5_OPCODE_RDMA_WRITE;

	if (r->direct.waited || r->direct.series.leave)
		return r->cur != r->head;
	if (e->len < WAIT_MIN || r->cur == r->head || r->tail != r->cur + 1 ||
	    !link_is_lossless(q->dest) || !one_sided(sent_at(r, r->cur - 1)))
		return false;
	if (r->direct.wait_again[write].in) {
		r->direct.wait_again[write].in--;
		return false;
	}
	return true;
}

/* The entry, which is alone, was done without PSNs: gives them back. */
static void done_directly(struct tqp *q, struct sent *e, uint64_t now)
{
	q->req.next_psn = e->psn;
	moved_add(&q->tally.direct, e->len, e->npsn);
	e->npsn = 0;
	e->flags |= SENT_DONE;
	q->req.cur++;
	completion_done(q, now);
}

/* The wait was in vain: doubles the number of entries that do not wait. */
static void wait_longer(struct requester *r, bool write)
{
	uint16_t gap = r->direct.wait_again[write].next * 2;

	gap = gap < WAIT_AGAIN_MIN ? WAIT_AGAIN_MIN : gap > WAIT_AGAIN_MAX ? WAIT_AGAIN_MAX : gap;
	r->direct.wait_again[write].in = r->direct.wait_again[write].next = gap;
}

bool direct_at_once(struct tqp *q, struct direct_ask *ask, uint64_t now)
{
	bool by_ring = q->env->polls && series_by_ring(q, now);

	q->req.direct.by_ring =
		by_ring || q->dest->ops->direct(q->dest, ask) || ask->done != ask->len;
	return !q->req.direct.by_ring;
}

enum direct_way direct_try(struct tqp *q, struct sent *e, const struct wqe *w,
			   const struct gather *g, uint64_t now)
{
	struct requester *r = &q->req;
	uint32_t done = r->direct.done;

	r->direct.done = 0;
	if (!reaches(q) || !e->len) {
		r->direct.waited = false;
		return BY_RING;
	}
	if (!alone(q, e)) {
		if (r->direct.series.by_ring)
			series_judge(r, e, now);
		r->direct.waited = must_wait(q, e);
		return r->direct.waited ? LATER : BY_RING;
	}
	if (r->direct.by_ring ||
	    (!done && e->len <= DIRECT_SHORT && q->env->polls && series_by_ring(q, now))) {
		r->direct.by_ring = r->direct.waited = false;
		return BY_RING;
	}
	struct direct_ask ask = { .write = w->opcode == MLX5_OPCODE_RDMA_WRITE,
				  .unanswered = !q->qp.service->reliable,
				  .psn = e->psn,
				  .sqpn = q->qp.qpn,
				  .dqpn = q->qp.attr.dest_qp_num,
				  .rkey = w->rkey,
				  .va = w->raddr,
				  .len = w->len,
				  .mapped = r->direct.waited && w->opcode == MLX5_OPCODE_RDMA_WRITE,
				  .done = done,
				  .pieces = g->piece,
				  .npieces = g->n,
				  .grant = &r->direct.grant };

	if (q->dest->ops->direct(q->dest, &ask)) {
		if (r->direct.waited)
			wait_longer(r, ask.write);
		r->direct.waited = false;
		return BY_RING;
	}
	if (ask.done == ask.len) {
		r->direct.waited = false;
		done_directly(q, e, now);
		return DIRECTLY;
	}
	r->direct.done = ask.done;
	q->again = true;
	return LATER;
}
