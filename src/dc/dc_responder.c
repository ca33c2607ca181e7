// SPDX-License-Identifier: MIT
#include "dc/dc_responder.h"
#include <errno.h>
#include <string.h>
#include "engine/acks.h"
#include "engine/eqp_life.h"
#include "engine/path.h"
#include "engine/publish.h"
#include "engine/qp_table.h"
#include "engine/turn.h"
#include "engine/unanswered.h"
#include "hca/async.h"
#include "obs/verdict.h"
#include "transport/answer.h"
#include "transport/flush.h"
#include "util/clock.h"
#include "wire/aeth.h"
#include "wire/grh.h"
#include "wire/opcode.h"

/* ns without a request, after which another initiator may take its place; initiators connect anew
 * after a third of that (dc_initiator.c). */
#define SILENCE UINT64_C(3000000000)

static struct dc_responder *to_responder(struct eqp *e)
{
	return (struct dc_responder *)e;
}

/* --- ways and answers --- */

bool dc_responder_from(const struct seg *s, struct dc_from *out)
{
	struct grh g;

	*out = (struct dc_from){ .qpn = s->sqpn };
	if (!(s->flags & SEG_NET))
		return s->from && s->flags & SEG_SQPN;
	if (!s->grh || grh_parse(s->grh, &g))
		return false;
	memcpy(out->gid, g.sgid, sizeof(out->gid));
	return true;
}

/* A number of this host belongs to a process: only that one may say that it is the sender. */
static bool is_its_own(const struct dest *way, const struct seg *s)
{
	uint64_t process = dest_process(way);

	return dest_innermost(way) == dest_innermost(s->from) ||
	       (process && process == dest_process(s->from));
}

int dc_responder_way(struct eqp *e, const struct ibv_qp_attr *attr, const struct seg *s,
		     struct dest **out)
{
	struct av av;
	struct path_ask ask = { &av, s->sqpn, 128U << attr->path_mtu };
	struct dc_from from;
	int err;

	if (!dc_responder_from(s, &from))
		return EINVAL;
	av_from_attr(&attr->ah_attr, &av);
	if (s->flags & SEG_NET) {
		memcpy(av.dgid.raw, from.gid, sizeof(av.dgid.raw));
		return path_find(e, &ask, out);
	}
	err = path_to_number(e, &av, s->sqpn, out);
	if (err || is_its_own(*out, s))
		return err;
	path_put(*out);
	return EPERM;
}

void dc_responder_answer(struct eqp *e, struct dest *to, const struct seg *s, uint32_t qpn,
			 uint8_t syndrome)
{
	struct seg a = { .op = OP_DC_ANSWER,
			 .flags = SEG_SQPN,
			 .pkey = 0xffff,
			 .dqpn = s->sqpn,
			 .sqpn = qpn,
			 .psn = s->psn,
			 .npsn = 1,
			 .syndrome = syndrome,
			 .dc_answered = s->dc_session };

	if (dest_send(to, &a, NULL) == EAGAIN)
		unanswered_put(e->node, s); /* the initiator asks again */
}

void dc_responder_none(struct eqp *e, const struct seg *s, struct grounds why)
{
	if (answer_no_responder(s, why) == EAGAIN)
		unanswered_put(e->node, s);
}

/* --- connections --- */

static void to_reset(struct dc_responder *r, uint64_t now)
{
	struct tqp *q = &r->e.q;
	enum ibv_qp_state old = q->qp.state;

	if (old == IBV_QPS_RESET)
		return;
	store_relaxed(&q->qp.state, IBV_QPS_RESET);
	tqp_moved(q, old, now);
	path_swap(&r->e, NULL);
	memset(&q->qp.attr, 0, sizeof(q->qp.attr));
	publish(&r->e);
}

static enum ibv_mtu mtu_of(uint32_t bytes)
{
	for (enum ibv_mtu m = IBV_MTU_256; m <= IBV_MTU_4096; m++)
		if (128U << m == bytes)
			return m;
	return 0;
}

/* Both ends count from the initiator's PSN, by its path MTU. */
static void to_rtr(struct dc_responder *r, const struct dc_terms *terms, const struct seg *s,
		   struct dest *d, uint64_t now)
{
	struct tqp *q = &r->e.q;
	struct ibv_qp_attr *a = &q->qp.attr;

	*a = terms->attr;
	a->path_mtu = mtu_of(s->dc_mtu);
	a->dest_qp_num = s->sqpn;
	a->rq_psn = s->psn;
	a->max_dest_rd_atomic = RESPONDER_DEPTH;
	path_swap(&r->e, d);
	store_relaxed(&q->qp.state, IBV_QPS_RTR);
	tqp_moved(q, IBV_QPS_INIT, now);
	q->rsp.comm_est = true; /* no event: a target is connected to many */
	q->rsp.now = now;
	sender_admits(q, s, now); /* through a network: its port is the initiator's */
	r->session = s->dc_session;
	publish(&r->e);
}

