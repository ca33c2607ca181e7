// SPDX-License-Identifier: MIT
#include "engine/qp_life.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "engine/acks.h"
#include "engine/corks.h"
#include "engine/eqp_life.h"
#include "engine/frames.h"
#include "engine/groups.h"
#include "engine/listeners.h"
#include "engine/path.h"
#include "engine/path_kept.h"
#include "engine/progress.h"
#include "engine/publish.h"
#include "engine/qp_table.h"
#include "engine/timers.h"
#include "engine/tracing.h"
#include "engine/turn.h"
#include "engine/unanswered.h"
#include "hca/limits.h"
#include "hca/mcast.h"
#include "obs/explain.h"
#include "transport/apm.h"
#include "util/clock.h"
#include "util/fork.h"

/* tqp_env.cast */
static int cast(struct tqp *q, const struct seg *s)
{
	int err = s->op == FRAME_OP ? frames_send(q, s) : groups_send(q, s);

	if (!err && s->op != FRAME_OP)
		counters_inc(q->qp.ctx->hca->counters, COUNTER_MULTICAST_XMIT_PACKETS);
	if (!err && unlikely(tracing()))
		tracing_cast(to_eqp(q), s);
	return err;
}

/* tqp_env.polls: those that found nothing, and what the others found. */
static uint32_t polls(const struct tqp *q)
{
	const struct node *n = container_of(q, struct eqp, q)->node;

	return load_relaxed(&n->poll_seq) + cq_consumed(q->qp.scq);
}

static uint64_t time_now(const struct tqp *q)
{
	(void)q;
	return clock_now();
}

static const struct tqp_env env = {
	.resolve = path_kept_resolve,
	.ack_later = acks_later,
	.ack_delay = acks_delay,
	.cork = corks_wait,
	.polls = polls,
	.clock = time_now,
	.moved = publish_moved,
	.usable = path_usable,
	.watch = timers_watch,
	.again = path_again,
	.no_responder_later = unanswered_later,
	.cast = cast,
	.route = path_route,
};

/* --- life --- */

static void eqp_free(struct eqp *e)
{
	path_put(e->q.dest);
	path_put(e->q.alternate);
	qp_fini(&e->q.qp);
	free(e);
}

int qp_life_create(struct pd *pd, const struct qp_attr *attr, struct tqp **out)
{
	static const struct qp_life_kind ordinary = { .size = sizeof(struct eqp), .env = &env };

	return qp_life_create_as(pd, attr, &ordinary, out);
}

int qp_life_create_as(struct pd *pd, const struct qp_attr *attr, const struct qp_life_kind *kind,
		      struct tqp **out)
{
	struct node *n = node_self();
	struct eqp *e;
	uint32_t qpn = 0;
	int err;

	if (!n || !fork_is_ours(pd->epoch))
		return refuse(EIO, "ibv_create_qp: the PD was made before fork(); make a new one");
	e = aligned_alloc(64, (kind->size + 63) & ~(size_t)63);
	if (!e)
		return refuse_memory("ibv_create_qp", kind->size);
	memset(e, 0, kind->size);
	err = kind->spare ? qp_table_spare(n, &qpn) : qp_table_take(n, &qpn);
	if (err) {
		free(e);
		return err;
	}
	err = qp_init(&e->q.qp, pd, attr, qpn);
	if (err) {
		qp_table_give(n, qpn);
		free(e);
		return err;
	}
	e->ops = kind->ops;
	eqp_life_begin(e, n, kind->env);
	if (kind->begin)
		kind->begin(e);
	if (attr->service->frames)
		frames_begin(device_of(&e->q));
	publish(e);
	qp_table_set(n, qpn, e);
	*out = &e->q;
	return 0;
}

static int modify_in_turn(struct eqp *e, const struct ibv_qp_attr *attr, int mask, struct dest *d,
			  struct dest *alternate)
{
	struct tqp *q = &e->q;
	enum ibv_mig_state mig;
	enum ibv_qp_state old;
	int err;

