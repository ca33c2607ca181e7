// SPDX-License-Identifier: MIT
/* A request segment of a connected service: its headers, handing it to the link, and the record of
 * its PSNs in the requester. */
#pragma once
#include "transport/fate.h"
#include "transport/gather.h"
#include "transport/sent.h"
#include "wire/opcode.h"

/* The PSNs that @len bytes take. */
static inline uint32_t request_psns(const struct tqp *q, uint32_t len)
{
	return len <= q->req.mtu ? 1 : (uint32_t)(((uint64_t)len + q->req.mtu - 1) / q->req.mtu);
}

/* Clears the members that request_fill() and its callers do not set, one by one: clearing the whole
 * struct becomes a string instruction, which costs 20 ns. */
static inline void request_blank(struct seg *s)
{
	s->syndrome = 0;
	s->msn = 0;
	s->ack_psn = s->ack_msn = 0;
	s->qkey = s->srqn = 0;
	s->swap_add = s->compare = 0;
	s->av = NULL;
	s->data = NULL;
	s->from = NULL;
	s->grh = NULL;
	s->l3 = s->sl = 0;
	s->sport = 0;
	s->marked = s->damaged = false;
}

/* The headers that all request segments have. @op: RC's opcode. */
static inline void request_fill(const struct tqp *q, struct seg *s, uint8_t op)
{
	s->op = op | q->qp.service->wire;
	s->flags = SEG_SQPN | q->req.arming;
	s->pkey = 0xffff;
	s->dqpn = q->qp.attr.dest_qp_num;
	s->sqpn = q->qp.qpn;
	s->psn = q->req.psn;
}

/* Hands a segment to the link, with the ACK that is due. 0, or the errno of dest_send(). */
int request_emit(struct tqp *q, struct seg *s, uint64_t now);
/* The segments of @e up to @psn have left. */
void request_sent(struct tqp *q, const struct sent *e, uint32_t psn, uint64_t now);
/* The entry at cur cannot be sent at all. Errors come out in order: its completion waits until the
 * entries before it are done. False: the requester is to stop sending now; true: only the entry's
 * DCI stream has ended. */
bool request_fail(struct tqp *q, const struct wqe *w, enum verdict v, const struct gather *g,
		  uint64_t now);
