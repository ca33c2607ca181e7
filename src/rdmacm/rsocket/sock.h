// SPDX-License-Identifier: MIT
/* Sockets over RDMA (rsocket(7)): what stands behind a descriptor that rsocket() has returned.
 *
 * Datagrams: dgram.h. A stream is a synchronous id whose channel never blocks, and a queue pair
 * whose peer writes into a ring of ours (ring.h). Whoever calls makes progress; what nobody calls
 * for, accepting and probes, a thread does (service.h).
 * A call takes its socket by sock_get() and gives it back by sock_put(); the lock is held during
 * all work, and not while a thread sleeps. Meanwhile pthread_cancel() ends the thread only where it
 * sleeps: it gives back what it has. Functions return 0 or a positive errno. */
#pragma once
#include <pthread.h>
#include <rdma/rsocket.h>
#include <stdbool.h>
#include "verbs/export.h"

enum sock_state {
	SOCK_NEW,
	SOCK_LISTENING,
	SOCK_ADDR, /* the address is being resolved */
	SOCK_ROUTE,
	SOCK_REQUEST, /* the REQ is out */
	SOCK_OPEN,
	SOCK_OVER, /* the connection has ended, or never came to be */
};

struct sge { /* as it lies in memory that the peer writes: in our byte order */
	uint64_t addr;
	uint32_t key, length;
};

struct iomap { /* one of the peer's, in memory of ours that it writes */
	uint64_t offset;
	struct sge sge;
};

enum { SGES = 2, CONTROL_SLOTS = 4, IOMAPS_MAX = 127 << 8 };

/* What one end tells the other in the private data of REQ and REP. */
struct greeting {
	uint8_t version, flags;
	__be16 credits;
	uint8_t zero[3], iomaps; /* scaled to 8 bits */
	__be64 sges_addr;
	__be32 sges_key, sges_count;
	__be64 data_addr;
	__be32 data_key, data_length;
};

struct exported { /* memory that riomap() shows the peer */
	struct exported *next;
	struct ibv_mr *mr; /* NULL: withdrawn, and the peer is to be told */
	uint64_t offset;
	int index; /* entry of the peer's table; -1: none, the memory is for local access */
	bool told;
};

struct sock {
	int fd; /* that of the id's channel; of datagrams: of UDP */
	unsigned int refs; /* guarded by the table's lock */
	unsigned int epoch; /* of the process that made it (table.c) */
	pthread_mutex_t lock; /* guards all that follows */
	struct rdma_cm_id *id; /* NULL: datagrams */
	struct dgram *dgram; /* NULL: a stream */
	enum sock_state state;
	int flags; /* O_NONBLOCK */
	int err; /* why it is over; 0: the peer closed */
	int so_error; /* what SO_ERROR has yet to tell */
	int tries; /* of resolving the address */
	long looked_at; /* of meet_look(): ns of its second */
	struct sockaddr_storage to;
	bool bound, passive, can_read, can_write;
	unsigned int asleep; /* threads that wait for a change */

	struct {
		uint32_t sq, rq, inlined, sndbuf, rcvbuf, iomaps;
		int reuse, nodelay, keepalive, oobinline, v6only, maxseg;
		int keep_idle, keep_interval, keep_count;
		struct linger linger;
		void *route; /* RDMA_ROUTE: paths, before connecting */
		size_t route_len;
	} opt;

	/* Sending. */
	uint8_t *sbuf;
	struct ibv_mr *smr;
	uint32_t spos, sfree; /* bytes: where the next copy begins, how many are not in flight */
	uint32_t sends_free; /* slots of the send queue, without those of control */
	uint32_t control_free;
	uint16_t sent, send_limit; /* messages; by number */
	struct sge target[SGES]; /* taken from `sges`: the first is written to */
	unsigned int targets; /* how many of them are valid */
	unsigned int next_sge; /* where in `sges` the peer puts the next one */

	/* What the peer writes: `sges`, then `iomaps`. Only looked at when a message says so. */
	struct sge *sges;
	struct iomap *iomaps, *known; /* known: ours, a copy of the entries it has announced */
	struct ibv_mr *tmr;

