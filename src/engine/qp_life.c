// SPDX-License-Identifier: MIT
#include "engine/qp_life.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "engine/frames.h"
#include "engine/inbound.h"
#include "engine/path.h"
#include "engine/rq_waiters.h"
#include "engine/timers.h"
#include "engine/tracing.h"
#include "engine/turn.h"
#include "engine/xrc_target.h"
#include "hca/limits.h"
#include "hca/mcast.h"
#include "obs/explain.h"
#include "transport/apm.h"
#include "util/clock.h"
#include "util/fork.h"

/* --- numbers --- */

static int block_add(struct node *n)
{
	unsigned int slot;
	struct block *b;
	int err = host_take_slot(n->host, &slot);

	if (err)
		return err;
	b = calloc(1, sizeof(*b));
	if (!b || bitmap_init(&b->used, FIRST_INDEX, NUMBER_INDEXES - FIRST_INDEX)) {
		free(b);
		return refuse_memory("ibv_create_qp", sizeof(*b));
	}
	store_release(&n->blocks[slot], b); /* pairs with node_qp() */
	return 0;
}

static bool take_from(struct node *n, unsigned int slot, uint32_t *qpn)
{
	struct block *b = n->blocks[slot];
	uint32_t index;

	if (!b || bitmap_alloc(&b->used, &index))
		return false;
	*qpn = number_make(slot, index);
	return true;
}

int qp_number_take(struct node *n, uint32_t *qpn)
{
	int err = 0;

	pthread_mutex_lock(&n->lock);
	for (;;) {
		for (unsigned int slot = 0; slot < NUMBER_SLOTS; slot++)
			if (take_from(n, slot, qpn))
				goto out;
		err = block_add(n);
		if (err)
			goto out;
	}
out:
	pthread_mutex_unlock(&n->lock);
	return err;
}

void qp_number_give(struct node *n, uint32_t qpn)
{
	pthread_mutex_lock(&n->lock);
	bitmap_free(&n->blocks[number_slot(qpn)]->used, number_index(qpn));
	pthread_mutex_unlock(&n->lock);
}

static void table_set(struct node *n, uint32_t qpn, struct eqp *e)
{
	store_release(&n->blocks[number_slot(qpn)]->qp[number_index(qpn)], e); /* node_qp() */
}

/* --- what peers see --- */

static void publish(struct eqp *e)
{
	const struct qp *qp = &e->q.qp;
	struct host_qp entry = {
		.state = qp->state,
		.access = qp->attr.qp_access_flags,
		.pdn = qp->pd->pdn,
		.peer_qpn = qp->attr.dest_qp_num,
		.flags = qp->service->direct && !tracing() ? HOST_QP_DIRECT : 0,
	};

	if (!e->unpublished)
		host_publish_qp(e->node->host, qp->qpn, &entry);
}

void qp_life_met(struct eqp *e)
{
	e->met = true;
	if (e->q.qp.service->direct)
		publish(e);
}

/* The protocol moved the QP by itself: direct access ends here (M5, iv: without waiting). */
static void moved(struct tqp *q)
{
	publish(to_eqp(q));
}

static const struct tqp_env env = {
	.resolve = path_resolve,
	.ack_later = inbound_ack_later,
	.ack_hold = inbound_ack_hold,
	.moved = moved,
	.usable = path_usable,
	.no_responder_later = inbound_no_responder_later,
	.cast = frames_send,
	.route = path_route,
};

static void resume(struct waiter *w)
{
	quiesce_enter(); /* also called by host_control() */
	turn_note(container_of(w, struct eqp, q.waiter), TURN_RESUME);
	quiesce_exit();
}

/* --- life --- */

static void dest_put(struct dest *d)
{
	if (d)
		d->ops->put(d);
}

static void eqp_free(struct eqp *e)
{
	dest_put(e->q.dest);
	dest_put(e->q.alternate);
	qp_fini(&e->q.qp);
	free(e);
}

void qp_life_init(struct eqp *e, struct node *n, const struct tqp_env *with)
{
	e->node = n;
	e->timer_at = TQP_NEVER;
	list_init(&e->timer.node);
	e->inbox_end = &e->inbox;
	spin_init(&e->inbox_lock);
	tqp_init(&e->q, with);
	e->q.waiter.resume = resume;
}

int qp_life_create(struct pd *pd, const struct qp_attr *attr, struct tqp **out)
{
	struct node *n = node_self();
	struct eqp *e;
	uint32_t qpn = 0;
	int err;

	if (!n || !fork_is_ours(pd->epoch))
		return refuse(EIO, "ibv_create_qp: the PD was made before fork(); make a new one");
	e = aligned_alloc(64, (sizeof(*e) + 63) & ~(size_t)63);
	if (!e)
		return refuse_memory("ibv_create_qp", sizeof(*e));
	memset(e, 0, sizeof(*e));
	err = qp_number_take(n, &qpn);
	if (err) {
		free(e);
		return err;
	}
	err = qp_init(&e->q.qp, pd, attr, qpn);
	if (err) {
		qp_number_give(n, qpn);
		free(e);
		return err;
	}
	qp_life_init(e, n, &env);
	if (attr->service->frames)
		frames_begin(device_of(&e->q));
	publish(e);
	table_set(n, qpn, e);
	*out = &e->q;
	return 0;
}

