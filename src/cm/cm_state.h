// SPDX-License-Identifier: MIT
/* The inside of connection management, shared by its files. One mutex, cm.lock, guards all of it;
 * it stands above the links' locks, and no QP is touched under it. A thread of its own (cm_watch.h)
 * serves sockets and timers. */
#pragma once
#include <pthread.h>
#include "cm/cm.h"
#include "cm/cm_fsm.h"
#include "engine/gsi/gsi.h"
#include "engine/gsi/gsi_own.h"
#include "util/hash.h"
#include "util/list.h"
#include "util/mutex.h"
#include "util/wheel.h"

/* A descriptor that the thread serves. */
struct cm_watch {
	uint64_t serial; /* key in cm.watches; 0: not watched */
	int fd; /* -1: none */
	void (*ready)(struct cm_watch *w);
};

struct cm_id;

struct cm_channel {
	uint64_t serial; /* its key in cm.channels */
	int fd; /* eventfd: counts the events */
	uint32_t epoch; /* of fork.h: the process that made it */
	struct list events;
	uint64_t leak; /* obs/leaks.h */
};

struct cm_event {
	struct list node; /* in its channel */
	struct cm_id *id; /* the id that it is told of; of a CONNECT_REQUEST: the listener */
	bool *fetched; /* of a join: set with the fetch; NULL: of none */
	struct cm_news news;
};

/* An event for which there was no memory. */
struct cm_owed {
	int status : 24;
	unsigned int event : 8;
};

enum { CM_OWED = 6 }; /* more than an id still has to tell when it tells nothing meanwhile */

/* Another user's process that waits: for its turn to ask, or for the answer to its request. */
struct cm_waiting {
	struct list node; /* in cm.guests or cm.requesters; empty: it does not wait */
	uid_t uid;
	bool stranger; /* else it is of our own user, and not counted */
};

enum cm_phase {
	PHASE_IDLE,
	PHASE_BOUND,
	PHASE_LISTEN,
	PHASE_ADDR_QUERY,
	PHASE_ADDR,
	PHASE_ROUTE,
	PHASE_CONNECT,
	PHASE_REMOVED, /* its device has gone: it can be destroyed */
};

/* A name of a port (gsi_names.h); ids with REUSEADDR share it. */
struct cm_name {
	struct cm_watch watch;
	struct list node; /* in cm.names */
	struct gsi_port port;
	unsigned int refs;
};

/* Ephemeral ports that this process has leased. Ids share one of them unless all their addresses
 * are the same. */
struct cm_block {
	struct list node; /* in cm.blocks, the newest one first */
	int fd; /* its name; -1: shared with another process */
	uint32_t ps;
	unsigned int number, first, size; /* of the block; its first port; ports */
	unsigned int next; /* counts: ports in it go round */
	unsigned int ids; /* count of ids with a port of the block */
};

/* The way to the peer. */
struct cm_way {
	struct hca *hca; /* NULL: bound to none */
	uint8_t sgid_index, hop_limit, tclass;
	uint8_t mtu; /* enum ibv_mtu */
	uint8_t ack_timeout; /* of the path: 1 more than its packet life time; 0: no route yet */
	uint8_t sl;
	uint8_t rate; /* enum ibv_rate; 0: the port's */
	uint32_t flow_label;
	union ibv_gid sgid, dgid;
	uint32_t ifindex;
	bool net; /* through a network; else on this host */
};