/* Is the responder still for @from? Meanwhile another may have got its place. */
static bool terms_for(struct dc_responder *r, const struct dc_from *from, struct dc_terms *out)
{
	struct dc_target *t = r->target;
	bool ok;

	pthread_mutex_lock(&t->lock);
	ok = dc_table_same(&r->entry.from, from) && t->terms.state == IBV_QPS_RTR;
	*out = t->terms;
	pthread_mutex_unlock(&t->lock);
	return ok;
}

/* Asks the initiator for the connection that it has? Its answer was lost. */
static bool is_again(const struct dc_responder *r, const struct seg *s)
{
	const struct tqp *q = &r->e.q;

	return q->qp.state == IBV_QPS_RTR && r->session == s->dc_session && q->rsp.epsn == s->psn;
}

/* A packet that was long under way must not end the connection that came after it. */
static bool is_late(const struct dc_responder *r, const struct seg *s, uint64_t now)
{
	return (int32_t)(s->dc_session - r->session) <= 0 &&
	       clock_elapsed(r->e.q.rsp.now, now) < SILENCE / 3;
}

/* NULL, or why there is no connection. */
static const char *open_for(struct dc_responder *r, const struct seg *s, uint64_t now)
{
	struct dc_from from;
	struct dc_terms terms;
	struct dest *d;
	bool met;

	/* anybody may have found out the responder's number */
	if (!dc_responder_from(s, &from) || !terms_for(r, &from, &terms) ||
	    s->dc_key != r->target->access_key || !mtu_of(s->dc_mtu))
		return "dropped, the target does not connect so";
	met = dc_table_same(&r->met, &from);
	if (!met || !is_again(r, s)) {
		if (met && is_late(r, s, now))
			return "dropped, its connection has ended";
		terms.attr.path_mtu = mtu_of(s->dc_mtu);
		if (dc_responder_way(&r->e, &terms.attr, s, &d))
			return "dropped, no path leads back";
		to_reset(r, now);
		to_rtr(r, &terms, s, d, now);
		r->met = from;
	}
	dc_responder_answer(&r->e, r->e.q.dest, s, r->e.q.qp.qpn, AETH_UNLIMITED);
	return NULL;
}

static void asked(struct dc_responder *r, const struct seg *s, uint64_t now)
{
	const char *why = open_for(r, s, now);

	if (!why)
		return;
	verdict_say(why);
	dc_responder_none(&r->e, s, (struct grounds){ GROUNDS_NONE });
}

static void disconnect(struct dc_responder *r, const struct seg *s, uint64_t now)
{
	struct tqp *q = &r->e.q;

	if (s->dc_session == r->session && s->sqpn == q->qp.attr.dest_qp_num &&
	    sender_admits(q, s, now))
		to_reset(r, now);
	else
		verdict_say("dropped, not the end of this connection");
}

static void input(struct eqp *e, const struct seg *s, uint64_t now)
{
	if (likely(s->op != OP_DC_CONNECT))
		tqp_input(&e->q, s, now);
	else if (s->dc_mtu)
		asked(to_responder(e), s, now);
	else
		disconnect(to_responder(e), s, now);
}

/* --- life --- */

/* The target's program hears of what its keys and memory refuse; that one of many connections has
 * ended is no event of the target. */
static void event(struct tqp *q, enum ibv_event_type type)
{
	const struct dc_responder *r = to_responder(to_eqp(q));

	if (type == IBV_EVENT_QP_ACCESS_ERR || type == IBV_EVENT_QP_REQ_ERR ||
	    type == IBV_EVENT_QP_FATAL)
		async_push_once(q->qp.ctx, type, r->target->make.user);
}

static const struct tqp_env env = {
	.ack_later = acks_later,
	.ack_delay = acks_delay,
	.moved = publish_moved,
	.no_responder_later = unanswered_later,
	.event = event,
};

static const struct eqp_ops ops = { .input = input };

int dc_responder_create(struct dc_target *t, const struct dc_from *from, struct dc_responder **out)
{
	static const struct qp_life_kind kind = {
		.size = sizeof(struct dc_responder), .env = &env, .ops = &ops, .spare = true
	};
	struct qp_attr attr = t->make;
	struct dc_responder *r;
	struct tqp *q;
	int err;

	attr.service = &services[SERVICE_DC_RESPONDER];
	attr.user = NULL; /* its events are the target's */
	err = qp_life_create_as(t->e.q.qp.pd, &attr, &kind, &q);
	if (err)
		return err;
	r = to_responder(to_eqp(q));
	q->qp.shown = t->e.q.qp.qpn;
	r->target = t;
	r->entry.from = *from;
	dc_table_add(&t->table, &r->entry);
	*out = r;
	return 0;
}

bool dc_responder_idle(const struct dc_responder *r, uint64_t now)
{
	return load_relaxed(&r->e.q.qp.state) != IBV_QPS_RTR ||
	       clock_elapsed(load_relaxed(&r->e.q.rsp.now), now) > SILENCE;
}

void dc_responder_reset(struct dc_responder *r)
{
	quiesce_enter();
	turn_take(&r->e);
	to_reset(r, clock_now());
	turn_leave(&r->e);
	quiesce_exit();
	host_revoke_qp(r->e.node->host, r->e.q.qp.qpn);
}

void dc_responder_destroy(struct dc_responder *r)
{
	qp_life_destroy(&r->e.q);
}
