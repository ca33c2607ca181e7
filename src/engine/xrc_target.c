// SPDX-License-Identifier: MIT
#include "engine/xrc_target.h"
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "engine/inbound.h"
#include "engine/path.h"
#include "engine/qp_life.h"
#include "engine/turn.h"
#include "engine/xrc_srq.h"
#include "hca/async.h"
#include "hca/limits.h"
#include "obs/explain.h"
#include "transport/hold.h"
#include "util/clock.h"
#include "util/fork.h"

enum {
	SPINS = 64, /* tries before others get the core */
	TRIES = 256, /* of one who must not wait */
	CALL_MS = 2000, /* of a call */
};

struct xrc_target {
	struct eqp e; /* first */
	struct xrc_domain *domain;
	uint32_t index;
	uint32_t gen, moves; /* of the shared entry, as this process knows it */
	uint32_t number; /* the QPN, when this process gave it; else 0 */
	bool inside; /* the shared turn is ours */
	struct xrc_handle *handles; /* written under domain->lock and the turn */
};

static struct xrc_shared *shared(const struct xrc_target *x)
{
	return &x->domain->page->target[x->index];
}

/* --- the shared turn --- */

/* The holder @dead has died: nobody can tell how far it came. Returns true when it is ours now. */
static bool take_over(struct xrc_target *x, uint32_t dead)
{
	struct xrc_shared *t = shared(x);

	if (!cas_acq_rel(&t->turn, &dead, x->domain->word))
		return false;
	t->state.state = IBV_QPS_ERR;
	t->moves++;
	t->died = dead;
	x->e.q.cause = reason("XRC target QP 0x%x: a process of its domain died while it worked on "
			      "it, so what it has received is not known: it is in ERR; take it "
			      "through RESET and connect both sides anew",
			      t->qpn);
	return true;
}

/* False: another member has it, and did not give it back in time. */
static bool turn_begin(struct xrc_target *x)
{
	struct xrc_shared *t = shared(x);

	for (unsigned int i = 0; i < TRIES; i++) {
		uint32_t owner = 0;

		if (likely(cas_acq_rel(&t->turn, &owner, x->domain->word))) {
			x->inside = true;
			return true;
		}
		if (i < SPINS) {
			cpu_relax();
			continue;
		}
		if (!(i % SPINS) && !xrc_member_lives(x->domain, owner) && take_over(x, owner)) {
			x->inside = true;
			return true;
		}
		sched_yield();
	}
	return false;
}

static void turn_end(struct xrc_target *x)
{
	x->inside = false;
	store_release(&shared(x)->turn, 0); /* pairs with turn_begin() of the next */
}

/* Inside: what others have done since. */
static int catch_up(struct xrc_target *x, uint64_t now)
{
	struct xrc_shared *t = shared(x);
	bool moved = t->gen != x->gen || t->moves != x->moves;
	int err;

	if (likely(t->last == x->domain->word && !moved))
		return 0;
	if (moved) {
		qp_life_swap_dest(&x->e, NULL);
		tqp_unblock(&x->e.q);
	}
	err = xrc_load(&x->e.q, &t->state, moved, now);
	if (err)
		return err;
	x->e.q.qp.qpn = t->qpn;
	x->gen = t->gen;
	x->moves = t->moves;
	t->last = x->domain->word;
	return 0;
}

/* --- segments --- */

static void vanish(struct eqp *e, const struct seg *s)
{
	if (tqp_no_responder(s) == EAGAIN)
		inbound_no_responder_later(&e->q, s);
}

static struct srq *srq_of(const struct xrc_target *x, uint32_t srqn)
{
	struct srq *srq = xrc_srq_find(x->e.node, srqn);

	return srq && srq->xrcd->domain == x->domain ? srq : NULL;
}

/* tqp_env.serve */
static bool serve(struct tqp *q, uint32_t srqn)
{
	xrc_bind(q, srq_of(to_eqp(q)->xrc, srqn));
	return q->qp.srq;
}

/* The shared turn, with what others have done since. */
static bool arrive(struct xrc_target *x, const struct seg *s, uint64_t now)
{
	if (!turn_begin(x))
		return false;
	if (!catch_up(x, now) && shared(x)->qpn == s->dqpn)
		return true;
	turn_end(x);
	return false;
}

/* The way back, which each member finds for itself. */
static void find_way(struct eqp *e)
{
	struct ibv_qp_attr a = e->q.qp.attr;
	struct dest *d = NULL;

	if (!qp_life_new_dest(e, &a, IBV_QP_AV, false, &d) && d)
		e->q.dest = d;
}