	quiesce_enter();
	turn_take(e);
	old = q->qp.state;
	mig = q->qp.attr.path_mig_state;
	err = qp_modify(&q->qp, attr, mask);
	if (!err) {
		if (d) {
			sender_follow(q, d);
			path_swap(e, d);
			e->route = 0;
			if (dest_dead(d)) /* the news of it came before the QP had it */
				turn_note(e, TURN_DEATH);
		}
		if (alternate)
			path_swap_alternate(e, alternate);
		if (q->qp.state != IBV_QPS_RESET)
			apm_modified(q, mig, clock_now());
		publish(e);
		e->met = false;
		tqp_moved(q, old, clock_now());
		if (q->qp.state == IBV_QPS_RESET) {
			q->qp.udp_sport = 0;
			path_swap(e, NULL);
			path_swap_alternate(e, NULL);
			e->route = 0;
		}
		turn_after(e);
	}
	turn_leave(e);
	progress_own(e->node);
	quiesce_exit();
	return err;
}

/* Delivers what a call has sent to this process itself; passes its errno on. */
static int deliver_own(struct node *n, int err)
{
	quiesce_enter();
	progress_own(n);
	quiesce_exit();
	return err;
}

int qp_life_modify(struct tqp *q, const struct ibv_qp_attr *attr, int mask)
{
	struct eqp *e = to_eqp(q);

	if (e->ops && e->ops->modify)
		return deliver_own(e->node, e->ops->modify(e, attr, mask));
	return qp_life_modify_own(e, attr, mask);
}

