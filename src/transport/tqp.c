// SPDX-License-Identifier: MIT
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "obs/verdict.h"
#include "transport/linear/linear.h"
#include "transport/ack_timer.h"
#include "transport/answer.h"
#include "transport/apm.h"
#include "transport/blocked.h"
#include "transport/cast.h"
#include "transport/completer.h"
#include "transport/congestion.h"
#include "transport/corked.h"
#include "transport/flush.h"
#include "transport/hold.h"
#include "transport/inner.h"
#include "transport/pace.h"
#include "transport/predicted/predicted.h"
#include "transport/raw_receive.h"
#include "transport/receive.h"
#include "transport/recovery.h"
#include "transport/retry.h"
#include "transport/rewind.h"
#include "transport/uc.h"
#include "transport/ud.h"
#include "transport/xrc.h"
#include "wire/aeth.h"
#include "wire/opcode.h"

static void no_waiter(struct waiter *w)
{
	(void)w; /* surroundings whose links may be full set their own */
}

static void forget(struct tqp *q)
{
	struct sent *sent = q->req.sent;
	struct responder_reads *reads = q->rsp.reads;
	struct inner_queue *inner = q->req.inner;
	struct kept_path *kept = q->req.ud.kept;
	uint8_t *frame = q->req.frame;
	uint32_t mask = q->req.mask;
	bool turned_away = q->rsp.turned_away;

	corked_flush(q);
	if (q->dest)
		blocked_cancel(q, q->dest);
	blocked_drop(q, &q->req.ud.full);
	cast_stop(q);
	raw_receive_forget(q);
	answer_forget(q);
	recovery_end(q);
	hold_forget(q);
	q->deadline = q->watch_at = TQP_NEVER;
	q->cnp_at = 0;
	q->ack_due = q->asking = false;
	store_relaxed(&q->rnr_waiting, false);
	q->waits = q->refused = (struct rnr_since){ 0 };
	q->cause = 0;
	sender_forget(q);
	q->req = (struct requester){
		.sent = sent,
		.mask = mask,
		.timer_at = TQP_NEVER,
		.tries.end = TQP_NEVER,
		.mtu = 4096,
		.inner = inner,
		.frame = frame,
		.ud.kept = kept,
	};
	if (inner)
		inner->done = inner->next = inner->tail = 0;
	q->rsp = (struct responder){ .reads = reads, .turned_away = turned_away };
	q->qp.rq.head = 0;
}

void tqp_init(struct tqp *q, const struct tqp_env *env)
{
	q->env = env;
	q->dest = q->alternate = NULL;
	q->unsettled = 0;
	q->delaying = NULL;
	list_init(&q->waiter.node);
	q->waiter.resume = no_waiter;
	q->req = (struct requester){ 0 };
	q->rsp = (struct responder){ 0 };
	forget(q);
}

void tqp_fini(struct tqp *q)
{
	forget(q);
	free(q->req.sent);
	free(q->rsp.reads);
	free(q->req.inner);
	q->req.inner = NULL;
	free(q->req.frame);
	linear_free(q);
	q->req.frame = NULL;
	q->req.sent = NULL;
	q->rsp.reads = NULL;
}

static void to_rtr(struct tqp *q)
{
	q->rsp.epsn = q->qp.attr.rq_psn & PSN_MASK;
	q->rsp.peer = q->qp.attr.dest_qp_num;
	q->req.mtu = qp_mtu(&q->qp);
	if (q->rsp.turned_away && q->qp.service->reliable && link_has_notices(q->dest))
		answer_nak(q, SYN_RNR_CLEAR, q->rsp.epsn); /* with timeout 0 no timer tries again */
	q->rsp.turned_away = false;
}

