// SPDX-License-Identifier: MIT
/* The inside of the node and its devices, shared by the engine's files. Locks, all leaves:
 * node->lock (number blocks, reserved numbers, the making of xrc_srqs, opening of links),
 * node->wheel_lock (the wheel and every timer in it), node->rq_waiters_lock. */
#pragma once
#include <pthread.h>
#include "engine/eqp.h"
#include "engine/idle/vain.h"
#include "engine/node.h"
#include "engine/node_self.h"
#include "engine/unrung.h"
#include "link/links.h"
#include "link/number.h"
#include "net/gid_table.h"
#include "peers/host.h"
#include "util/bitmap.h"
#include "util/hash.h"
#include "util/mutex.h"
#include "util/quiesce.h"

#define FIRST_INDEX 2 /* QPN 0 and 1 are special; kept free in every block */

struct fault_dice;
struct passing;
struct xrc_domain;

struct device {
	struct hca hca;
	struct gid_table *gids;
	int watch_fd; /* netlink: the interface changes; -1 none */
	struct node *node;
	uint32_t listeners; /* UD QPs that receive by any of its addresses; atomic */
	/* frames.c */
	struct mutex frames_lock; /* guards frames_wanted and the opening of both descriptors */
	struct mutex frames_reading; /* guards reading and closing of frames_in, and frames_room */
	int frames_wanted; /* 1 while the flow table has rules; its two calls may cross */
	int frames_out, frames_in; /* AF_PACKET; -1 none; atomic */
	uint8_t *frames_room; /* PACKET_ROOM bytes to read into, while there is frames_in */
	bool frames_begun; /* the first of them is wanted; under frames_lock, as the next */
	uint32_t frames_ifindex; /* the interface that they are bound to */
	struct counters shown; /* what the port's files have of hca.counters; under
				* node->counts.files */
};

struct block { /* the QPs of one slot's numbers */
	struct eqp *qp[NUMBER_INDEXES]; /* readers: inside a quiesce section */
	struct bitmap used; /* under node->lock */
};

/* What the engine thread does. LOOP_NAPPING: it is under a leader, for a few ms at most. */
enum { LOOP_AWAKE, LOOP_ARMED, LOOP_NAPPING, LOOP_UNDER_LEADER };

#define NODE_LINKS 4

struct node_link {
	struct link *link;
	struct node *node;
	uint32_t skipped; /* polls that had other work since the link was last drained; atomic */
	bool watched; /* epoll_fd waits for its packets too; the engine thread's */
};