struct cm_id {
	struct list node; /* in cm.ids */
	uint32_t epoch; /* as the channel's */
	struct cm_channel *channel;
	void *owner;
	uint64_t leak; /* obs/leaks.h; 0: the program has not seen it yet */
	uint32_t ps;
	int qp_type;
	enum cm_phase phase;
	bool gone; /* the program has destroyed it: only its state machine goes on, to its end */
	bool kept; /* threads of the program may still name it: until id_release() */
	bool over; /* its machine has ended while it was kept: it is in no list or table */
	bool muted; /* a request that was not accepted: raises no events */
	bool reuse, afonly;
	bool has_afonly; /* the program has set it */
	bool has_ack_timeout;
	uint8_t tos, ack_timeout; /* options */
	struct sockaddr_storage src, dst; /* port 0: none yet */
	struct cm_name *names[2]; /* of its port; NULL none */
	struct cm_block *block; /* the lease that the port belongs to; NULL: no lease */
	uint64_t pair_key; /* in cm.pairs; 0 none */
	struct cm_way way;
	uint32_t fetched; /* events of it that the program has fetched */
	struct cm_event *answer; /* to resolve_addr(), made with the call; NULL: it asks nothing */
	struct list owing; /* in cm.owing while it owes events */
	struct cm_owed owed[CM_OWED]; /* in their order */
	unsigned int n_owed;
	/* writes into an event that @id owed what it shows */
	void (*fill)(const struct cm_id *id, struct cm_event *e);
	/* listening */
	int backlog, pending; /* most requests that may wait to be fetched; requests that wait */
	struct list listening; /* in cm.listeners, since the program has called listen() */
	struct cm_id *listener; /* for which this one waits to be fetched; NULL: it does not */
	struct cm_waiting requester; /* of a request of this host that is not accepted */
	/* the conversation */
	struct cm_fsm fsm;
	struct timer timer;
	struct cm_watch conn; /* to the peer on this host */
	bool quick; /* the peer's host has softhca; on this host: messages get lost on purpose */
	bool lost; /* the peer's socket on this host did not take the last message */
	struct list flight; /* in cm.flights or cm.departures */
	bool delayed; /* it is in cm.departures: its timers begin when it leaves */
	bool landed; /* its request is repeated, and counts no more */
	uint64_t departed; /* ns: when it came into cm.flights */
	struct cm_msg peer; /* its REQ, REP or SIDR_REP */
	uint64_t request_key, qp_key; /* in cm.requests, cm.qpns; 0 none */
	uint32_t refused_id; /* comm id of a REP that was refused as stale; 0 none */
	uint32_t psn; /* that the peer begins to send with */
	uint8_t responder_resources, initiator_depth, retry_count, rnr_retry;
	uint32_t qkey;
	struct list query; /* in cm.queries while the way's neighbour is not known */
	uint64_t query_until; /* ns */
	uint64_t unreached_at; /* ns: when a message first met no host; 0 never */
	struct cm_far *far; /* the peer's process in another host; NULL: not connected to one */
	struct list far_node; /* in far->ids */
	struct list joins; /* struct cm_join */
};

struct cm {
	struct mutex lock;
	uint32_t epoch; /* 0: not started */
	struct node *node;
	uint64_t guid; /* of this process' CA, in messages */
	unsigned int slot;
	uint32_t next_id; /* 22 bits of the next comm id */
	int epoll_fd, kick_fd;
	/* ns: until when the thread sleeps unless a descriptor is ready; 0: it is awake, and will
	 * look at the wheel before it sleeps. A timer that a call adds kicks only for less: most
	 * are deleted before, and the deadline of a deleted one stays here. */
	uint64_t sleeps_until;
	int spare_fd; /* closed for a moment to refuse a connection when there is no other; -1: lost
			 to another thread meanwhile */
	struct timer rest; /* of names, while it is lost */
	uint64_t serial; /* of the newest watch or channel */
	struct hash watches; /* serial to struct cm_watch */
	struct hash channels; /* serial to struct cm_channel */
	struct hash by_id; /* comm id to struct cm_id */
	struct hash requests; /* the REQ that made it to struct cm_id */
	struct hash qpns; /* host, GUID and QPN of the peer to struct cm_id */
	struct hash pairs; /* port space, source and destination with their ports to struct cm_id */
	struct list ids, names;
	struct list blocks;
	struct list listeners; /* ids */
	struct list owing; /* ids */
	struct timer debts; /* when those try again */
	struct list queries, fars;
	struct list flights; /* ids whose request to a network is not answered */
	struct list departures; /* ids whose request waits for one of those */
	struct list guests; /* struct cm_waiting of struct guest of cm_arrive.c */
	struct list requesters; /* struct cm_waiting of ids */
	struct wheel wheel;
	struct cm_watch process; /* the name of the process */
	struct cm_watch own; /* messages that this process has read for itself */
	struct cm_watch links; /* netlink: interfaces that go */
	struct cm_watch neighs; /* netlink: neighbours that change */
	struct cm_watch returns; /* MADs that came back */
	struct hca *hca[NODE_DEVICES];
	unsigned int n_hcas;
};

extern struct cm cm;
