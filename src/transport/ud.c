// SPDX-License-Identifier: MIT
#include <errno.h>
#include "link/copy.h"
#include "obs/verdict.h"
#include "transport/blame.h"
#include "transport/blocked.h"
#include "transport/cast.h"
#include "transport/completion.h"
#include "transport/corked.h"
#include "transport/flush.h"
#include "transport/gather.h"
#include "transport/linear/linear.h"
#include "transport/pace.h"
#include "transport/place.h"
#include "transport/receive.h"
#include "transport/ud.h"
#include "wire/aeth.h"
#include "wire/grh.h"
#include "wire/opcode.h"

/* Finds the WQE's destination. 0 and a reference, which finish() gives back; or an errno. A
 * destination that the QP has waited for is kept, even if its process has ended: another may have
 * its address by now. */
static int resolve(struct tqp *q, const struct wqe *w)
{
	if (q->req.ud.full)
		return 0;
	return q->env->resolve(q, &w->av, w->dqpn, &q->req.ud.full);
}

static int send(struct tqp *q, struct seg *s, const struct wqe *w, uint64_t now)
{
	struct dest *d;
	int err;

	if (resolve(q, w))
		return ENETUNREACH;
	d = q->req.ud.full;
	s->more = d->ops->flush;
	err = dest_send(d, s, &q->waiter);
	if (unlikely(err == EAGAIN))
		return blocked_begin(q, d, w->dqpn, now) ? ENETUNREACH : EAGAIN;
	if (unlikely(err == ENETUNREACH) && link_has_notices(d))
		drop_unheard(q, w->dqpn);
	if (!err)
		blocked_over(q, d);
	if (!err && s->more)
		corked_keep(q, d);
	return err;
}

static bool payload(struct tqp *q, const struct wqe *w, struct gather *g)
{
	struct gather_ask ask = { w->sge, w->nsge, 0, w->len, q->qp.pd->pdn, 0, w->inlined };

	return gather(q->qp.ctx->hca->keys, &ask, g) || linear_source(q, &ask, w->len, g);
}

static bool fail(struct tqp *q, const struct wqe *w, const struct gather *g, uint64_t now)
{
	cast_stop(q);
	completion_fail(q, V_LOCAL_PROT, blame_wqe(q, w, V_LOCAL_PROT, g), now);
	return false;
}

static void finish(struct tqp *q, struct sent *e, uint64_t now)
{
	struct requester *r = &q->req;

	blocked_drop(q, &q->req.ud.full);
	r->una = r->psn = r->max_psn = psn_add(e->psn, e->npsn);
	r->cur++;
	completion_done(q, now);
}

bool ud_send(struct tqp *q, struct sent *e, const struct wqe *w, uint64_t now)
{
	struct gather g;
	struct seg s = { .op = w->opcode == MLX5_OPCODE_SEND_IMM ? SVC_UD | OP_SEND_ONLY_IMM
								 : SVC_UD | OP_SEND_ONLY,
			 .flags = SEG_SQPN | (w->solicited ? SEG_SOLICITED : 0),
			 .pkey = 0xffff,
			 .dqpn = w->dqpn,
			 .sqpn = q->qp.qpn,
			 .psn = e->psn,
			 .npsn = 1,
			 .imm = w->imm,
			 .av = &w->av,
			 .len = w->len };
	int err;

	if (!e->npsn) { /* NOP */
		finish(q, e, now);
		return true;
	}
	if (!payload(q, w, &g))
		return fail(q, w, &g, now);
	s.qkey = w->qkey & UD_PRIVILEGED_QKEY ? q->qp.attr.qkey : w->qkey;
	s.pieces = g.piece;
	s.npieces = g.n;
	if (w->dqpn == MULTICAST_QPN) {
		s.flags |= SEG_MCAST | SEG_NO_REF;
		err = cast_send(q, &s, now);
	} else {
		err = send(q, &s, w, now);
	}
	if (err == EAGAIN)
		return false;
	if (err == EFAULT) {
		g.why = KEY_OK;
		return fail(q, w, &g, now);
	}
	if (unlikely(q->req.pace.kbps))
		pace_sent(q, w->len, 1, now);
	finish(q, e, now); /* UD does not learn whether the datagram has arrived */
	return true;
}

