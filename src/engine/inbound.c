// SPDX-License-Identifier: MIT
#include "engine/inbound.h"
#include "engine/delivery.h"
#include "engine/frames.h"
#include "engine/groups.h"
#include "engine/gsi/gsi.h"
#include "engine/passing.h"
#include "engine/qp_table.h"
#include "engine/tracing.h"
#include "engine/turn.h"
#include "transport/drop.h"
#include "obs/verdict.h"
#include "wire/opcode.h"

/* By the fault link of a process of this host. */
static void damaged(struct node *n, const struct seg *s)
{
	const struct eqp *e = node_qp(n, s->dqpn);

	if (e)
		counters_inc(e->q.qp.ctx->hca->counters, COUNTER_RX_ICRC_ENCAPSULATED);
	drop_damaged(&n->damaged, s);
}

void inbound_deliver(void *arg, const struct seg *s)
{
	struct node *n = arg;

	if (unlikely(s->damaged)) {
		damaged(n, s);
		return;
	}
	if (unlikely(s->op == FRAME_OP)) {
		frames_deliver(n, s);
		return;
	}
	if (unlikely((s->flags & SEG_MCAST) && s->av)) {
		groups_deliver(n, s);
		return;
	}
	delivery_to_qp(n, s->dqpn, s);
}

bool inbound_lacks_receive(void *arg, const struct seg *s)
{
	return !s->damaged && !(s->flags & SEG_MCAST) && delivery_lacks_receive(arg, s);
}

/* The number whose slot says which process a packet is for. */
static uint32_t whose(const struct seg *s)
{
	bool srq = opcode_service(s->op) == SVC_XRC && opcode_has(s->op, WIRE_REQUEST);

	return srq ? s->srqn : s->dqpn;
}

/* To another process of this host. */
static void forward(struct node_link *from, const struct seg *s)
{
	struct node *n = from->node;
	struct dest *d;

	verdict_say("passed on, its number is another process's");
	from->link->net->astray(from->link);
	if (host_dest(n->host, whose(s), &d))
		return;
	if (d->same_host)
		passing_send(n, d, s);
	else
		d->ops->put(d);
}

/* A WRITE, READ or atomic, which a program may wait for without a poll. */
static bool needs_no_program(const struct seg *s)
{
	return opcodes[s->op].flags & (WIRE_RETH | WIRE_ATOMICETH) &&
	       !opcode_has(s->op, WIRE_IMMDT);
}

void inbound_packet(void *arg, const struct seg *s)
{
	struct node_link *from = arg;
	struct node *n = from->node;

	if (needs_no_program(s))
		store_relaxed(&n->unasked, load_relaxed(&n->unasked) + 1);
	if (unlikely(s->dqpn == MULTICAST_QPN))
		groups_deliver(n, s);
	else if (unlikely(s->dqpn <= GSI_QPN))
		gsi_packet(from, s);
	else if (load_acquire(
			 &n->blocks[number_slot(whose(s)) & (NUMBER_SLOTS - 1)])) /* as node_qp() */
		delivery_to_qp(n, s->dqpn, s);
	else
		forward(from, s);
}

/* Destinations to it answer ENETUNREACH from now on; but segments that went into its rings before
 * have no timer, and every QP that waits for an answer has to hear of it. A QP's peer is known
 * under its turn alone, so all QPs are told. */
static void tell_all(struct node *n)
{
	struct eqp *e;
	uint32_t at = 0;

	quiesce_enter();
	while ((e = qp_table_next(n, &at)))
		turn_note(e, TURN_DEATH);
	quiesce_exit();
}

void inbound_peer_dead(void *arg, unsigned int slot)
{
	(void)slot;
	tell_all(arg);
}

void inbound_peer_up(void *arg)
{
	tell_all(arg);
}

void inbound_drained(void *arg)
{
	(void)arg;
	delivery_release();
}

static void arrives(struct node *n, const struct seg *s, struct tracing_arrival *a)
{
	a->expects = s->op != FRAME_OP && delivery_expects(n, s, &a->epsn, &a->una);
	tracing_arrives(n, s, a);
}

void inbound_deliver_traced(void *arg, const struct seg *s)
{
	struct tracing_arrival a;

	arrives(arg, s, &a);
	inbound_deliver(arg, s);
	tracing_arrived(&a);
}

void inbound_packet_traced(void *arg, const struct seg *s)
{
	struct node_link *from = arg;
	struct tracing_arrival a;

	arrives(from->node, s, &a);
	inbound_packet(arg, s);
	tracing_arrived(&a);
}