static void to_rts(struct tqp *q, enum ibv_qp_state old, uint64_t now)
{
	struct requester *r = &q->req;

	q->cause = 0;
	flush_undrain(q);
	if (r->pace.kbps != q->qp.attr.rate_limit)
		pace_set(q, q->qp.attr.rate_limit, 0);
	if (old == IBV_QPS_RTR) {
		r->una = r->psn = r->max_psn = r->next_psn = q->qp.attr.sq_psn & PSN_MASK;
		congestion_begin(q);
	}
	if (old == IBV_QPS_RTR || r->head == r->tail)
		ack_timer_progress(q, now);
	requester_run(q, now);
}

static void to_err(struct tqp *q, enum ibv_qp_state old, uint64_t now)
{
	if (old == IBV_QPS_ERR)
		return;
	answer_leave(q);
	flush_all(q, 0, now);
}

void tqp_moved(struct tqp *q, enum ibv_qp_state old, uint64_t now)
{
	corked_flush(q);
	switch (q->qp.state) {
	case IBV_QPS_RESET:
		flush_shared(q, now);
		if (old != IBV_QPS_ERR) /* else it has left already */
			answer_leave(q);
		forget(q);
		break;
	case IBV_QPS_RTR:
		if (old == IBV_QPS_INIT)
			to_rtr(q);
		break;
	case IBV_QPS_RTS:
		to_rts(q, old, now);
		break;
	case IBV_QPS_SQD:
		if (old == IBV_QPS_RTS) {
			q->req.sqd.draining = true;
			q->qp.attr.sq_draining = 1;
			flush_drained(q);
		} else {
			ack_timer_changed(q, now); /* SQD to SQD takes a new one */
		}
		break;
	case IBV_QPS_ERR:
		to_err(q, old, now);
		break;
	default:
		break;
	}
}

void tqp_doorbell(struct tqp *q, uint64_t now)
{
	answer_reply(q);
	/* timeout 0: no timer will try again, so what is posted next does, as its packets would */
	if (unlikely(q->req.wait == WAIT_LOST) && q->req.tries.end == TQP_NEVER) {
		retry_elsewhere(q);
		rewind_go_on(q);
	}
	if (likely(q->qp.state == IBV_QPS_RTS)) {
		if (q->req.ud.kept && predicted_datagrams(q, now))
			return;
		if (!q->req.direct.exchanged || !predicted_one_sided(q, now))
			requester_posted(q, now);
	} else if (q->qp.state == IBV_QPS_ERR || q->qp.state == IBV_QPS_SQE) {
		flush_sq(q, now);
	}
	answer_behind(q);
}

bool tqp_doorbell_timeless(struct tqp *q)
{
	return predicted_doorbell(q);
}

void tqp_rq_doorbell(struct tqp *q, uint64_t now)
{
	if (q->qp.state == IBV_QPS_ERR)
		flush_rq(q, now);
	if (q->qp.service->frames) {
		raw_receive_doorbell(q, now);
		return;
	}
	if (likely(!q->rnr_waiting) || !(q->qp.srq ? srq_posted(q->qp.srq) : rq_posted(&q->qp.rq)))
		return;
	store_relaxed(&q->rnr_waiting, false);
	answer_nak(q, SYN_RNR_CLEAR, q->rsp.epsn);
}

/* Is the opcode one of the QP's service, or one of softhca's that its service has? */
static bool known(const struct tqp *q, uint8_t op)
{
	const struct service *svc = q->qp.service;

	if (op == OP_REPORT)
		return svc->reliable && svc->sends;
	if (op == OP_GROUNDS)
		return svc->sends && !svc->frames;
	if (op == OP_CNP)
		return svc->connected;
	if (op == OP_PORT)
		return sender_says_port(q);
	if (op == OP_DROPPED)
		return !svc->reliable && !svc->frames;
	return opcodes[op].name && opcode_service(op) == svc->wire;
}

/* On one host, of what its sender counts as sent. */
static bool is_notice_of_drop(const struct tqp *q, uint8_t op)
{
	return op == OP_DROPPED || (op == OP_GROUNDS && !q->qp.service->reliable);
}

