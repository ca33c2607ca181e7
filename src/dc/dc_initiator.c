// SPDX-License-Identifier: MIT
#include "dc/dc_initiator.h"
#include <errno.h>
#include <string.h>
#include "dc/dc_streams.h"
#include "engine/acks.h"
#include "engine/corks.h"
#include "engine/path.h"
#include "engine/path_kept.h"
#include "engine/publish.h"
#include "engine/turn.h"
#include "engine/unanswered.h"
#include "obs/explain.h"
#include "obs/verdict.h"
#include "transport/ack_timer.h"
#include "transport/blame.h"
#include "transport/completion.h"
#include "transport/congestion.h"
#include "transport/flush.h"
#include "transport/recovery.h"
#include "transport/retry.h"
#include "transport/sent.h"
#include "util/clock.h"
#include "wire/aeth.h"
#include "wire/opcode.h"

/* ns */
#define LEASE	 UINT64_C(1000000000) /* an idle connection is not used after it (dc_responder.c) */
#define REPEAT	 UINT64_C(50000000) /* a request lost on the network is repeated after it */
#define PATIENCE 2
#define REPEATS	 4 /* each waits twice as long as the one before, up to so many */
#define TICK_LOG 10 /* sessions count on when a process starts anew: ns >> this */

enum dc_state { DC_NONE, DC_ASKS /* for want of room */, DC_ASKED, DC_OPEN };

struct dc_initiator { /* the turn's */
	struct eqp e; /* first */
	enum dc_state state;
	uint32_t dctn, session;
	uint64_t key;
	struct av av;
	uint64_t at; /* ns: when a request went to the responder last */
	struct dc_streams streams;
	uint32_t psn; /* the requester's then; direct access, of which the target sees nothing,
			 leaves it as it is */
};

static struct dc_initiator *to_initiator(struct tqp *q)
{
	return (struct dc_initiator *)q;
}

/* --- asking --- */

static struct seg connect_seg(const struct dc_initiator *i, uint32_t dqpn, uint32_t mtu)
{
	return (struct seg){ .op = OP_DC_CONNECT,
			     .flags = SEG_SQPN,
			     .pkey = 0xffff,
			     .dqpn = dqpn,
			     .sqpn = i->e.q.qp.qpn,
			     .psn = i->e.q.req.psn,
			     .npsn = 1,
			     .dc_key = mtu ? i->key : 0,
			     .dc_session = i->session,
			     .dc_mtu = mtu };
}

/* ns that a try takes: through a network four times the attribute, as for what RC repeats. */
static uint64_t try_ns(const struct tqp *q)
{
	uint64_t ns = aeth_timeout_ns(q->qp.attr.timeout);

	return ns == UINT64_MAX || !link_may_congest(q->dest) ? ns : ns << PATIENCE;
}

/* Through a network the request or its answer may be lost, and a target that is silent uses up the
 * tries of the work request. On this host only the notice that nobody is there starts that. */
static void await(struct tqp *q, bool lost, uint64_t now)
{
	struct requester *r = &q->req;
	uint64_t try_at = r->tries.end, again;

	if (link_is_lossless(q->dest) && !lost && !r->doubt)
		return;
	ack_timer_lost(q, now);
	if (try_at == TQP_NEVER || try_at <= now) /* the next try begins */
		try_at = try_ns(q) == UINT64_MAX ? TQP_NEVER : now + try_ns(q);
	r->tries.end = try_at;
	again = now + (REPEAT << (r->tries.repeats < REPEATS ? r->tries.repeats : REPEATS));
	if (!link_may_congest(q->dest) || again > try_at)
		again = try_at;
	ack_timer_set(q, again);
}

static void ask(struct dc_initiator *i, uint64_t now)
{
	struct tqp *q = &i->e.q;
	struct seg s = connect_seg(i, i->dctn, q->req.mtu);
	int err = dest_send(q->dest, &s, &q->waiter);

	if (err == EAGAIN) {
		i->state = DC_ASKS;
		q->req.blocked = true;
		return;
	}
	i->state = DC_ASKED;
	q->asking = true;
	await(q, err != 0, now);
}

/* The target need not wait for silence. That the word is lost does no harm. */
static void leave(struct dc_initiator *i)
{
	struct tqp *q = &i->e.q;
	struct seg s = connect_seg(i, q->qp.attr.dest_qp_num, 0);

	if (i->state == DC_OPEN && q->dest)
		dest_send(q->dest, &s, NULL);
	i->state = DC_NONE;
	q->asking = false;
}