/* A path is resolved before the turn is taken: it may ask the kernel. */
int qp_life_new_dest(struct eqp *e, const struct ibv_qp_attr *attr, int mask, bool alternate,
		     struct dest **out)
{
	const struct ibv_qp_attr *old = &e->q.qp.attr;
	struct av av;
	struct path_ask ask = { .av = &av };
	const struct ibv_ah_attr *ah = alternate ? &attr->alt_ah_attr : &attr->ah_attr;

	*out = NULL;
	if (!(mask & (alternate ? IBV_QP_ALT_PATH : IBV_QP_AV)) || !ah->is_global ||
	    !e->q.qp.service->connected)
		return 0;
	av_from_attr(ah, &av);
	/* not before: others may change a target QP's, which takes a path only with both */
	ask.dqpn = mask & IBV_QP_DEST_QPN ? attr->dest_qp_num : old->dest_qp_num;
	ask.mtu = 128U << (mask & IBV_QP_PATH_MTU ? attr->path_mtu : old->path_mtu);
	return path_find(e, &ask, out);
}

static void swap_alternate(struct eqp *e, struct dest *d)
{
	struct dest *old = e->q.alternate;

	e->q.alternate = d;
	dest_put(old);
}

void qp_life_swap_dest(struct eqp *e, struct dest *d)
{
	struct dest *old = e->q.dest;

	e->q.dest = d;
	if (!old)
		return;
	old->ops->cancel(old, &e->q.waiter);
	old->ops->put(old);
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
			qp_life_swap_dest(e, d);
			e->route = 0;
		}
		if (alternate)
			swap_alternate(e, alternate);
		if (q->qp.state != IBV_QPS_RESET)
			apm_modified(q, mig, clock_now());
		publish(e);
		e->met = false;
		tqp_moved(q, old, clock_now());
		if (q->qp.state == IBV_QPS_RESET) {
			qp_life_swap_dest(e, NULL);
			swap_alternate(e, NULL);
			e->route = 0;
		}
		turn_after(e);
	}
	turn_leave(e);
	if (host_has_own(e->node->host))
		inbound_progress(e->node);
	quiesce_exit();
	return err;
}

int qp_life_modify(struct tqp *q, const struct ibv_qp_attr *attr, int mask)
{
	struct eqp *e = to_eqp(q);
	struct dest *d, *alternate = NULL;
	int err;

	if (e->xrc)
		return xrc_target_modify(e, attr, mask);
	err = qp_life_new_dest(e, attr, mask, false, &d);
	if (!err)
		err = qp_life_new_dest(e, attr, mask, true, &alternate);
	if (!err)
		err = modify_in_turn(e, attr, mask, d, alternate);
	if (err) {
		dest_put(d);
		dest_put(alternate);
		return err;
	}
	if (q->qp.service->wire == SVC_UD && (mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RTR)
		path_listen(e);
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
			     "ibv_modify_qp_rate_limit: QP 0x%x is XRC_RECV, which sends nothing; "
			     "set it on the XRC_SEND QP",
			     q->qp.qpn);
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
	if (host_has_own(e->node->host))
		inbound_progress(e->node);
	quiesce_exit();
	return err;
}

int qp_life_query(struct tqp *q, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init)
{
	struct eqp *e = to_eqp(q);

	if (!fork_is_ours(
		    q->qp.epoch)) { /* a child reads its own copy: nobody has the turn there */
		qp_query(&q->qp, attr, init);
		return 0;
	}
	if (e->xrc)
		return xrc_target_query(e, attr, init);
	quiesce_enter();
	turn_take(e);
	qp_query(&q->qp, attr, init);
	turn_leave(e);
	quiesce_exit();
	return 0;
}

/* Under the turn: the protocol may be about to publish a move of its own. */
static void unpublish(struct eqp *e)
{
	quiesce_enter();
	turn_take(e);
	e->unpublished = true;
	host_publish_qp(e->node->host, e->q.qp.qpn, NULL);
	turn_leave(e);
	quiesce_exit();
}

void qp_life_retire(struct eqp *e)
{
	struct tqp *q = &e->q;
	enum ibv_qp_state old;

	rq_waiters_del(e);
	path_unlisten(e);
	inbound_forget(e); /* … nor has it on a list … */
	timers_drop(e);
	quiesce_enter();
	turn_close(e); /* … nor works on it */
	old = q->qp.state;
	q->qp.state = IBV_QPS_RESET;
	tqp_moved(q, old, clock_now());
	qp_life_swap_dest(e, NULL);
	path_forget(e);
	swap_alternate(e, NULL);
	tqp_fini(q);
	quiesce_exit();
	timers_drop(e);
	quiesce_wait();
}

int qp_life_destroy(struct tqp *q)
{
	struct eqp *e = to_eqp(q);
	struct node *n = e->node;
	uint32_t qpn = q->qp.qpn;

	if (!fork_is_ours(q->qp.epoch)) {
		e->q.dest = e->q.alternate = NULL; /* the parent's */
		e->kept = NULL;
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
	table_set(n, qpn, NULL);
	unpublish(e);
	host_revoke_qp(n->host, qpn);
	quiesce_wait(); /* nobody finds it any more … */
	qp_life_retire(e);
	qp_number_give(n, qpn);
	eqp_free(e);
	return 0;
}
