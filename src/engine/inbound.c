// SPDX-License-Identifier: MIT
#include "engine/inbound.h"
#include <errno.h>
#include <sched.h>
#include "engine/frames.h"
#include "engine/groups.h"
#include "engine/loop.h"
#include "engine/qp_life.h"
#include "engine/timers.h"
#include "engine/tracing.h"
#include "engine/turn.h"
#include "engine/xrc_target.h"
#include "link/fault.h"
#include "obs/counters.h"
#include "obs/verdict.h"
#include "udp/udp.h"
#include "util/clock.h"
#include "wire/opcode.h"

#define BUDGET	 64 /* segments of one poll */
#define HOLD	 50000 /* ns: an ACK waits as long for the program's reply; it costs two wakes */
#define UDP_SKIP 64 /* busy polls from one look at the sockets to the next (M17) */

/* Whose turn this thread keeps between segments, and the time at which it took it: the clock costs
 * as much as a tenth of a segment's work. */
static __thread struct {
	struct eqp *e;
	uint64_t now;
} held __attribute__((tls_model("initial-exec")));

void inbound_release(void)
{
	struct eqp *e = held.e;

	held.e = NULL;
	if (e)
		turn_leave(e);
}

/* The QP is busy: its holder takes the parcel. False: it has as many as it may, or no memory is
 * left. */
static bool leave_parcel(struct eqp *e, const struct seg *s)
{
	struct parcel *p;

	if (load_relaxed(&e->inbox_len) >= INBOX_MAX || parcel_make(s, false, &p))
		return false;
	inbox_put(e, p);
	turn_note(e, TURN_INBOX);
	return true;
}

/* There is no room to tell the sender of a request that nobody is there; it has no timer of its
 * own, so it is told later. A request that cannot even be kept is told when the sender dies. */
static void unanswered_put(struct node *n, const struct seg *s)
{
	struct seg bare = *s;
	struct parcel *p;

	bare.len = 0;
	bare.npieces = 0;
	bare.pieces = NULL;
	bare.data = NULL;
	if (parcel_make(&bare, false, &p))
		return;
	p->next = load_relaxed(&n->unanswered);
	while (!cas_acq_rel(&n->unanswered, &p->next, p))
		;
}

void inbound_no_responder_later(struct tqp *q, const struct seg *s)
{
	unanswered_put(to_eqp(q)->node, s);
}

static void answer_unanswered(struct node *n)
{
	struct parcel *next;

	if (likely(!load_relaxed(&n->unanswered)))
		return;
	for (struct parcel *p = xchg_acq_rel(&n->unanswered, NULL); p; p = next) {
		next = p->next;
		if (tqp_no_responder(&p->seg) == EAGAIN)
			unanswered_put(n, &p->seg);
		parcel_free(p);
	}
}

/* Takes the turn of @e for this drain. False: it is busy, and has the segment as a parcel. */
static bool hold(struct eqp *e, const struct seg *s)
{
	inbound_release();
	if (!turn_try(e)) {
		if (!tracing() && leave_parcel(e, s))
			return false;
		turn_take(e); /* its holder waits for nobody who is in a drain */
		turn_catch_up(e);
	}
	held.e = e;
	held.now = clock_now();
	if (unlikely(!e->met))
		qp_life_met(e);
	return true;
}

/* A request for a target QP belongs to its domain, an answer to an XRC_SEND QP of ours. */
static struct eqp *xrc_find(struct node *n, const struct seg *s)
{
	return opcode_has(s->op, WIRE_REQUEST) ? xrc_target_find(n, s) : node_qp(n, s->dqpn);
}