/* What the requester has learned of the last peer does not count for the next. */
static void forget_peer(struct tqp *q)
{
	struct requester *r = &q->req;

	recovery_end(q);
	sender_forget(q);
	r->credit = (struct credit){ 0 };
	r->rtt = (struct rtt){ 0 };
	r->direct.exchanged = r->by_value = r->no_ref = r->direct.waited = false;
	r->part = 0;
	congestion_begin(q);
}

static void begin(struct dc_initiator *i, const struct wqe *w, uint64_t now)
{
	struct tqp *q = &i->e.q;
	uint32_t tick = (uint32_t)(now >> TICK_LOG);
	struct dest *d = NULL;

	leave(i);
	if (path_kept_resolve(q, &w->av, w->dqpn, &d))
		d = NULL;
	path_swap(&i->e, d);
	forget_peer(q);
	i->dctn = w->dqpn;
	i->key = w->dc_key;
	i->av = w->av;
	i->session = (int32_t)(tick - i->session) > 0 || !i->session ? tick : i->session + 1;
	if (d)
		ask(i, now);
	else
		ack_timer_lost(q, now); /* no path leads there: the tries are used up */
}

static bool same(const struct dc_initiator *i, const struct wqe *w)
{
	return i->dctn == w->dqpn && i->key == w->dc_key &&
	       !memcmp(&i->av.dgid, &w->av.dgid, sizeof(i->av.dgid)) &&
	       i->av.sgid_index == w->av.sgid_index && i->av.flow_label == w->av.flow_label &&
	       i->av.traffic_class == w->av.traffic_class && i->av.hop_limit == w->av.hop_limit &&
	       i->av.sport == w->av.sport;
}

/* tqp_env.route */
static bool route(struct tqp *q, const struct wqe *w, bool idle, uint64_t now)
{
	struct dc_initiator *i = to_initiator(q);
	bool here = i->state != DC_NONE && q->dest && same(i, w);

	if (likely(here && i->state == DC_OPEN && (!idle || clock_elapsed(i->at, now) < LEASE))) {
		if (q->req.psn != i->psn)
			i->at = now;
		i->psn = q->req.psn;
		return true;
	}
	if (!idle || q->req.una != q->req.max_psn)
		return false;
	if (!here || i->state == DC_OPEN)
		begin(i, w, now);
	else if (i->state == DC_ASKS || !link_is_lossless(q->dest) || q->req.doubt)
		ask(i, now);
	return false;
}

/* --- streams --- */

/* tqp_env.stopped */
static bool stopped(const struct tqp *q, uint16_t block)
{
	const struct dc_initiator *i = (const struct dc_initiator *)q;

	return i->streams.n && dc_streams_stopped(&i->streams, wqe_stream(&q->qp.sq, block));
}

/* tqp_env.spare: where a request was refused the responder takes no other, so what is left goes to
 * a new one. */
static bool spare(struct tqp *q, uint16_t block)
{
	struct dc_initiator *i = to_initiator(q);

	if (!dc_streams_stop(&i->streams, wqe_stream(&q->qp.sq, block)))
		return false;
	leave(i);
	return true;
}

/* --- answers --- */

static bool is_asked(struct dc_initiator *i, const struct seg *s, uint64_t now)
{
	struct tqp *q = &i->e.q;
	uint32_t was = q->qp.attr.dest_qp_num;

	if (i->state != DC_ASKED || s->psn != q->req.psn || !q->dest ||
	    (q->qp.state != IBV_QPS_RTS && q->qp.state != IBV_QPS_SQD))
		return false;
	q->qp.attr.dest_qp_num = s->sqpn; /* the responder */
	if (sender_admits(q, s, now))
		return true;
	q->qp.attr.dest_qp_num = was;
	return false;
}

static void opened(struct dc_initiator *i, uint64_t now)
{
	struct tqp *q = &i->e.q;

	i->state = DC_OPEN;
	i->at = now;
	i->psn = q->req.psn;
	q->asking = false;
	ack_timer_progress(q, now);
}

