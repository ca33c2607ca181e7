// SPDX-License-Identifier: MIT
#include <errno.h>
#include "obs/explain.h"
#include "transport/ack_timer.h"
#include "transport/answer.h"
#include "transport/completion.h"
#include "transport/congestion.h"
#include "transport/corked.h"
#include "transport/credit.h"
#include "transport/flush.h"
#include "transport/form.h"
#include "transport/inner.h"
#include "transport/local_work.h"
#include "transport/message.h"
#include "transport/pace.h"
#include "transport/raw.h"
#include "transport/read_request.h"
#include "transport/recovery.h"
#include "transport/request.h"
#include "transport/sent.h"
#include "transport/streams.h"
#include "transport/ud.h"

/* False: no work request can be started now. */
static bool may_start(struct tqp *q, uint64_t now)
{
	struct requester *r = &q->req;

	if (q->qp.state != IBV_QPS_RTS)
		return false;
	if (unlikely(!r->sent) && sent_allot(q)) {
		flush_to_err(q,
			     reason("QP 0x%x: no memory for the sends it has outstanding; raise "
				    "the limit (ulimit -v)",
				    q->qp.qpn),
			     now);
		return false;
	}
	return r->tail - r->head <= r->mask;
}

/* Starts the next entry of the inner queue. */
static int start_inner(struct tqp *q, struct wqe *w, uint64_t now)
{
	struct requester *r = &q->req;
	struct sent *e;

	if (!may_start(q, now))
		return ENOENT;
	e = sent_at(r, r->tail++);
	*e = (struct sent){ .block = inner_take(q), .psn = r->next_psn, .flags = SENT_INNER };
	inner_wqe(q, e->block, w);
	e->opcode = w->opcode;
	e->len = w->len;
	e->npsn = request_psns(q, w->len);
	e->flags |= (forms[w->opcode].reads ? SENT_READ : 0) | (w->fence ? SENT_FENCE : 0);
	r->next_psn = psn_add(r->next_psn, e->npsn);
	return 0;
}

/* The program writes the ring, and nothing was written here, or what another ring is for. */
static bool is_misplaced(const struct tqp *q, const struct wqe *w)
{
	return w->idx != q->req.next_block || w->qpn != q->qp.qpn;
}

/* Starts the next WQE: reads it into @w and appends its entry. ENOENT: none, or not now; EBADMSG,
 * EMSGSIZE: started, malformed. */
static int start(struct tqp *q, struct wqe *w, uint64_t now)
{
	struct requester *r = &q->req;
	struct sent *e;
	uint16_t avail;
	int err;

	if (inner_waits(q))
		return start_inner(q, w, now);
	avail = sent_posted(q);
	if (!avail || !may_start(q, now))
		return ENOENT;
	err = wqe_parse(&q->qp.sq, r->next_block, avail, q->qp.service->wqe, w);
	if (unlikely(q->qp.laid_open) && !err && is_misplaced(q, w))
		err = EBADMSG;
	e = sent_at(r, r->tail);
	*e = (struct sent){
		.block = r->next_block, .opcode = w->opcode, .psn = r->next_psn, .len = w->len
	};
	if (!err && !forms[w->opcode].local)
		e->npsn = request_psns(q, w->len);
	if (w->signaled || q->qp.sq_sig_all)
		e->flags |= SENT_SIGNALED;
	if (w->fence)
		e->flags |= SENT_FENCE;
	if (!err && forms[w->opcode].reads)
		e->flags |= SENT_READ |
			    (load_relaxed(&q->qp.inlines) & QP_INLINES_ANSWERS ? SENT_INLINES : 0);
	if (unlikely(q->env->stopped && q->env->stopped(q, e->block))) {
		streams_stop(e);
		err = 0;
	}
	r->tail++;
	r->next_psn = psn_add(r->next_psn, e->npsn);
	r->next_block += w->nbb < avail ? w->nbb : avail;
	return err;
}

static bool flushed(const struct tqp *q)
{
	return q->env->stopped && sent_at(&q->req, q->req.cur)->flags & SENT_FLUSHED;
}

/* Reads the WQE at cur, starting the next one when all are sent. */
static bool next(struct tqp *q, struct wqe *w, enum verdict *v, uint64_t now)
{
	struct requester *r = &q->req;
	int err;

	if (r->cur != r->tail) {
		*v = unlikely(flushed(q)) ? V_OK
		     : sent_reread(q, sent_at(r, r->cur), w)
			     ? form_allowed(q, w)
			     : sent_refusal(q, sent_at(r, r->cur), w);
		return true;
	}
	err = start(q, w, now);
	if (err == ENOENT)
		return false;
	if (err) {
		*v = err == EMSGSIZE ? V_LOCAL_LENGTH : V_LOCAL_QP_OP;
		sent_at(r, r->cur)->flags |= SENT_REFUSED;
	} else {
		*v = unlikely(flushed(q)) ? V_OK : form_allowed(q, w);
	}
	return true;
}