static bool wanted(struct tqp *q, const struct seg *s)
{
	if (s->qkey != q->qp.attr.qkey) {
		drop_say(q, s, DROP_QKEY);
		return false;
	}
	if (s->len > q->req.mtu) {
		drop_say(q, s, DROP_LONG);
		return false;
	}
	if ((s->flags & SEG_MCAST) && !(s->flags & SEG_NET) && s->sqpn == q->qp.qpn &&
	    (q->qp.create_flags & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB)) {
		verdict_say("dropped, the QP does not hear itself");
		return false;
	}
	return true;
}

/* Stores the GRH, then the payload. */
static int store(struct tqp *q, const struct seg *s, struct gather *g)
{
	static const uint8_t none[GRH_LEN];
	const struct pd *pd = q->qp.srq ? q->qp.srq->pd : q->qp.pd;
	struct gather_ask ask = { q->rsp.rwqe.sge, q->rsp.rwqe.nsge, 0,
				  GRH_LEN,	   pd->pdn,	     IBV_ACCESS_LOCAL_WRITE };

	if (!gather(q->qp.ctx->hca->keys, &ask, g))
		return EACCES;
	if (copy_scatter(g->piece, g->n, 0, s->grh ? s->grh : none, GRH_LEN))
		return EFAULT;
	ask.skip = GRH_LEN;
	ask.len = s->len;
	if (!gather(q->qp.ctx->hca->keys, &ask, g) && !linear_place(q, &ask, s, 0, g))
		return EACCES;
	return place_copy(q, s, 0, g);
}

void ud_complete(struct tqp *q, const struct seg *s, uint64_t now)
{
	struct cqe c = { .opcode = opcode_has(s->op, WIRE_IMMDT) ? MLX5_CQE_RESP_SEND_IMM
								 : MLX5_CQE_RESP_SEND,
			 .solicited = s->flags & SEG_SOLICITED,
			 .grh = true,
			 .l3 = s->l3,
			 .sl = s->sl,
			 .wqe_counter = q->rsp.rwqe.idx,
			 .pkey = s->pkey,
			 .uidx = q->qp.uidx,
			 .qpn = q->qp.qpn,
			 .src_qp = s->sqpn,
			 .byte_cnt = s->len + GRH_LEN,
			 .imm = opcode_has(s->op, WIRE_IMMDT) ? s->imm : 0,
			 .timestamp = now };

	q->rsp.have_rwqe = false;
	moved_add(&q->tally.received, s->len, 1);
	if (unlikely(s->flags & SEG_MCAST))
		counters_inc(q->qp.ctx->hca->counters, COUNTER_MULTICAST_RCV_PACKETS);
	if (receive_push(q, q->qp.rcq, &c) == EOVERFLOW)
		flush_overrun(q, q->qp.rcq, now);
}

void ud_input(struct tqp *q, const struct seg *s, uint64_t now)
{
	struct refusal no = { V_LOCAL_PROT, 0 };
	struct gather g;

	if (!wanted(q, s)) {
		counters_inc(q->qp.ctx->hca->counters, COUNTER_PORT_RCV_ERRORS);
		return;
	}
	if (receive_take(q)) {
		counters_inc(q->qp.ctx->hca->counters, COUNTER_OUT_OF_BUFFER);
		drop_say(q, s, DROP_NO_RECEIVE);
		return;
	}
	if (s->len + GRH_LEN > q->rsp.rwqe.len) {
		no.v = V_LOCAL_LENGTH;
		no.id = blame_short(q, s, s->len + GRH_LEN, q->rsp.rwqe.len);
		place_fail(q, &no, now);
		drop_refused(q, s);
		return;
	}
	switch (store(q, s, &g)) {
	case 0:
		ud_complete(q, s, now);
		break;
	case EPERM:
	case EREMOTEIO:
		break; /* lost on the way; the receive WQE serves the next one */
	default:
		no.id = blame_receive(q, &g);
		place_fail(q, &no, now);
		drop_refused(q, s);
		break;
	}
}