	/* Receiving: a ring, offered to the peer by halves. */
	uint8_t *rbuf;
	struct ibv_mr *rmr;
	uint32_t rpos, have; /* bytes: where the next one is read, how many there are */
	uint32_t offered; /* bytes that the peer may still write */
	uint32_t consumed; /* bytes read and not offered again */
	uint32_t offer_at; /* half that is offered next: 0 or 1 */
	uint16_t received, receive_limit, renew_at; /* messages; by number */
	uint64_t their_sges, their_iomaps; /* addresses at the peer */
	uint32_t their_key, their_sge_count, their_iomap_count, next_theirs;
	bool swap; /* the peer has the other byte order */

	struct exported *exported;
	unsigned int untold; /* of exported */

	struct { /* service.h */
		struct sock *next;
		bool served, full;
		unsigned int backlog;
		struct sock *accepted; /* of a listener: the first; of it: the next */
		uint64_t probe_at; /* ns */
	} svc;
	struct arena_part *memory; /* what rbuf, sbuf, sges, iomaps are in */
};

/* defaults.c */
void sock_defaults(struct sock *s); /* also from /etc/rdma/rsocket */
/* The nearest size that a socket can have. */
uint32_t sock_queue(uint32_t n);
uint32_t sock_buffer(uint32_t n);
uint32_t sock_inlined(uint32_t n);
uint32_t sock_iomaps(uint32_t n);
uint64_t sock_keep_idle(const struct sock *s); /* ns */

/* change.c */
enum { NAP = 10 }; /* ms */
struct sleeper {
	struct sleeper *next;
	int fd; /* readable when a socket has changed; -1: none */
};
/* False: there is no descriptor. Nobody can wake it, so it sleeps NAP at a time. */
bool sleeper_begin(struct sleeper *me);
void sleeper_end(struct sleeper *me);
void sock_changed(struct sock *s); /* wakes the threads that wait for it */
void sock_end(struct sock *s, int err); /* 0: the peer has closed */

/* sock.c */
extern __thread int sock_cancel; /* the program's state of cancellation, during a call */
/* @id: NULL makes one; else @out is locked, and has a reference beside the table's. @like: whose
 * options it gets; NULL: the defaults. */
int sock_make(struct rdma_cm_id *id, const struct sock *like, struct sock **out);
int sock_make_dgram(int domain, struct sock **out);
int sock_get(int fd, struct sock **out); /* locked; EBADF, EIO in a forked child */
struct sock *sock_find(int fd); /* not locked, but referred to; NULL: it is none of this process */
void sock_unref(struct sock *s);
void sock_put(struct sock *s); /* unlocks, too */
/* false: it is none. @out has the table's reference; NULL: it was a parent's, and is closed. */
bool sock_remove(int fd, struct sock **out);

/* meet.c */
int meet_begin(struct sock *s, const struct sockaddr *to);
void meet_step(struct sock *s); /* the events that are there; also of an open connection */
/* The same of an open connection whose caller does not wait; false: it has not looked. */
bool meet_look(struct sock *s);
/* EAGAIN: no request is there; EBUSY: some were refused, and there may be more. */
int meet_accept(struct sock *listener, struct sock **out);
bool meet_underway(const struct sock *s);
bool fd_is_readable(int fd);

/* wait.c */
enum awaited {
	AWAIT_REQUEST, /* a listener: somebody connects */
	AWAIT_MET, /* connecting has succeeded, or failed */
	AWAIT_READABLE, /* bytes, or the end of them */
	AWAIT_WRITABLE, /* also when writing would fail */
	AWAIT_CONTROL, /* a slot for a message of control */
	AWAIT_IDLE, /* the peer has all that was sent */
};
bool sock_holds(struct sock *s, enum awaited what);
/* Until it holds; EAGAIN: it does not, and @nonblock; EINTR. */
int sock_wait(struct sock *s, bool nonblock, enum awaited what);
int sock_wait_until(struct sock *s, uint64_t until, enum awaited what); /* ns; ETIMEDOUT */
int sock_unwritable(const struct sock *s); /* why writing fails, though AWAIT_WRITABLE holds */
void sock_progress(struct sock *s); /* all that can be done now */
int sock_event_fd(const struct sock *s); /* of completions; -1: there are none yet */
void sock_arm(struct sock *s); /* a completion is to make its descriptors readable */
void sock_drain(struct sock *s); /* takes the events that did */
bool spin_is_over(uint64_t *since); /* @since: 0 at first */