static void refused(struct dc_initiator *i, uint64_t now)
{
	struct tqp *q = &i->e.q;

	i->state = DC_NONE;
	q->asking = false;
	if (q->req.head != q->req.cur || q->req.head == q->req.tail)
		return;
	q->req.told.what = (struct grounds){ GROUNDS_ACCESS_KEY };
	q->req.told.psn = q->req.psn;
	completion_fail(q, V_REMOTE_ACCESS,
			blame_peer(q, sent_at(&q->req, q->req.head), V_REMOTE_ACCESS), now);
}

static void busy(struct dc_initiator *i, uint8_t syndrome, uint64_t now)
{
	struct tqp *q = &i->e.q;

	i->state = DC_ASKS;
	q->asking = false;
	q->req.wait = WAIT_NOTHING;
	if (q->req.head != q->req.tail)
		retry_rnr(q, syndrome, now);
}

static void answered(struct dc_initiator *i, const struct seg *s, uint64_t now)
{
	struct tqp *q = &i->e.q;

	if (s->dc_answered != i->session || !is_asked(i, s, now)) {
		counters_inc(q->qp.ctx->hca->counters, COUNTER_PORT_RCV_ERRORS);
		verdict_say("dropped, not the answer of the target that is asked");
		return;
	}
	if (s->syndrome == SYN_NO_RESPONDER) {
		if (!(s->flags & SEG_NET))
			await(q, true, now);
		return;
	}
	if (aeth_kind(s->syndrome) == AETH_ACK)
		opened(i, now);
	else if (aeth_kind(s->syndrome) == AETH_RNR)
		busy(i, s->syndrome, now);
	else
		refused(i, now);
	requester_answered(q, now);
	flush_drained(q);
}

/* Why the answer that follows is a refusal: nobody connects. */
static void grounds(struct dc_initiator *i, const struct seg *s, uint64_t now)
{
	struct grounds g;

	if (!s->data || !grounds_decode(s->data, s->len, &g) || !is_asked(i, s, now))
		return;
	i->e.q.req.told.what = g;
	i->e.q.req.told.psn = s->psn;
}

static void input(struct eqp *e, const struct seg *s, uint64_t now)
{
	if (unlikely(s->op == OP_GROUNDS && to_initiator(&e->q)->state == DC_ASKED))
		grounds(to_initiator(&e->q), s, now);
	else if (unlikely(s->op == OP_DC_ANSWER))
		answered(to_initiator(&e->q), s, now);
	else
		tqp_input(&e->q, s, now);
}

/* --- life --- */

static void part(struct eqp *e)
{
	quiesce_enter();
	turn_take(e);
	leave(to_initiator(&e->q));
	to_initiator(&e->q)->streams.n = 0;
	turn_leave(e);
	quiesce_exit();
}

static int modify(struct eqp *e, const struct ibv_qp_attr *attr, int mask)
{
	if (mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RESET)
		part(e);
	return qp_life_modify_own(e, attr, mask);
}

static const struct tqp_env env = {
	.ack_later = acks_later,
	.cork = corks_wait,
	.moved = publish_moved,
	.no_responder_later = unanswered_later,
	.route = route,
	.spare = spare,
	.stopped = stopped,
};

static const struct eqp_ops ops = { .input = input, .end = part, .modify = modify };

int dc_initiator_create(struct pd *pd, const struct qp_attr *attr, uint32_t errored,
			struct tqp **out)
{
	const struct qp_life_kind kind = { .size = sizeof(struct dc_initiator),
					   .env = &env,
					   .ops = &ops };
	int err = qp_life_create_as(pd, attr, &kind, out);

	if (!err)
		to_initiator(*out)->streams.most = errored;
	return err;
}

int dc_initiator_stream_reset(struct tqp *q, uint16_t id)
{
	struct eqp *e = to_eqp(q);
	int err = 0;

	quiesce_enter();
	turn_take(e);
	if (q->qp.state != IBV_QPS_RTS)
		err = refuse(EOPNOTSUPP,
			     "mlx5dv_dci_stream_id_reset: QP 0x%x is in %s; streams are reset in "
			     "RTS",
			     q->qp.qpn, qp_state_name(q->qp.state));
	else if (!dc_streams_reset(&to_initiator(q)->streams, id))
		err = refuse(EINVAL,
			     "mlx5dv_dci_stream_id_reset: stream %u of QP 0x%x is not in error; "
			     "reset those whose work requests have failed",
			     id, q->qp.qpn);
	turn_leave(e);
	quiesce_exit();
	return err;
}
