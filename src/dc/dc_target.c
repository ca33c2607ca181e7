// SPDX-License-Identifier: MIT
#include "dc/dc_target.h"
#include <errno.h>
#include "dc/dc_responder.h"
#include "engine/listeners.h"
#include "engine/path.h"
#include "engine/unanswered.h"
#include "hca/async.h"
#include "hca/limits.h"
#include "obs/explain.h"
#include "obs/verdict.h"
#include "transport/answer.h"
#include "transport/flush.h"
#include "util/clock.h"
#include "wire/aeth.h"
#include "wire/opcode.h"

static struct dc_target *to_target(struct eqp *e)
{
	return (struct dc_target *)e;
}

static struct dc_responder *of_entry(struct dc_entry *e)
{
	return e ? container_of(e, struct dc_responder, entry) : NULL;
}

/* --- which responder --- */

static struct dc_responder *idle_one(const struct dc_target *t)
{
	uint64_t now = clock_now();
	struct dc_entry *e = NULL;

	while ((e = dc_table_next(&t->table, e)))
		if (dc_responder_idle(of_entry(e), now))
			return of_entry(e);
	return NULL;
}

/* Under the lock. NULL: the target has as many connections as it may have, or memory is short. */
static struct dc_responder *take(struct dc_target *t, const struct dc_from *from)
{
	struct dc_responder *r = of_entry(dc_table_find(&t->table, from));

	if (r)
		return r;
	if (t->table.count < LIMIT_DC_RESPONDERS && !dc_responder_create(t, from, &r))
		return r;
	r = idle_one(t);
	if (!r)
		return NULL;
	dc_table_del(&t->table, &r->entry);
	r->entry.from = *from;
	dc_table_add(&t->table, &r->entry);
	return r;
}

/* eqp_ops.find: a request for a connection goes to its responder. What is refused, and how, is said
 * under the target's own turn. */
static struct eqp *find(struct eqp *e, const struct seg *s)
{
	struct dc_target *t = to_target(e);
	struct dc_responder *r = NULL;
	struct dc_from from;
	bool open;

	if (s->op != OP_DC_CONNECT || !dc_responder_from(s, &from))
		return NULL;
	pthread_mutex_lock(&t->lock);
	open = t->terms.state == IBV_QPS_RTR;
	if (open && s->dc_key == t->access_key && s->dc_mtu)
		r = take(t, &from);
	pthread_mutex_unlock(&t->lock);
	return r ? &r->e : e;
}

static void refuse_key(struct dc_target *t, const struct seg *s)
{
	const struct qp *qp = &t->e.q.qp;

	counters_inc(qp->ctx->hca->counters, COUNTER_RESP_REMOTE_ACCESS_ERRORS);
	verdict_say("NAK, not the target's access key");
	reason("DC target 0x%x refused initiator 0x%x: it names another access key; give both "
	       "sides the same (mlx5dv_create_qp, mlx5dv_wr_set_dc_addr)",
	       qp->qpn, s->sqpn);
	async_push_once(qp->ctx, IBV_EVENT_QP_ACCESS_ERR, qp->user);
}

/* The initiator's tries are used up, and a process of this host hears why. */
static void turn_away(struct eqp *e, const struct seg *s)
{
	struct grounds why = { GROUNDS_NO_QP };

	if (s->op == OP_DC_CONNECT)
		why = (struct grounds){ GROUNDS_STATE, { e->q.qp.state } };
	verdict_say("dropped, the target is not in RTR");
	dc_responder_none(e, s, why);
}

/* Requests for connections that no responder takes; no other segment is for a target. */
static void input(struct eqp *e, const struct seg *s, uint64_t now)
{
	struct dc_target *t = to_target(e);
	const struct ibv_qp_attr *attr = &e->q.qp.attr;
	struct dest *d;
	bool wrong;

	(void)now;
	if (s->op != OP_DC_CONNECT || e->q.qp.state != IBV_QPS_RTR) {
		turn_away(e, s);
		return;
	}
	wrong = s->dc_key != t->access_key; /* set before it can be in RTR */
	if (!s->dc_mtu)
		return; /* an end, for which nobody waits */
	if (dc_responder_way(e, attr, s, &d)) {
		verdict_say("dropped, no path leads back");
		dc_responder_none(e, s, (struct grounds){ GROUNDS_NONE });
		return;
	}
	if (wrong)
		refuse_key(t, s);
	else
		verdict_say("RNR NAK, the target has no connection left");
	dc_responder_answer(e, d, s, e->q.qp.qpn,
			    wrong ? aeth_nak(NAK_REMOTE_ACCESS) : aeth_rnr(attr->min_rnr_timer));
	path_put(d);
}

/* --- life --- */

/* The next responder behind @r. None goes from the table while the target lives. */
static struct dc_responder *next(struct dc_target *t, struct dc_responder *r)
{
	struct dc_entry *e;

	pthread_mutex_lock(&t->lock);
	e = dc_table_next(&t->table, r ? &r->entry : NULL);
	pthread_mutex_unlock(&t->lock);
	return of_entry(e);
}

static int modify(struct eqp *e, const struct ibv_qp_attr *attr, int mask)
{
	struct dc_target *t = to_target(e);
	int err = qp_life_modify_own(e, attr, mask);

	if (err)
		return err;
	pthread_mutex_lock(&t->lock);
	t->terms.state = e->q.qp.state;
	t->terms.attr = e->q.qp.attr;
	pthread_mutex_unlock(&t->lock);
	if (t->terms.state == IBV_QPS_RTR)
		listeners_add(e); /* initiators of other hosts come unasked */
	else
		for (struct dc_responder *r = NULL; (r = next(t, r));)
			dc_responder_reset(r);
	return 0;
}

static void end(struct eqp *e)
{
	struct dc_target *t = to_target(e);
	struct dc_responder *r;

	while ((r = of_entry(dc_table_next(&t->table, NULL)))) {
		dc_table_del(&t->table, &r->entry);
		dc_responder_destroy(r);
	}
	pthread_mutex_destroy(&t->lock);
}

/* The table stays as it is: a thread that the child does not have may have been changing it. */
static void forget(struct eqp *e)
{
	const struct dc_table *t = &to_target(e)->table;
	struct dc_entry *next, *at = dc_table_next(t, NULL);

	for (; at; at = next) {
		next = dc_table_next(t, at);
		dc_responder_destroy(of_entry(at));
	}
}

static void begin(struct eqp *e)
{
	pthread_mutex_init(&to_target(e)->lock, NULL);
}

static const struct tqp_env env = { .no_responder_later = unanswered_later };

static const struct eqp_ops ops = {
	.input = input, .find = find, .end = end, .forget = forget, .modify = modify
};

int dc_target_create(struct pd *pd, const struct qp_attr *attr, uint64_t access_key,
		     struct tqp **out)
{
	static const struct qp_life_kind kind = {
		.size = sizeof(struct dc_target), .env = &env, .ops = &ops, .begin = begin
	};
	struct dc_target *t;
	int err = qp_life_create_as(pd, attr, &kind, out);

	if (err)
		return err;
	t = to_target(to_eqp(*out));
	t->access_key = access_key;
	t->make = *attr;
	return 0;
}
