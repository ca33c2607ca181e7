// SPDX-License-Identifier: MIT
/* What the engine's files share: the node's inside and the QP as the engine holds it. Locks, all
 * leaves: node->lock (devices, number blocks, QP table's writers), node->wheel_lock (wheel and
 * every timer in it), eqp->inbox_lock (its inbox). */
#pragma once
#include <pthread.h>
#include "engine/node.h"
#include "link/number.h"
#include "link/parcel.h"
#include "net/gid_table.h"
#include "transport/tqp.h"
#include "util/bitmap.h"
#include "util/quiesce.h"

#define FIRST_INDEX 2 /* QPN 0 and 1 are special; kept free in every block */

/* What a turn's word says (turn.h). */
enum {
	TURN_HELD = 1,
	TURN_SQ = 2, /* notes: SQ doorbell */
	TURN_RQ = 4, /* RQ or SRQ doorbell */
	TURN_TIMER = 8, /* the deadline passed */
	TURN_RESUME = 16, /* the link has space */
	TURN_ACK = 32, /* flush a due ACK */
	TURN_INBOX = 64, /* parcels in the inbox */
	TURN_CLOSED = 128, /* being destroyed: notes are dropped */
	TURN_DEATH = 256, /* a process of this host has ended */
};

struct xrc_target;
struct xrc_domain;

struct eqp {
	struct tqp q; /* first */
	uint32_t turn; /* TURN_* */
	uint32_t acks_held; /* segments since the last ACK left; under the turn */
	/* the peer's segments come in: its process is in what we publish; under the turn */
	bool met;
	bool unpublished; /* it ends: peers see it no more; under the turn */
	uint32_t ack_listed; /* on node->acks or node->held */
	uint64_t hold_end; /* ns: an ACK waits for the program's reply until then; atomic */
	struct eqp *ack_next;
	struct eqp *ready_next; /* node->ready: the engine goes on with it */
	uint32_t ready_listed;
	bool go_on; /* listed for the rest of long work */
	struct eqp *rq_next; /* node->rq_waiters */
	bool rq_listed; /* a turn that sees it too long finds the note of whoever took it off */
	struct spin inbox_lock;
	struct parcel *inbox, **inbox_end;
	uint32_t inbox_len;
	struct timer timer; /* under wheel_lock */
	uint64_t timer_at; /* as armed; TQP_NEVER none */
	struct eqp *timer_due; /* next of the same run */
	bool timer_queued; /* it is in some run's list */
	struct node *node;
	struct path_kept *kept; /* path.c; under the turn */
	uint32_t listens; /* it is one of device->listeners; atomic */
	struct xrc_target *xrc; /* a target QP of an XRC domain: its other part; else NULL */
	uint32_t route; /* XRC_SEND: q.dest leads to this slot, + 1; 0: nowhere */
};

struct device {
	struct hca hca;
	struct gid_table *gids;
	int watch_fd; /* -1 none */
	struct node *node;
	uint32_t listeners; /* atomic: UD QPs that receive by any of its addresses */
	/* frames.c */
	pthread_mutex_t frames_lock; /* guards wanted and the opening of the two descriptors */
	pthread_mutex_t frames_reading; /* of frames_in; taken by its readers, and to close it */
	int frames_wanted;
	int frames_out, frames_in; /* AF_PACKET; -1 none */
};

struct block {
	struct eqp *qp[NUMBER_INDEXES]; /* readers: inside a quiesce section */
	struct bitmap used; /* under node->lock */
};

/* LOOP_NAPPING: under a leader, for a few ms at most. */
enum { LOOP_AWAKE, LOOP_ARMED, LOOP_NAPPING, LOOP_UNDER_LEADER };

struct node {
	uint32_t epoch;
	struct host *host;
	struct udp *udp; /* NULL until a QP needs the network */
	uint32_t udp_skipped; /* polls that had other work since the sockets were read */
	uint32_t udp_watched; /* epoll_fd waits for packets too; the engine thread's */
	struct key_table *keys;
	struct mcast_table *mcast;
	pthread_mutex_t lock;
	struct device *devices[NODE_DEVICES];
	unsigned int n_devices;
	struct block *blocks[NUMBER_SLOTS]; /* by slot */
	struct eqp *acks; /* lock-free stack: ACKs to flush when inbound has run dry */
	struct eqp *held; /* lock-free stack: ACKs that wait for a reply */
	uint64_t hold_end; /* ns: about when the first of them must go; atomic */
	struct parcel *unanswered; /* lock-free stack: requests whose sender is still to be told */
	struct eqp *ready; /* lock-free stack: QPs with notes that nobody is working on */
	struct spin wheel_lock;
	struct wheel wheel;
	uint64_t next_timer; /* wheel_next(), read without the lock */
	struct {
		struct timer timer; /* under wheel_lock; what follows: atomic */
		uint64_t step;
		uint32_t due;
	} ports; /* that others hold: port_wait.c */
	/* who makes progress (M4; loop.c, wait.c) */
	uint32_t poll_seq; /* bumped by every poll */
	uint32_t led; /* 1: a blocked thread is the engine */
	uint32_t followers; /* threads that are blocked and do not lead */
	uint32_t led_seq; /* bumped whenever a leader has worked */
	uint32_t asleep; /* LOOP_*: where the engine thread is */
	int kick_fd; /* eventfd: ends the engine's epoll */
	int epoll_fd; /* control, netlink, kick, and the doorbell while nobody leads */
	struct eqp *rq_waiters; /* QPs whose sender got RNR; under rq_waiters_lock */
	struct spin rq_waiters_lock;
	struct srq **xrc_srqs; /* by index; NULL until the first */
	struct xrc_domain *xrc_domains; /* of the process; readers inside a quiesce section */
	bool started;
};

extern struct node *node_current;

static inline struct eqp *to_eqp(struct tqp *q)
{
	return (struct eqp *)q;
}

static inline struct device *device_of(const struct tqp *q)
{
	return container_of(q->qp.ctx->hca, struct device, hca);
}

static inline struct eqp *node_qp(struct node *n, uint32_t qpn)
{
	struct block *b = load_acquire(&n->blocks[number_slot(qpn) & (NUMBER_SLOTS - 1)]);

	return b ? load_acquire(&b->qp[number_index(qpn)]) : NULL;
}