/* False: a receiver drops it in silence before it looks at the PSN. */
static bool mine(struct tqp *q, const struct seg *s, uint64_t now)
{
	if (!known(q, s->op) || (is_notice_of_drop(q, s->op) && (s->flags & SEG_NET)))
		return false;
	if (s->op == OP_PORT && !(s->flags & SEG_NET))
		return false;
	if ((s->pkey & 0x7fff) != 0x7fff)
		return false;
	return likely(receive_from_peer(q, s)) || sender_admits(q, s, now);
}

static bool receiving(const struct tqp *q)
{
	enum ibv_qp_state s = q->qp.state;

	return s == IBV_QPS_RTS || s == IBV_QPS_RTR || s == IBV_QPS_SQD || s == IBV_QPS_SQE;
}

/* A packet does not say how many PSNs the response to a READ has. */
static void network_read(struct tqp *q, const struct seg *s, uint64_t now)
{
	struct seg whole = *s;

	if (s->dma_len > q->req.mtu && s->dma_len <= 1U << 31)
		whole.npsn = (uint32_t)(((uint64_t)s->dma_len + q->req.mtu - 1) / q->req.mtu);
	responder_input(q, &whole, now);
}

/* What an answer, or the ACK that rides on a request, has let the requester send. */
static void go_on(struct tqp *q, const struct seg *s, bool response, uint64_t now)
{
	if (!response && !(s->flags & SEG_ACK) && !inner_waits(q))
		return;
	requester_answered(q, now);
	flush_drained(q);
}

/* As silent as hardware; on one host the sender, if it waits for an answer, learns of it. */
static void turn_away(struct tqp *q, const struct seg *s)
{
	struct grounds why = { GROUNDS_ANOTHER };

	if (!receiving(q))
		why = (struct grounds){ GROUNDS_STATE, { q->qp.state } };
	if (s->op == OP_DC_CONNECT)
		why = (struct grounds){ GROUNDS_NO_TARGET };
	counters_inc(q->qp.ctx->hca->counters, COUNTER_PORT_RCV_ERRORS);
	if (!receiving(q) && !q->qp.service->reliable && opcode_has(s->op, WIRE_REQUEST)) {
		drop_say(q, s, DROP_STATE);
		return;
	}
	if (s->flags & SEG_NET && opcode_has(s->op, WIRE_RESPONSE) && known(q, s->op))
		q->req.elsewhere = true;
	verdict_say("dropped, not what the QP receives in its state and from its peer");
	q->rsp.turned_away |= !receiving(q);
	if (answer_no_responder(s, why) != EAGAIN)
		return;
	if (q->env->no_responder_later)
		q->env->no_responder_later(q, s);
	else if (q->dest && !q->rsp.nak_due)
		answer_nak(q, SYN_NO_RESPONDER, s->psn);
}

static void rc_input(struct tqp *q, const struct seg *s, uint64_t now)
{
	bool response =
		opcode_has(s->op, WIRE_RESPONSE) || s->op == OP_REPORT || s->op == OP_GROUNDS;

	if (s->flags & SEG_ACK)
		completer_piggyback(q, s, now);
	if (response)
		completer_input(q, s, now);
	else if (unlikely(q->qp.state == IBV_QPS_ERR))
		turn_away(q, s); /* the ACK on it has overrun the CQ, or used up the last try */
	else if (unlikely((s->flags & SEG_NET) && s->op == OP_READ_REQUEST))
		network_read(q, s, now);
	else
		responder_input(q, s, now);
	go_on(q, s, response, now);
}

/* The way was dead, and a new one is there: what is outstanding is sent again. */
static bool found_again(struct tqp *q, uint64_t now)
{
	if (!retry_elsewhere(q))
		return false;
	tqp_resume(q, now);
	return true;
}

/* From the peer that seemed to be gone? */
static bool mine_again(struct tqp *q, const struct seg *s, uint64_t now)
{
	return !(s->flags & SEG_NET) && found_again(q, now) && receiving(q) && mine(q, s, now);
}

static void xrc_input(struct tqp *q, const struct seg *s, uint64_t now)
{
	struct seg rc;

	if (xrc_admit(q, s, &rc, now))
		rc_input(q, &rc, now);
}

