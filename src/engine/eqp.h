// SPDX-License-Identifier: MIT
/* A queue pair as the engine has it: the protocol's part first, then its turn (turn.h), its inbox,
 * its timer and its places on the node's lists. Locking: a field is the turn's unless its comment
 * says otherwise; eqp->inbox_lock is a leaf and guards the inbox. */
#pragma once
#include "link/parcel.h"
#include "transport/tqp.h"
#include "util/spin.h"
#include "util/wheel.h"

/* Bits of a turn's word (turn.h). */
enum {
	TURN_HELD = 1,
	TURN_SQ = 2, /* notes from here on: SQ doorbell */
	TURN_RQ = 4, /* RQ or SRQ doorbell */
	TURN_TIMER = 8, /* the deadline passed */
	TURN_RESUME = 16, /* the link has space */
	TURN_ACK = 32, /* an ACK that is due must leave */
	TURN_INBOX = 64, /* parcels are in the inbox */
	TURN_CLOSED = 128, /* being destroyed: notes are dropped */
	TURN_DEATH = 256, /* a process of this host has ended, or is back */
	TURN_CORK = 512, /* corked posts must leave */
};

struct node;
struct eqp;

/* Operations of a QP that is not an ordinary one (src/xrc, src/dc). Any but input may be NULL: then
 * the QP does as an ordinary one. */
struct eqp_ops {
	void (*input)(struct eqp *e, const struct seg *s, uint64_t now); /* under the turn */
	/* The QP that a segment with this one's number is for, outside any turn; NULL: none. */
	struct eqp *(*find)(struct eqp *e, const struct seg *s);
	/* The QP ends: no thread finds it any more. Outside any turn. */
	void (*end)(struct eqp *e);
	/* A forked child destroys its copy of the QP: it frees what this one alone refers to. */
	void (*forget)(struct eqp *e);
	/* as qp_life_modify(), qp_life_query(); outside the turn and any quiesce section */
	int (*modify)(struct eqp *e, const struct ibv_qp_attr *attr, int mask);
	int (*query)(struct eqp *e, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init);
};

struct eqp_cork { /* corks.h */
	struct eqp *next; /* node->corked */
	uint64_t last; /* ns: the last post; atomic */
	bool listed; /* the QP is on that list; atomic */
	bool late; /* no poll has come before the deadline; atomic */
	bool waited; /* a post of this burst waits, or has waited */
	uint16_t posts; /* of this burst, without its first */
	uint16_t bursts; /* ended by a poll, counted up to need */
	uint16_t need; /* bursts that polls must have ended before a post may wait; 0: not known */
	uint32_t polls; /* of the process, when this burst began */
};

struct eqp {
	struct tqp q; /* first */
	uint32_t turn; /* TURN_*; atomic */
	uint32_t acks_owed; /* segments since the last ACK left */
	/* a segment has come since the last modify, so the published entry names the peer's
	 * process */
	bool met;
	bool unpublished; /* the QP ends: no peer sees it any more */
	uint32_t ack_listed; /* the QP is on node->acks or node->delayed; atomic */
	uint64_t ack_delay_end; /* ns: until then an ACK waits for the program's reply; atomic */
	struct eqp *ack_next; /* in that list */
	struct eqp_cork cork;
	struct eqp *ready_next; /* node->ready: the engine goes on with the QP */
	uint32_t ready_listed; /* atomic */
	bool go_on; /* listed since long work is to go on (tqp.again); atomic */
	struct eqp *rq_next; /* node->rq_waiters */
	/* set while the QP is on node->rq_waiters. A stale value is harmless, since the thread that
	 * removed the QP leaves TURN_RQ. Atomic */
	bool rq_listed;
	struct spin inbox_lock;
	struct parcel *inbox, **inbox_end;
	uint32_t inbox_len; /* parcels */
	struct timer timer, watch; /* under wheel_lock */
	uint64_t timer_at; /* ns, as armed; TQP_NEVER: not armed; atomic */
	struct eqp *timer_due; /* next QP of the same run of the wheel */
	bool timer_queued; /* the QP is in the list of a run; atomic */
	struct node *node;
	uint32_t listens; /* the QP counts in device->listeners; atomic */
	const struct eqp_ops *ops; /* NULL: an ordinary QP */
	struct tally counted; /* what the port's counters have of q.tally; node->counts.lock */
	uint32_t route; /* XRC_SEND: q.dest leads to this slot, + 1; 0: nowhere */
};

static inline struct eqp *to_eqp(struct tqp *q)
{
	return (struct eqp *)q;
}