void xrc_target_input(struct eqp *e, const struct seg *s, uint64_t now)
{
	struct xrc_target *x = e->xrc;
	bool inside = arrive(x, s, now);

	if (unlikely(inside && !e->q.dest)) {
		turn_end(x); /* not while others wait: it may ask the kernel */
		find_way(e);
		inside = arrive(x, s, now);
	}
	if (!inside) {
		vanish(e, s);
		return;
	}
	serve(&e->q, s->srqn);
	comp_hold(); /* the program's reply goes by another QP: it must not overtake the ACK */
	tqp_input(&e->q, s, now);
	xrc_store(&e->q, &shared(x)->state);
	turn_end(x);
	tqp_release(&e->q);
	comp_release();
}

/* tqp_env.moved: the protocol put it in ERR. What waited for the link may find that out later. */
static void moved(struct tqp *q)
{
	struct xrc_target *x = to_eqp(q)->xrc;

	if (x->inside || !turn_begin(x))
		return;
	if (shared(x)->gen == x->gen && shared(x)->moves == x->moves)
		shared(x)->state.state = IBV_QPS_ERR;
	turn_end(x);
}

static void event(struct tqp *q, enum ibv_event_type type)
{
	for (struct xrc_handle *h = to_eqp(q)->xrc->handles; h; h = h->next)
		async_push(h->ctx, type, h->user);
}

static const struct tqp_env env = {
	.ack_later = inbound_ack_later,
	.moved = moved,
	.no_responder_later = inbound_no_responder_later,
	.serve = serve,
	.event = event,
};

/* --- this process' half --- */

static struct xrc_target *target_new(struct xrc_domain *d, uint32_t index)
{
	struct xrc_target *x = aligned_alloc(64, (sizeof(*x) + 63) & ~(size_t)63);

	if (!x)
		return NULL;
	memset(x, 0, sizeof(*x));
	x->domain = d;
	x->index = index;
	x->moves = d->page->target[index].moves - 1;
	x->e.xrc = x;
	x->e.met = true;
	x->e.q.qp.ctx = d->ctx;
	x->e.q.qp.epoch = fork_epoch();
	x->e.q.qp.service = &services[SERVICE_XRC_RECV];
	qp_life_init(&x->e, d->node, &env);
	return x;
}

static struct xrc_target *target_get(struct xrc_domain *d, uint32_t index)
{
	struct xrc_target *x = load_acquire(&d->target[index]), *fresh; /* pairs with the CAS */

	if (likely(x != NULL))
		return x;
	fresh = target_new(d, index);
	if (!fresh || cas_acq_rel(&d->target[index], &x, fresh))
		return fresh;
	free(fresh);
	return x;
}

void xrc_target_free(struct xrc_target *x)
{
	if (!x)
		return;
	qp_life_retire(&x->e);
	if (x->number)
		qp_number_give(x->e.node, x->number);
	free(x);
}

static struct eqp *find_in(struct xrc_domain *d, uint32_t qpn)
{
	uint32_t index;
	struct xrc_target *x;

	if (!xrc_shared_find(d, qpn, &index))
		return NULL;
	x = target_get(d, index);
	return x ? &x->e : NULL;
}

struct eqp *xrc_target_find(struct node *n, const struct seg *s)
{
	const struct srq *srq = xrc_srq_find(n, s->srqn);
	struct eqp *e = srq ? find_in(srq->xrcd->domain, s->dqpn) : NULL;
	struct xrc_domain *d;

	if (likely(e != NULL))
		return e;
	/* whoever has the QP refuses it */
	for (d = load_acquire(&n->xrc_domains); d && !e; d = load_acquire(&d->next))
		e = find_in(d, s->dqpn);
	return e;
}

void xrc_target_forget_srq(struct xrc_domain *d, const struct srq *srq)
{
	for (uint32_t i = 0; i < XRC_TARGETS; i++) {
		struct xrc_target *x = load_acquire(&d->target[i]);

		if (!x)
			continue;
		quiesce_enter();
		turn_take(&x->e);
		xrc_unbind(&x->e.q, srq);
		turn_leave(&x->e);
		quiesce_exit();
	}
	quiesce_wait(); /* a drain may have found it before */
}

/* --- handles --- */

static void hold(struct xrc_target *x, struct xrcd *xrcd, struct xrc_handle *h)
{
	struct xrc_shared *t = shared(x);

	xrcd_get(xrcd);
	h->ctx = xrcd->ctx;
	h->xrcd = xrcd;
	quiesce_enter();
	turn_take(&x->e);
	h->next = x->handles;
	x->handles = h;
	turn_leave(&x->e);
	quiesce_exit();
	fetch_or_acq_rel(&t->holders[x->domain->me / 64], UINT64_C(1) << x->domain->me % 64);
}