static void to_qp(struct node *n, uint32_t qpn, const struct seg *s)
{
	struct eqp *e =
		unlikely(opcode_service(s->op) == SVC_XRC) ? xrc_find(n, s) : node_qp(n, qpn);

	if (unlikely(!e)) {
		verdict_say("dropped, there is no such QP");
		if (tqp_no_responder(s) == EAGAIN)
			unanswered_put(n, s);
		return;
	}
	if (held.e != e) {
		if (!hold(e, s))
			return;
	} else if (unlikely(load_relaxed(&e->turn) & TURN_INBOX)) {
		turn_catch_up(e); /* never past a parcel that another drain left before */
	} else if (unlikely((s->flags & SEG_NET) && opcode_has(s->op, WIRE_RESPONSE))) {
		held.now = clock_now(); /* round trips are measured */
	}
	turn_input(e, s, held.now);
	turn_after(e);
}

void inbound_to_qp(struct node *n, uint32_t qpn, const struct seg *s)
{
	to_qp(n, qpn, s);
}

void inbound_deliver(void *arg, const struct seg *s)
{
	struct node *n = arg;

	if (unlikely(s->op == FRAME_OP)) {
		frames_deliver(n, s);
		return;
	}
	if (unlikely((s->flags & SEG_MCAST) && s->av)) {
		groups_deliver(n, s);
		return;
	}
	to_qp(n, s->dqpn, s);
}

/* The number whose slot says which process a packet is for. */
static uint32_t whose(const struct seg *s)
{
	bool srq = opcode_service(s->op) == SVC_XRC && opcode_has(s->op, WIRE_REQUEST);

	return srq ? s->srqn : s->dqpn;
}

/* A process that cannot be reached in time has lost the packet, as on the way. */
static void forward(struct node *n, const struct seg *s)
{
	struct dest *d;

	verdict_say("passed on, its number is another process's");
	udp_astray(n->udp);
	if (host_dest(n->host, whose(s), &d))
		return;
	if (d->same_host)
		dest_send(d, s, NULL);
	d->ops->put(d);
}

void inbound_packet(void *arg, const struct seg *s)
{
	struct node *n = arg;

	if (unlikely(s->dqpn == MULTICAST_QPN))
		groups_deliver(n, s);
	else if (unlikely(s->dqpn <= GSI_QPN))
		verdict_say("dropped, no process is at the QPs of management");
	else if (load_acquire(
			 &n->blocks[number_slot(whose(s)) & (NUMBER_SLOTS - 1)])) /* as node_qp() */
		to_qp(n, s->dqpn, s);
	else
		forward(n, s);
}

/* Its destinations answer ENETUNREACH from now on; but what went into its rings before has no
 * timer, and every QP that waits for an answer has to hear of it. Who is connected to whom is
 * known under the turns alone, so all are told. */
void inbound_peer_dead(void *arg, unsigned int slot)
{
	struct node *n = arg;

	(void)slot;
	quiesce_enter();
	for (unsigned int i = 0; i < NUMBER_SLOTS; i++) {
		struct block *b = load_acquire(&n->blocks[i]); /* as node_qp() */

		for (unsigned int k = FIRST_INDEX; b && k < NUMBER_INDEXES; k++) {
			struct eqp *e = load_acquire(&b->qp[k]);

			if (e)
				turn_note(e, TURN_DEATH);
		}
	}
	quiesce_exit();
}

void inbound_drained(void *arg)
{
	(void)arg;
	inbound_release();
}

/* On node->acks or node->held. @end: is told the time of the first; NULL: nobody is. */
static void list_ack(struct eqp **list, struct eqp *e, uint64_t *end)
{
	if (load_acquire(&e->ack_listed)) /* pairs with flush() */
		return;
	store_relaxed(&e->ack_listed, 1); /* only its turn lists it */
	e->ack_next = load_relaxed(list);
	if (end && !e->ack_next)
		store_relaxed(end, load_relaxed(&e->hold_end));
	/* seq_cst: before acks_must_go() and look_at_held() look at who sleeps */
	while (!cas_seq_cst(list, &e->ack_next, e))
		;
}

