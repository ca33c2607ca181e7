// SPDX-License-Identifier: MIT
/* This process' place on its host: the slots whose numbers it hands out, the pages it publishes,
 * its contacts to other processes with a ring each way, and the loopback to itself. It knows no QP:
 * segments come in by a callback and go out by destinations.
 *
 * Meeting point (docs/design/meeting-point.md): abstract AF_UNIX SOCK_SEQPACKET names
 * "softhca.<layout>.all.slot.<n>"; a process takes a slot by binding its name. First contact
 * (docs/design/peer-identity.md) connects, looks at SO_PEERCRED and exchanges by SCM_RIGHTS sealed
 * memfds (the published page, the inbound ring) and, within one user, tables; if the kernel lets
 * both, each opens the other's memory and gets its doorbell. None of it blocks: while the contact
 * is being made send() answers EAGAIN, and ENETUNREACH when no peer answers within the deadline.
 *
 * Threads: any; host_control() and host_drain() only try the locks of what they work on, and skip a
 * ring or a job that another thread has locked. No function is called under a QP's turn but
 * host_dest(), host_dest_again(), the link_ops of the destinations, and host_publish_qp(). */
#pragma once
#include "link/link.h"
#include "peers/host_page.h"

struct host;

/* The mode word tells senders whether to ring the doorbell (docs/design/wakeups.md). */
enum host_mode {
	HOST_POLLED, /* a thread polls, or the engine naps: need not be rung now */
	HOST_ARMED, /* the engine sleeps until it is rung */
	HOST_LED, /* a thread blocked in a call is the engine, and sleeps until it is rung */
	HOST_WATCHED, /* the engine looks all the time: is not rung for any record */
};

/* What a key of a published table covers, as plain numbers: this folder knows no key table. */
struct host_key {
	uint32_t pdn, access; /* IBV_ACCESS_* */
	bool direct; /* only dereg and rereg can revoke it: direct access may use it */
	uint64_t iova, len, addr; /* host address of iova */
	uint64_t gen; /* counts changes of the entry */
};

struct host_config {
	uint32_t n_keys; /* entries of the key table's shared memory */
	size_t key_bytes; /* its size: key_table_size(n_keys) */
	/* Copies the entry of @key, once, out of a table of @n entries, ours or one mapped from a
	 * peer; false when the key is not valid there. NULL: no by-reference payloads, no direct
	 * access. */
	bool (*key_read)(const void *table, uint32_t n, uint32_t key, struct host_key *out);
	/* Fills the 40 bytes of GRH and seg.l3 for the receiver of a UD segment, from s->av, when
	 * the sender gave no grh. NULL: zeros. */
	void (*make_grh)(void *arg, const struct seg *s, uint8_t grh[40], uint8_t *l3);
	/* An inbound segment for one of our numbers; valid during the call only. The callback must
	 * take it: a busy QP keeps a parcel. */
	void (*deliver)(void *arg, const struct seg *s);
	/* Would the segment be dropped, since a receive that it needs is not posted? deliver() may
	 * follow at once. NULL: no. */
	bool (*lacks_receive)(void *arg, const struct seg *s);
	/* A drain is over: gives up the turn that deliver() keeps from one segment to the next.
	 * NULL: it keeps none. Not called by host_drain(), whose caller does it. */
	void (*drained)(void *arg);
	/* The slot's process ended (after its published ring entries were delivered). */
	void (*peer_dead)(void *arg, unsigned int slot);
	/* A contact came up after others had ended: host_dest_again() may succeed now. NULL: not
	 * called. */
	void (*peer_up)(void *arg);
	/* A sender to this process itself waits for memory, whose return nothing tells: while
	 * host_own_waits(), host_drain() is to be called now and then. Called under a QP's turn.
	 * NULL: not called. */
	void (*starved)(void *arg);
	/* Makes the descriptor of what the process shows to a tool of the same user. Called by
	 * host_control(). NULL: it shows nothing. 0 or a positive errno. */
	int (*show)(void *arg, int *fd);
	void *arg;
};

/* Takes a first slot. EADDRINUSE: every slot is taken. Where names cannot be bound at all the
 * process is a host of its own, with the loopback only, and log_warn() says so. */
int host_create(const struct host_config *cfg, struct host **out);
void host_destroy(struct host *h); /* tests only: a program just exits */
void host_fork_begin(struct host *h); /* before a fork(); host_fork_end() behind it, in both */
void host_fork_end(struct host *h);
/* A forked child, before host_fork_end(): it closes its descriptors of memory and its connections
 * with peers, which are its parent's right, and its sockets that have names, which would outlive
 * the parent. */