/* Under the domain's lock. */
static int place(struct xrc_domain *d, uint32_t qpn, uint32_t *index)
{
	for (uint32_t k = 0; k < XRC_TARGETS; k++) {
		uint32_t i = (qpn + k) % XRC_TARGETS;

		if (load_relaxed(&d->page->target[i].qpn))
			continue;
		if (load_relaxed(&d->page->reach) < k)
			store_relaxed(&d->page->reach, k);
		*index = i;
		return 0;
	}
	return refuse(
		ENOMEM,
		"ibv_create_qp_ex: all %d target QPs of this XRC domain exist; destroy some or "
		"use another domain",
		XRC_TARGETS);
}

/* A number that no QP of the domain has: one whose process ended may have had ours. */
static int number(struct xrc_domain *d, uint32_t *qpn)
{
	uint32_t index, taken;
	int err = qp_number_take(d->node, qpn);

	if (err || !xrc_shared_find(d, *qpn, &index))
		return err;
	taken = *qpn;
	err = number(d, qpn);
	qp_number_give(d->node, taken);
	return err;
}

static void shared_init(struct xrc_shared *t, uint32_t qpn)
{
	memset(&t->state, 0, sizeof(t->state));
	memset(t->holders, 0, sizeof(t->holders));
	t->state.state = IBV_QPS_RESET;
	t->died = 0;
	t->moves++;
	t->gen++;
	store_release(&t->qpn, qpn); /* pairs with xrc_shared_find() */
}

/* Under the domain's lock. */
static int make(struct xrc_domain *d, struct xrc_target **out)
{
	struct xrc_target *x;
	uint32_t qpn = 0, index = 0;
	int err = number(d, &qpn);

	if (err)
		return err;
	err = place(d, qpn, &index);
	x = err ? NULL : target_get(d, index);
	if (!x) {
		qp_number_give(d->node, qpn);
		return err ? err : ENOMEM;
	}
	if (x->number)
		qp_number_give(d->node, x->number); /* of one that another member destroyed */
	x->number = qpn;
	while (!turn_begin(x))
		; /* nobody works on one that is free for long */
	shared_init(shared(x), qpn);
	x->e.q.qp.qpn = qpn;
	turn_end(x);
	*out = x;
	return 0;
}

int xrc_target_create(struct xrcd *xrcd, struct xrc_handle *h, struct tqp **out)
{
	struct xrc_domain *d = xrcd->domain;
	uint32_t *count = &xrcd->ctx->hca->count.qp;
	struct xrc_target *x = NULL;
	int err = xrcd_use(xrcd, "ibv_create_qp_ex");

	if (!err)
		err = device_take(count, LIMIT_QP, "ibv_create_qp_ex");
	if (err)
		return err;
	err = xrc_domain_lock(d);
	if (!err) {
		err = make(d, &x);
		if (!err)
			hold(x, xrcd, h);
		xrc_domain_unlock(d);
	}
	if (err) {
		device_give(count);
		return err;
	}
	*out = &x->e.q;
	return 0;
}

int xrc_target_open(struct xrcd *xrcd, uint32_t qpn, struct xrc_handle *h, struct tqp **out)
{
	struct xrc_domain *d = xrcd->domain;
	uint32_t *count = &xrcd->ctx->hca->count.qp;
	struct eqp *e;
	int err = xrcd_use(xrcd, "ibv_open_qp");

	if (!err)
		err = device_take(count, LIMIT_QP, "ibv_open_qp");
	if (err)
		return err;
	err = xrc_domain_lock(d);
	if (!err) {
		e = find_in(d, qpn);
		if (e)
			hold(e->xrc, xrcd, h);
		else
			err = refuse(
				EINVAL,
				"ibv_open_qp: the XRC domain has no QP 0x%x; give the number of "
				"one that a member made and that is not destroyed",
				qpn);
		xrc_domain_unlock(d);
	}
	if (err) {
		device_give(count);
		return err;
	}
	*out = &e->q;
	return 0;
}

static void let_go(struct xrc_target *x, struct xrc_handle *h)
{
	quiesce_enter();
	turn_take(&x->e);
	for (struct xrc_handle **p = &x->handles; *p; p = &(*p)->next)
		if (*p == h) {
			*p = h->next;
			break;
		}
	if (x->e.q.qp.ctx == h->ctx)
		x->e.q.qp.ctx = x->domain->ctx;
	turn_leave(&x->e);
	quiesce_exit();
	async_drop(h->ctx, h->user);
}