void inbound_ack_later(struct tqp *q)
{
	struct eqp *e = to_eqp(q);

	list_ack(&e->node->acks, e, NULL);
}

void inbound_list_held(struct eqp *e)
{
	list_ack(&e->node->held, e, &e->node->hold_end);
}

bool inbound_ack_hold(struct tqp *q)
{
	struct eqp *e = to_eqp(q);

	if (load_relaxed(&e->node->led))
		return false; /* the program sleeps: there is nobody to save time for */
	store_relaxed(&e->hold_end, clock_now() + HOLD);
	inbound_list_held(e);
	return true;
}

/* @now: even if they wait for a reply and their time has not come. */
static void flush(struct eqp **list, bool now)
{
	struct eqp *next;

	for (struct eqp *e = xchg_acq_rel(list, NULL); e; e = next) {
		next = e->ack_next;
		if (now)
			store_relaxed(&e->hold_end, 0);
		store_release(&e->ack_listed, 0);
		turn_note(e, TURN_ACK);
	}
}

static void flush_acks(struct node *n)
{
	if (load_relaxed(&n->acks))
		flush(&n->acks, false);
}

/* Those whose time has not come are listed again (turn.c), but for @all. */
static void flush_held(struct node *n, bool all)
{
	flush(&n->held, all);
}

uint64_t inbound_hold_end(const struct node *n)
{
	return likely(!load_relaxed(&n->held)) ? UINT64_MAX : load_relaxed(&n->hold_end);
}

unsigned int inbound_network(struct node *n)
{
	struct udp *u = load_acquire(&n->udp); /* pairs with path_network() */
	unsigned int got = u ? udp_drain(u, BUDGET, true) : 0;

	inbound_release();
	return got;
}

static unsigned int poll_network(struct node *n, unsigned int got)
{
	struct udp *u = load_acquire(&n->udp); /* pairs with path_network() */
	uint32_t skipped = load_relaxed(&n->udp_skipped);

	if (got && skipped < UDP_SKIP) {
		store_relaxed(&n->udp_skipped, skipped + 1);
		return 0;
	}
	store_relaxed(&n->udp_skipped, 0);
	return udp_drain(u, BUDGET, false);
}

/* ACKs are held back for what the program sends next, until a drain finds nothing. But this thread
 * may not drain again: if the engine sleeps, nobody would. One that is awake looks before it sleeps
 * (loop.c), and a leader that goes wakes it. */
static bool acks_must_go(struct node *n)
{
	return load_relaxed(&n->acks) && load_seq_cst(&n->asleep) != LOOP_AWAKE && !loop_leading();
}

/* The same for those that wait for a reply, and as long as they wait. */
static void look_at_held(struct node *n)
{
	bool all = load_seq_cst(&n->asleep) != LOOP_AWAKE || load_relaxed(&n->led);

	if (all || inbound_hold_end(n) <= clock_now())
		flush_held(n, all);
}

unsigned int inbound_progress(struct node *n)
{
	unsigned int got;

	fault_progress();
	got = host_drain(n->host, BUDGET);
	if (unlikely(load_relaxed(&n->udp) != NULL))
		got += poll_network(n, got);
	inbound_release();
	if (!got || acks_must_go(n))
		flush_acks(n);
	if (unlikely(load_relaxed(&n->held) != NULL))
		look_at_held(n);
	answer_unanswered(n);
	turn_run_ready(n);
	timers_run(n);
	return got;
}

void inbound_end(struct node *n)
{
	quiesce_enter();
	flush_acks(n);
	flush_held(n, true);
	quiesce_exit();
}

void inbound_forget(struct eqp *e)
{
	while (load_acquire(&e->ack_listed) || load_acquire(&e->ready_listed)) {
		quiesce_enter();
		flush_acks(e->node);
		flush_held(e->node, true);
		turn_run_ready(e->node);
		quiesce_exit();
		sched_yield();
	}
}