static bool window_open(const struct tqp *q)
{
	if (unlikely(q->req.rec != NULL))
		return recovery_open(q, congestion_window(q));
	return !q->qp.service->reliable ||
	       ((q->req.psn - q->req.una) & PSN_MASK) < congestion_window(q);
}

/* May another segment leave now? */
static bool may_send(struct tqp *q, uint64_t now)
{
	return window_open(q) && (likely(!q->req.pace.kbps) || pace_open(q, now));
}

/* XRC, DC: @w may go to another process or target than the last one. Two of them keep no order
 * between them, so the first acknowledges all its messages before the second gets one. */
static bool routed(struct tqp *q, const struct wqe *w, uint64_t now)
{
	return !q->qp.service->routed || !q->env->route ||
	       q->env->route(q, w, q->req.una == q->req.psn, now);
}

/* Sends the rest of @e, whose WQE is @w. False: not now. */
static bool send_entry(struct tqp *q, struct sent *e, const struct wqe *w, uint64_t now)
{
	struct requester *r = &q->req;
	uint32_t i = r->cur;

	if ((e->flags & SENT_FENCE) && r->reads && r->psn == e->psn)
		return false;
	if (!e->npsn)
		return local_work_do(q, e, w, now);
	if (unlikely(!routed(q, w, now)))
		return false;
	if (e->flags & SENT_READ)
		return read_request_send(q, e, w, now);
	while (r->cur == i)
		if (!may_send(q, now) || !credit_allows(q, e) || !message_send(q, e, w, now))
			return false;
	if (!q->qp.service->reliable && !(e->flags & SENT_DONE)) {
		r->una = r->psn;
		r->direct.exchanged = true;
		completion_done(q, now);
	}
	return true;
}

/* Sends the first lost packet or READ again; then sending goes on where it was. */
static bool send_again(struct tqp *q, uint64_t now)
{
	struct requester *r = &q->req;
	uint32_t psn = r->psn, cur = r->cur, head = r->head, n;
	uint16_t reads = r->reads;
	struct sent *e;
	struct wqe w;
	bool sent;

	r->psn = recovery_first(q, &n);
	r->cur = sent_find(r, r->psn);
	e = sent_at(r, r->cur);
	r->reads = 0;
	r->again = true;
	if (!sent_reread(q, e, &w))
		sent = request_fail(q, &w, V_LOCAL_QP_OP, NULL, now);
	else if (e->flags & SENT_READ)
		sent = read_request_send(q, e, &w, now);
	else
		sent = message_send(q, e, &w, now);
	r->again = false;
	if (q->qp.state == IBV_QPS_ERR)
		return false;
	if (r->head != head)
		return sent; /* its stream has ended, and the others begin anew (streams.h) */
	r->psn = psn;
	r->cur = cur;
	r->reads = reads;
	return sent;
}

/* False: the requester waits until fewer packets are on their way. */
static bool begin_on_network(struct tqp *q, uint64_t now)
{
	if (!q->req.rec)
		recovery_begin(q, false, now);
	if (q->req.una == q->req.max_psn)
		congestion_resume(q, now);
	return !q->req.rec || !recovery_crowded(q);
}

static void run(struct tqp *q, uint64_t now)
{
	struct requester *r = &q->req;
	struct wqe w;
	enum verdict v;
	bool more = !unlikely(link_may_congest(q->dest)) || begin_on_network(q, now);

	while (more && !r->blocked && !r->wait && may_send(q, now)) {
		if (q->qp.state != IBV_QPS_RTS && q->qp.state != IBV_QPS_SQD)
			break;
		if (unlikely(r->rec && recovery_lost(q))) {
			more = send_again(q, now);
			continue;
		}
		if (!next(q, &w, &v, now))
			break;
		if (v != V_OK)
			more = request_fail(q, &w, v, NULL, now);
		else if (likely(q->qp.service->connected))
			more = send_entry(q, sent_at(r, r->cur), &w, now);
		else if (q->qp.service->frames)
			more = raw_send(q, sent_at(r, r->cur), &w, now);
		else
			more = ud_send(q, sent_at(r, r->cur), &w, now);
	}
	ack_timer_arm(q, now);
}

/* corked_flush(), which a connection of one host enters only to answer first. */
static inline void let_go(struct tqp *q)
{
	if (unlikely(q->req.ud.open || q->unsettled || q->rsp.ack_delayed)) {
		corked_flush(q);
	} else if (q->req.unflushed) {
		q->req.unflushed = false;
		q->dest->ops->flush(q->dest);
	}
}

void requester_run(struct tqp *q, uint64_t now)
{
	run(q, now);
	let_go(q);
}

void requester_answered(struct tqp *q, uint64_t now)
{
	run(q, now);
	if (!q->req.unflushed && !q->req.ud.open)
		return;
	if (link_is_of_packets(q->dest))
		q->unsettled |= q->req.unflushed;
	else
		let_go(q);
}

void requester_posted(struct tqp *q, uint64_t now)
{
	run(q, now);
	if (!q->req.unflushed && !q->req.ud.open)
		return;
	if (unlikely(link_may_congest(q->dest) || q->req.ud.open))
		corked_posted(q, now);
	else
		let_go(q);
}