void host_leave(struct host *h);

int host_take_slot(struct host *h, unsigned int *slot); /* a further slot: more numbers */
unsigned int host_first_slot(const struct host *h);
/* Processes of this host that there are contacts with. */
unsigned int host_company(const struct host *h);
bool host_is_alone(const struct host *h); /* a host of its own: no other process is reached */

void *host_key_memory(struct host *h); /* for key_table_create(); peers see it read-only */
/* Waits until no peer is inside an access to our memory under @key, which is unpublished already
 * (docs/design/direct-access.md). Never called under a turn. */
void host_revoke(struct host *h, uint32_t key);

/* The published entry of one of our QPs, for peers' direct access: seqlock'ed by the host. */
struct host_qp {
	uint32_t state; /* IBV_QPS_*; direct access only in RTR and RTS */
	uint32_t access; /* IBV_ACCESS_* */
	uint32_t pdn;
	uint32_t peer_qpn; /* the QP that may use the entry */
	uint32_t flags; /* HOST_QP_DIRECT: this QP allows direct access */
};
enum { HOST_QP_DIRECT = 1 };
void host_publish_qp(struct host *h, uint32_t qpn, const struct host_qp *e); /* NULL: gone */
/* Where peers see how far the QP has executed requests (host_page.h); the caller stores it under
 * the QP's turn, host_publish_qp() takes it back in all states but RTR and RTS. NULL: nowhere. */
uint32_t *host_executed(struct host *h, uint32_t qpn);
/* Waits until no peer is inside a direct access on @qpn. Never called under a turn. */
void host_revoke_qp(struct host *h, uint32_t qpn);

/* The destination of number @qpn on this host: loopback when the slot is ours. Starts the contact
 * when there is none yet. The destination of a slot that no process has answers ENETUNREACH. One
 * reference. */
int host_dest(struct host *h, uint32_t qpn, struct dest **out);

/* A new destination in place of @dead, whose process is alive: the handshake failed, or the contact
 * has ended. EAGAIN: try again later; a contact is begun. Once @dead has led to a process, it is
 * never replaced by a destination that leads to another one. */
int host_dest_again(struct host *h, const struct dest *dead, struct dest **out);

/* Ethernet frames (FRAME_OP) and multicast go to every process of this host that wants any, this
 * one too; the others are found by their names. @delta: +1 for one more reason of this process to
 * want them, -1 for one less. */
void host_cast_want(struct host *h, enum host_cast what, int delta);
/* Begins contacts with the processes that there are, so that a first segment need not wait. */
void host_cast_meet(struct host *h);
/* 0: every process has it. EAGAIN: a process has no room, or contacts are being made (each within
 * its deadline): @w waits at way->at, and the next call goes on there. If @w is NULL a process that
 * has no room does not get the segment. */
int host_cast_send(struct host *h, const struct seg *s, struct cast_way *way, struct waiter *w);

/* A number that is the same in all processes that host_cast_send() reaches. */
uint32_t host_cast_circle(const struct host *h);

/* Delivers up to @budget inbound segments, and resumes waiters whose destination has room; returns
 * the number of segments. Without any it costs one load a peer (with more than 8 peers: a look at a
 * bitmap). */
unsigned int host_drain(struct host *h, unsigned int budget);
/* @on: from now on this thread leaves a segment that lacks a receive in its ring, with all that is
 * behind it. For a thread that drains in place of a program which has only lost its core, and will
 * post the receive. Returns what it was. */
bool host_patience(bool on);
bool host_has_left(void); /* has this thread's last host_drain() left one? */
bool host_has_own(struct host *h); /* segments of this process to itself wait: one load */
bool host_own_waits(const struct host *h); /* senders of such segments do, for room or memory */
bool host_has_inbound(struct host *h); /* for the last look before sleeping */

int host_control_fd(struct host *h); /* an epoll descriptor: contacts, deaths; level triggered */
void host_control(struct host *h, uint64_t now); /* serves it; also contact deadlines, liveness */
uint64_t
host_deadline(struct host *h); /* ns: when host_control() is to run next; UINT64_MAX: never */

int host_doorbell_fd(struct host *h); /* eventfd that senders write */
void host_set_mode(struct host *h, enum host_mode mode); /* the caller fences and looks again */
/* The same, only if the mode is @from: the engine must not undo the mode of a leader. */
bool host_change_mode(struct host *h, enum host_mode from, enum host_mode to);
void host_ring_self(struct host *h); /* wakes our own engine */
/* For a thread that lives as long as the program: by its end peers see at once that the process has
 * ended. Without this call they do not use mappings of our memory. */
void host_mark_alive(struct host *h);
