// SPDX-License-Identifier: MIT
/* What the responder's files have in common: the usual sender, the receive WQE of the message in
 * hand and its completion, and the account of requests that are executed. */
#pragma once
#include <errno.h>
#include "transport/tqp.h"
#include "wire/opcode.h"

/* Takes one into q->rsp.rwqe, if none is taken yet. ENOENT: none is posted. */
static inline int receive_take(struct tqp *q)
{
	struct rwqe *w = &q->rsp.rwqe;

	if (q->rsp.have_rwqe)
		return 0;
	if (q->qp.srq ? srq_take(q->qp.srq, w) : rq_take(&q->qp.rq, w))
		return ENOENT;
	q->rsp.have_rwqe = true;
	return 0;
}

/* A message of UC or UD that begins and takes a receive: it is dropped if there is none. */
static inline bool receive_may_lack(const struct seg *s)
{
	uint8_t service = opcode_service(s->op);

	return (service == SVC_UD || service == SVC_UC) && opcode_has(s->op, WIRE_FIRST) &&
	       (!opcode_has(s->op, WIRE_RETH) || opcode_has(s->op, WIRE_IMMDT));
}

/* Under the turn. */
static inline bool receive_lacks(const struct tqp *q)
{
	bool receives = q->qp.state >= IBV_QPS_RTR && q->qp.state <= IBV_QPS_SQE;

	return receives && !q->rsp.have_rwqe &&
	       !(q->qp.srq ? srq_posted(q->qp.srq) : rq_posted(&q->qp.rq));
}

/* The request @s is executed: the next one is expected. */
static inline void receive_executed(struct tqp *q, const struct seg *s)
{
	q->rsp.epsn = psn_add(q->rsp.epsn, s->npsn);
	if (opcode_has(s->op, WIRE_LAST))
		q->rsp.msn = psn_add(q->rsp.msn, 1);
}

/* It is of a message. PSNs come again after 2^24: then that of the newest READ or atomic is a
 * message's. */
static inline void receive_counted(struct tqp *q, const struct seg *s)
{
	struct responder_reads *rd = q->rsp.reads;

	if (unlikely(rd && rd->nsaved))
		rd->saved[(rd->nsaved - 1) % RESPONDER_DEPTH].followed = true;
	moved_add(&q->tally.received, s->len, s->npsn);
}

/* Is it from the peer's process on this host? The usual case of sender_admits(), without a call. */
static inline bool receive_from_peer(const struct tqp *q, const struct seg *s)
{
	return s->from && s->from == q->dest && s->sqpn == q->qp.attr.dest_qp_num &&
	       (s->flags & (SEG_NET | SEG_SQPN)) == SEG_SQPN;
}

/* receive_push() on a CQ that compresses: it may delay the completion until the turn ends
 * (docs/design/compressed-completions.md). */
int receive_delay(struct tqp *q, struct cq *cq, const struct cqe *c);
void receive_end_run(struct tqp *q);

/* cq_push() of its completion. */
static inline int receive_push(struct tqp *q, struct cq *cq, const struct cqe *c)
{
	return likely(!cq->run) ? cq_push(cq, c) : receive_delay(q, cq, c);
}

/* What is delayed becomes the program's: when the turn ends, or work begins that may last. */
static inline void receive_let_go(struct tqp *q)
{
	if (unlikely(q->unsettled & UNSETTLED_ENTRIES))
		receive_end_run(q);
}