static bool held_elsewhere(const struct xrc_target *x)
{
	const struct xrc_domain *d = x->domain;

	for (uint32_t i = 0; i < XRC_MEMBERS; i++) {
		uint32_t word = load_relaxed(&d->page->member_gen[i]) << XRC_MEMBER_BITS | (i + 1);

		if (i != d->me && (load_relaxed(&shared(x)->holders[i / 64]) >> i % 64 & 1) &&
		    xrc_member_lives(d, word))
			return true;
	}
	return false;
}

/* Under the domain's lock. */
static void destroy(struct xrc_target *x)
{
	struct xrc_shared *t = shared(x);

	quiesce_enter();
	turn_take(&x->e);
	while (!turn_begin(x))
		sched_yield();
	store_relaxed(&t->qpn, 0);
	t->moves++;
	hold_forget(&x->e.q);
	turn_end(x);
	turn_leave(&x->e);
	quiesce_exit();
	if (x->number)
		qp_number_give(x->e.node, x->number);
	x->number = 0;
}

int xrc_target_close(struct tqp *q, struct xrc_handle *h)
{
	struct xrc_target *x = to_eqp(q)->xrc;
	struct xrc_domain *d = x->domain;
	int err;

	if (!fork_is_ours(h->xrcd->epoch)) {
		xrcd_put(h->xrcd);
		return 0;
	}
	err = xrc_domain_lock(d);
	if (err)
		return err;
	let_go(x, h);
	if (!x->handles) {
		fetch_and_acq_rel(&shared(x)->holders[d->me / 64], ~(UINT64_C(1) << d->me % 64));
		if (!held_elsewhere(x))
			destroy(x);
	}
	xrc_domain_unlock(d);
	device_give(&h->ctx->hca->count.qp);
	xrcd_put(h->xrcd);
	return 0;
}

/* --- modify, query --- */

/* Takes both turns for a call and catches up. ETIMEDOUT: a member that is stopped has the QP. */
static int enter(struct xrc_target *x)
{
	const struct timespec nap = { .tv_nsec = 1000000 };

	for (unsigned int ms = 0; ms < CALL_MS; ms++) {
		int err = ETIMEDOUT;

		quiesce_enter();
		turn_take(&x->e);
		if (turn_begin(x)) {
			err = catch_up(x, clock_now());
			if (!err)
				return 0;
			turn_end(x);
		}
		turn_leave(&x->e);
		quiesce_exit();
		if (err != ETIMEDOUT)
			return err;
		nanosleep(&nap, NULL);
	}
	return refuse(
		ETIMEDOUT,
		"ibv_modify_qp: a process of the XRC domain has been at work on QP 0x%x for %d "
		"ms; let it go on (is it stopped?)",
		x->e.q.qp.qpn, CALL_MS);
}

static void leave(struct xrc_target *x)
{
	turn_end(x);
	turn_after(&x->e);
	turn_leave(&x->e);
	if (host_has_own(x->e.node->host))
		inbound_progress(x->e.node);
	quiesce_exit();
}

static void modified(struct xrc_target *x, enum ibv_qp_state old, struct dest *d)
{
	struct tqp *q = &x->e.q;
	struct xrc_shared *t = shared(x);

	if (d)
		qp_life_swap_dest(&x->e, d);
	tqp_moved(q, old, clock_now());
	if (q->qp.state == IBV_QPS_RESET) {
		qp_life_swap_dest(&x->e, NULL);
		t->died = 0;
	}
	x->moves = ++t->moves;
	xrc_store_attr(q, &t->state);
}

int xrc_target_modify(struct eqp *e, const struct ibv_qp_attr *attr, int mask)
{
	struct xrc_target *x = e->xrc;
	struct dest *d = NULL;
	enum ibv_qp_state old;
	int err = qp_life_new_dest(e, attr, mask, false, &d);

	if (!err)
		err = enter(x);
	if (!err) {
		e->q.qp.ctx = x->handles->ctx;
		old = e->q.qp.state;
		err = qp_modify(&e->q.qp, attr, mask);
		if (!err)
			modified(x, old, d);
		leave(x);
	}
	if (err && d)
		d->ops->put(d);
	return err;
}

int xrc_target_query(struct eqp *e, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init)
{
	int err = enter(e->xrc);

	if (err)
		return err;
	qp_query(&e->q.qp, attr, init);
	leave(e->xrc);
	return 0;
}