void tqp_input(struct tqp *q, const struct seg *s, uint64_t now)
{
	struct counters *c = q->qp.ctx->hca->counters;

	if (likely(predicted_receive(q, s, now))) {
		go_on(q, s, false, now);
		return;
	}
	if (predicted_datagram(q, s, now))
		return;
	if (unlikely(s->op == FRAME_OP)) {
		if (receiving(q) || q->qp.hash.table)
			raw_receive(q, s, now);
		return;
	}
	if (unlikely(!receiving(q) || (!mine(q, s, now) && !mine_again(q, s, now)))) {
		turn_away(q, s);
		return;
	}
	if (unlikely(s->op == OP_PORT)) {
		sender_told(q, s, now);
		return;
	}
	if (unlikely(s->marked) && q->qp.service->connected)
		congestion_marked(q, s, now);
	if (unlikely(s->op == OP_CNP)) {
		counters_inc(c, COUNTER_RP_CNP_HANDLED);
		congestion_noted(q);
		return;
	}
	if (unlikely(is_notice_of_drop(q, s->op))) {
		drop_told(q, s);
		return;
	}
	if (unlikely(q->req.arming))
		apm_input(q, s, now);
	if (likely(q->qp.service->wire == SVC_RC))
		rc_input(q, s, now);
	else if (q->qp.service->wire == SVC_UC)
		uc_input(q, s, now);
	else if (q->qp.service->wire == SVC_XRC)
		xrc_input(q, s, now);
	else
		ud_input(q, s, now);
}

int tqp_no_responder(const struct seg *s, enum grounds_code why)
{
	return answer_no_responder(s, (struct grounds){ why });
}

void tqp_timer(struct tqp *q, uint64_t now)
{
	if (unlikely(now >= q->watch_at)) {
		retry_watch(q, now);
		requester_run(q, now);
	}
	if (now < q->deadline)
		return;
	if (!q->qp.service->connected) {
		q->deadline = TQP_NEVER;
		raw_receive_expire(q, now);
		if (q->req.ud.full)
			blocked_timer(q, q->req.ud.full, now);
		else
			cast_timer(q, now);
	} else if (q->qp.service->reliable) {
		retry_timer(q, now);
	} else {
		q->deadline = TQP_NEVER;
		blocked_timer(q, q->dest, now);
	}
	requester_run(q, now);
	flush_drained(q);
}

void tqp_resume(struct tqp *q, uint64_t now)
{
	q->req.blocked = false;
	q->rsp.silent &= (uint8_t)~SILENT_SHARING;
	answer_run(q);
	requester_run(q, now);
	answer_ack_now(q);
	flush_drained(q);
}

void tqp_rate(struct tqp *q, uint32_t burst, uint64_t now)
{
	pace_set(q, q->qp.attr.rate_limit, burst);
	requester_run(q, now);
}

void tqp_peer_dead(struct tqp *q, uint64_t now)
{
	enum ibv_qp_state s = q->qp.state;

	if (found_again(q, now))
		return;
	if (q->qp.service->reliable && (s == IBV_QPS_RTS || s == IBV_QPS_SQD) && q->dest &&
	    dest_dead(q->dest) && (q->asking || q->req.una != q->req.max_psn))
		ack_timer_lost(q, now);
}

void tqp_flush_ack(struct tqp *q)
{
	if (!q->ack_due)
		return;
	if (q->rsp.ack_delayed)
		q->rsp.replies = 0; /* the ACK has waited in vain */
	answer_ack_now(q);
}

bool tqp_ack_waits(const struct tqp *q)
{
	return q->rsp.ack_delayed;
}

void tqp_settle(struct tqp *q)
{
	if (q->unsettled)
		corked_flush(q);
}

void tqp_uncork(struct tqp *q)
{
	corked_flush(q);
}

void tqp_release(struct tqp *q)
{
	answer_release(q);
}

void tqp_unblock(struct tqp *q)
{
	q->again |= q->req.blocked;
	q->req.blocked = false;
}