int qp_life_modify_own(struct eqp *e, const struct ibv_qp_attr *attr, int mask)
{
	struct tqp *q = &e->q;
	struct dest *d, *alternate = NULL;
	int err;

	err = path_of_modify(e, attr, mask, false, &d);
	if (!err)
		err = path_of_modify(e, attr, mask, true, &alternate);
	if (!err)
		err = modify_in_turn(e, attr, mask, d, alternate);
	if (err) {
		path_put(d);
		path_put(alternate);
		return err;
	}
	if (q->qp.service->wire == SVC_UD && (mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RTR)
		listeners_add(e);
	host_revoke_qp(e->node->host, q->qp.qpn);
	return 0;
}

static int rate_check(uint32_t qpn, const struct ibv_qp_rate_limit_attr *a)
{
	if (a->comp_mask)
		return refuse(EINVAL,
			      "ibv_modify_qp_rate_limit: QP 0x%x: comp_mask 0x%x, nothing is "
			      "defined; pass 0",
			      qpn, a->comp_mask);
	if (a->rate_limit > LIMIT_RATE)
		return refuse(EINVAL,
			      "ibv_modify_qp_rate_limit: QP 0x%x: rate_limit %u kbit/s is over the "
			      "device's %d; ask for less, or 0 for no limit",
			      qpn, a->rate_limit, LIMIT_RATE);
	if (!a->rate_limit && (a->max_burst_sz || a->typical_pkt_sz))
		return refuse(EINVAL,
			      "ibv_modify_qp_rate_limit: QP 0x%x: max_burst_sz %u and "
			      "typical_pkt_sz %u without a rate_limit; set one, or all to 0",
			      qpn, a->max_burst_sz, a->typical_pkt_sz);
	return 0;
}

int qp_life_rate(struct tqp *q, const struct ibv_qp_rate_limit_attr *attr)
{
	struct eqp *e = to_eqp(q);
	int err = rate_check(q->qp.qpn, attr);
	enum ibv_qp_state s;

	if (!err && !q->qp.service->sends)
		err = refuse(EINVAL,
			     "ibv_modify_qp_rate_limit: QP 0x%x is of type %s, which sends "
			     "nothing; set it on the QP that sends",
			     q->qp.qpn, q->qp.service->name);
	if (err)
		return err;
	quiesce_enter();
	turn_take(e);
	s = q->qp.state;
	if (s == IBV_QPS_RTS || s == IBV_QPS_SQD) {
		q->qp.attr.rate_limit = attr->rate_limit;
		tqp_rate(q, attr->max_burst_sz, clock_now());
		turn_after(e);
	} else {
		err = refuse(EINVAL,
			     "ibv_modify_qp_rate_limit: QP 0x%x is in %s; a rate is set in RTS or "
			     "SQD",
			     q->qp.qpn, qp_state_name(s));
	}
	turn_leave(e);
	progress_own(e->node);
	quiesce_exit();
	return err;
}

static bool has_source_port(const struct tqp *q)
{
	const struct service *s = q->qp.service;

	return s->connected && s->sends && s->wqe == WQE_CONNECTED && s->home == HOME_PD;
}

int qp_life_udp_sport(struct tqp *q, uint16_t sport)
{
	struct eqp *e = to_eqp(q);
	uint16_t before = q->qp.udp_sport;
	struct dest *d = NULL;
	int err;

	if (!has_source_port(q) || load_relaxed(&q->qp.state) != IBV_QPS_RTS)
		return refuse(
			EOPNOTSUPP,
			"mlx5dv_modify_qp_udp_sport: QP 0x%x (%s) in state %d; RC and UC have "
			"a source port, in RTS (%d)",
			q->qp.qpn, q->qp.service->name, load_relaxed(&q->qp.state), IBV_QPS_RTS);
	q->qp.udp_sport = sport;
	err = path_of_modify(e, &q->qp.attr, IBV_QP_AV, false, &d);
	if (err) {
		q->qp.udp_sport = before;
		return err;
	}
	quiesce_enter();
	turn_take(e);
	if (d && d->net) { /* within the host there is no packet, and the old way stays */
		sender_follow(q, d);
		path_swap(e, d);
		d = NULL;
		turn_after(e);
	}
	turn_leave(e);
	progress_own(e->node);
	quiesce_exit();
	path_put(d);
	return 0;
}

int qp_life_stopped(struct tqp *q, void (*each)(void *arg, uint16_t block), void *arg)
{
	struct eqp *e = to_eqp(q);
	bool stopped;

	quiesce_enter();
	turn_take(e);
	stopped = q->qp.state == IBV_QPS_SQD && q->req.head == q->req.tail;
	if (stopped)
		each(arg, q->req.next_block);
	turn_leave(e);
	progress_own(e->node);
	quiesce_exit();
	return stopped ? 0 : EINVAL;
}

void qp_life_still(struct tqp *q, void (*fn)(struct qp *qp, void *arg), void *arg)
{
	struct eqp *e = to_eqp(q);

	quiesce_enter();
	turn_take(e);
	fn(&q->qp, arg);
	turn_leave(e);
	progress_own(e->node);
	quiesce_exit();
}

int qp_life_query(struct tqp *q, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init)
{
	struct eqp *e = to_eqp(q);

	if (!fork_is_ours(q->qp.epoch)) { /* a child reads its own copy, without a turn */
		qp_query(&q->qp, attr, init);
		return 0;
	}
	if (e->ops && e->ops->query)
		return deliver_own(e->node, e->ops->query(e, attr, init));
	quiesce_enter();
	turn_take(e);
	qp_query(&q->qp, attr, init);
	turn_leave(e);
	quiesce_exit();
	return 0;
}

int qp_life_destroy(struct tqp *q)
{
	struct eqp *e = to_eqp(q);
	struct node *n = e->node;
	uint32_t qpn = q->qp.qpn;

	if (!fork_is_ours(q->qp.epoch)) {
		if (e->ops && e->ops->forget)
			e->ops->forget(e);
		e->q.dest = e->q.alternate = e->q.req.ud.open = NULL; /* they are the parent's */
		e->q.req.unflushed = false;
		e->q.unsettled = 0;
		q->req.ud.kept = NULL;
		eqp_free(e);
		return 0;
	}
	if (mcast_attached(n->mcast, &q->qp))
		return refuse(EBUSY,
			      "ibv_destroy_qp: QP 0x%x is attached to a multicast group; "
			      "ibv_detach_mcast first",
			      qpn);
	if (load_acquire(&q->qp.flows))
		return refuse(EBUSY,
			      "ibv_destroy_qp: %u flow rules steer frames to QP 0x%x; "
			      "ibv_destroy_flow them first",
			      load_relaxed(&q->qp.flows), qpn);
	qp_table_set(n, qpn, NULL);
	quiesce_enter();
	turn_take(e); /* the protocol may be about to publish a move of its own */
	publish_end(e);
	turn_leave(e);
	quiesce_exit();
	host_revoke_qp(n->host, qpn);
	quiesce_wait(); /* no thread finds it any more */
	if (e->ops && e->ops->end)
		e->ops->end(e);
	eqp_life_end(e);
	qp_table_give(n, qpn);
	eqp_free(e);
	return 0;
}