struct node {
	uint32_t epoch; /* of fork.h: the process that made the node */
	struct host *host;
	struct node_link link[NODE_LINKS]; /* links.h: [0] is this host's, the rest networks */
	uint32_t n_links; /* frozen once the node is made */
	uint32_t networks; /* open ones: link[1] and those that follow it; atomic */
	struct key_table *keys;
	struct mcast_table *mcast;
	struct mutex groups_lock; /* guards that networks join and leave as mcast says; no leaf */
	struct fault_dice *mad_faults; /* SOFTHCA_FAULT of MADs; NULL: none; gsi_way.h */
	struct mutex lock;
	struct mutex grow_lock; /* one thread at a time adds a block; above host->control */
	struct device *devices[NODE_DEVICES];
	unsigned int n_devices; /* atomic */
	struct block *blocks[NUMBER_SLOTS]; /* by slot; qp_table.h */
	struct hash reserved; /* QPN → context that reserved it; reserved.h */
	struct eqp *acks; /* lock-free stack: ACKs to flush when a drain finds nothing */
	struct eqp *delayed; /* lock-free stack: ACKs that wait for the program's reply */
	uint64_t delay_end; /* ns: about when the first of these must leave; atomic */
	struct eqp *corked; /* lock-free stack: QPs whose posts wait for more of them */
	uint64_t cork_end; /* ns: about when the first of these must leave; atomic */
	uint32_t corks; /* counts these; atomic */
	uint32_t glances; /* counts polls that found completions and made no progress; atomic */
	uint32_t unasked; /* counts packets that need no program; under the link's drain lock */
	struct {
		struct spin lock; /* guards the rest */
		struct passing *all;
		uint32_t bytes; /* that all packets take */
	} passing; /* passing.h */
	struct parcel *unanswered; /* lock-free stack: requests whose sender is still to be told */
	uint64_t nobody; /* counts requests for a QP that does not exist; atomic */
	uint64_t damaged; /* counts segments that this host's fault links have damaged; atomic */
	struct eqp *ready; /* lock-free stack: QPs with notes that no thread is working on */
	struct spin wheel_lock;
	struct wheel wheel;
	uint64_t next_timer; /* wheel_next(), read without the lock */
	struct wheel watches; /* the watchdog's timers, for the engine thread; under wheel_lock */
	uint64_t next_watch; /* as next_timer */
	struct {
		struct timer timer; /* under wheel_lock; the others: atomic */
		uint64_t step; /* ns from the last try to the next */
		uint32_t due; /* the timer has fired */
	} ports; /* the next try for what networks refuse at this moment: port_wait.h */
	/* the thread that makes progress: docs/design/wakeups.md; leader.h, loop.h */
	uint32_t poll_seq; /* counts polls */
	struct vain_threads vain;
	uint32_t rounds; /* counts the engine thread's looks at descriptors; atomic */
	/* The count that a poll has seen, and since when, ns; atomic; stand_in.c. */
	uint32_t rounds_seen;
	uint64_t rounds_since;
	uint64_t rest_until; /* ns: a thread that polls sleeps so long at most; atomic; rest.h */
	uint32_t resting; /* counts threads that do so now; atomic */
	uint32_t led; /* 1: a blocked thread is the engine */
	uint32_t emptying; /* 1: a thread that does not lead reads the doorbell; atomic */
	uint32_t followers; /* threads that are blocked and do not lead */
	uint32_t led_seq; /* counts the rounds of leaders */
	uint64_t recheck_at; /* ns: a leader looks at the signal handlers again; atomic */
	uint32_t naps_long; /* 1: the engine thread does, since there is a crowd; atomic */
	uint32_t asleep; /* LOOP_*: of the engine thread; atomic */
	int kick_fd; /* eventfd: ends the engine thread's epoll */
	bool in_ms; /* there is no epoll_pwait2(): waits are in milliseconds; the engine thread's */
	int epoll_fd; /* links, netlink, kick_fd, and the doorbell while no thread leads */
	struct eqp *rq_waiters; /* QPs whose sender got RNR; under rq_waiters_lock */
	struct spin rq_waiters_lock;
	/* The target QP that a request is for (src/xrc); NULL until the first XRC domain */
	struct eqp *(*find_shared)(struct node *n, const struct seg *s);
	struct srq **xrc_srqs; /* by index (xrc_srq_table.h); NULL until the first */
	struct mutex xrc_lock; /* guards the list of domains and their refs; no leaf */
	struct xrc_domain *xrc_domains; /* of the process; readers: inside a quiesce section */
	struct { /* unrung.h */
		pthread_mutex_t lock; /* guards all and nap */
		struct list all; /* → struct unrung */
		uint64_t nap; /* ns between two looks, now */
		uint64_t due; /* ns: the next look; atomic */
		uint32_t comers; /* threads that wait for the lock, or soon will; atomic */
		enum unrung_spin spin; /* atomic */
		bool asked; /* there is work: own_core.h may begin; atomic */
	} unrung;
	struct { /* port_counts.h */
		struct spin lock; /* guards eqp.counted of all QPs; a leaf */
		pthread_mutex_t files; /* guards device.shown; held while files are written */
		uint64_t due; /* ns: the files are written next; UINT64_MAX: never; atomic */
	} counts;
	bool started; /* the engine thread runs */
};

static inline struct device *device_of(const struct tqp *q)
{
	return container_of(q->qp.ctx->hca, struct device, hca);
}

static inline struct eqp *node_qp(struct node *n, uint32_t qpn)
{
	struct block *b = load_acquire(&n->blocks[number_slot(qpn) & (NUMBER_SLOTS - 1)]);

	return b ? load_acquire(&b->qp[number_index(qpn)]) : NULL;
}
