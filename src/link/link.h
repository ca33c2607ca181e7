// SPDX-License-Identifier: MIT
/* Links move segments to destinations and know no QP. A destination is a pair of a link and a peer:
 * a process of this host (loopback: this process itself), or an address on the network.
 *
 * Threads: any thread may call every function; links do their own locking (leaf locks). send()
 * never blocks on the peer and never calls back into a QP. When it returns, the link has copied the
 * payload and all the caller's memory, or refers to it by piece. An OP_GROUNDS is sent only to a
 * host that has said that it understands it; otherwise it is lost. */
#pragma once
#include <stddef.h>
#include "link/seg.h"
#include "util/list.h"

/* The entry of a sender on the waiting list of a destination that had no room (EAGAIN). The link
 * calls resume() once, from its progress function, outside its locks. */
struct waiter {
	struct list node; /* list_init() by the owner; guarded by the link */
	void (*resume)(struct waiter *w);
};

/* What a process of this host has allowed a QP at its last direct access, as long as its entries
 * are the same; the link's. All zero: nothing. */
struct link_grant {
	uint64_t process; /* as dest.process */
	uint32_t sqpn, dqpn, rkey; /* of that access: the requester's and the peer's QP, the key */
	uint32_t access; /* IBV_ACCESS_REMOTE_* */
	uint32_t seq, gen; /* of the entries of the QP and the key */
};

/* A WRITE or READ by direct access. */
struct direct_ask {
	bool write;
	bool mapped; /* only by loads and stores (docs/design/mapped-memory.md): a system call would
			keep the peer busy */
	bool unanswered; /* UC: only when the peer's QP has executed all requests before @psn */
	uint32_t psn;
	uint32_t sqpn, dqpn;
	uint32_t rkey;
	uint64_t va;
	uint32_t len; /* bytes */
	uint32_t done; /* bytes that are in place */
	const struct piece *pieces;
	unsigned int npieces;
	struct link_grant *grant; /* the QP's */
};

/* How far the peer's process had to take segments when taken() was called last. All zero: taken()
 * was never called. */
struct link_mark {
	uint64_t process; /* as dest.process */
	uint64_t at; /* the link's: position of the last segment */
	uint64_t asked; /* the link's: number of the question for the peer's position */
	uint32_t ring; /* the link's: in which ring, counted from the first */
};

/* What a link knows of a peer that does not answer. All zero: nothing. */
struct link_silence {
	bool ended; /* on this host: its process has ended */
	int pid; /* of that process; 0: not known */
	int unreached; /* on this host: errno with which its process could not be reached */
	unsigned int layout; /* of the other version of softhca whose process it is; 0: none */
	int refused; /* errno with which this host's kernel refuses to send packets; 0: it sends */
	uint64_t refusals, sent; /* packets that it has refused, and sent */
	bool no_neighbour; /* no host answers for the address, or for the gateway to it */
	bool answers; /* the host still answers our hello */
};

struct link_ops {
	const char *name; /* "loopback", "shm", "udp", "fault" */
	/* 0: the link has the segment. EAGAIN: full, @w (may be NULL) is on the waiting list.
	 * EFAULT: a piece is not mapped in this process. ENETUNREACH: the peer is dead, or no such
	 * process: the caller's ordinary timeout and retries follow. */
	int (*send)(struct dest *d, const struct seg *s, struct waiter *w);
	/* A shorter way for a SEND in one segment of at most inline_max bytes, by value: of @s only
	 * op, flags, syndrome, pkey, the QP numbers, psn, npsn, len, pieces, with SEG_ACK ack_psn
	 * and ack_msn, and of a datagram qkey, grh, l3, sl and sport are read. It leaves by
	 * flush(). Inside a quiesce section. 0, or an errno: nothing was sent, and send() says why.
	 * NULL: the link has no shorter way. */
	int (*send_plain)(struct dest *d, const struct seg *s);
	/* Copies @n pieces' bytes from @skip on, @len bytes, from the peer's memory into @dst
	 * (this process; docs/design/guarded-copies.md tells in which order) under a hazard. 0;
	 * EFAULT: @dst is not mapped; EREMOTEIO: the peer's memory or key is gone; EPERM: this
	 * process may not read the peer's memory, so payload has to come by value. */
	int (*fetch)(struct dest *from, const struct seg *s, uint32_t skip, const struct piece *dst,
		     unsigned int ndst);
	/* Direct access (docs/design/direct-access.md): this thread itself does the next part of a
	 * WRITE or READ of @ask->pieces at the peer's @ask->va, as much as is good to do at once.
	 * 0: @ask->done bytes are in place. Any error: go through send(). NULL: never. */
	int (*direct)(struct dest *d, struct direct_ask *ask);
	/* Wakes the peer for segments that were sent with seg.more. NULL: senders leave seg.more
	 * false. */
	void (*flush)(struct dest *d);
	/* Lossless links: has the peer's process run since the last call with this @mark, and has
	 * it taken all segments that were sent before that call? @mark: moves on to now. A process
	 * that is stopped has not. NULL: always true. */
	bool (*taken)(struct dest *d, struct link_mark *mark);
	/* The peer was silent for a whole try: asks its host whether it is still there. NULL: the
	 * link asks no host. */
	void (*doubt)(struct dest *d);
	/* A packet from there was accepted: asks its host what it is able to do (dest.abilities),
	 * and heeds what it has said since. A side that sends packets has asked by them. NULL: the
	 * link asks no host. */
	void (*get_to_know)(struct dest *d);
	/* What a reason can say of a silent peer; may ask the kernel. NULL: nothing is known. */
	void (*silence)(struct dest *d, struct link_silence *out);
	void (*cancel)(struct dest *d, struct waiter *w); /* off the waiting list */
	void (*put)(struct dest *d); /* gives a reference back */
};

/* The two ends of a path through a network. */
struct dest_net {
	union ibv_gid local, remote; /* IPv4 as ::ffff:a.b.c.d */
};

/* Abilities of the host behind a network destination, as its hello says. */
enum {
	DEST_REPORTS = 1, /* it sends and understands OP_REPORT, and takes packets out of order */
	DEST_ONE_PORT = 2, /* all packets of a QP leave its host by one UDP port, or it says by
			      OP_PORT when that is another one */
};

struct dest {
	const struct link_ops *ops;
	uint32_t refs; /* atomic */
	uint32_t max_seg; /* payload bytes of one segment by value */
	uint32_t max_ref; /* payload bytes of one by reference; 0: the peer cannot fetch from us */
	uint32_t inline_max; /* payload bytes above which the link prefers references */
	const struct dest_net *net; /* through a network; NULL: on this host */
	uint16_t sport; /* through a network: the UDP port that packets leave by; innermost */
	uint32_t window; /* atomic: PSNs that may be outstanding where packets are lost; 0: the
			    default */
	uint32_t refused; /* atomic: errno with which this host's kernel refuses to send packets
			     there; 0: it does not */
	uint32_t abilities; /* atomic: DEST_*; bits may be added at any time, none is taken away */
	uint64_t process; /* atomic: on this host, the number of the process behind it, the same in
			     all destinations to that process; 0: none yet, none any more, or a
			     network */
	uint32_t unanswered; /* atomic: requests from it that engine/unanswered.h keeps */
	bool same_host; /* lossless, ordered, knows sqpn, piggybacks ACKs; no ack timer */
	bool dead; /* the peer has ended; a hint, set once */
	struct dest *inner; /* the destination that this one wraps; NULL: none */
};

/* To which processes a segment for every process of this host has gone, so that the sender can go
 * on there after a wait. All zero: to none yet. */
struct cast_way {
	uint32_t next; /* number of the process that gets it next; 0: none has it yet */
	bool late; /* set by the sender: that process has had its time, and is passed over */
	struct dest *at; /* the destination that has no room; a reference; NULL: none */
};

/* Only the innermost destination's fields are up to date. */
static inline const struct dest *dest_innermost(const struct dest *d)
{
	while (d->inner)
		d = d->inner;
	return d;
}

static inline bool dest_dead(const struct dest *d)
{
	return __atomic_load_n(&dest_innermost(d)->dead, __ATOMIC_RELAXED);
}

static inline uint32_t dest_window(const struct dest *d)
{
	return __atomic_load_n(&dest_innermost(d)->window, __ATOMIC_RELAXED);
}

static inline uint32_t dest_abilities(const struct dest *d)
{
	return __atomic_load_n(&dest_innermost(d)->abilities, __ATOMIC_RELAXED);
}

static inline uint64_t dest_process(const struct dest *d)
{
	return __atomic_load_n(&dest_innermost(d)->process, __ATOMIC_RELAXED);
}

static inline bool dest_has_taken(struct dest *d, struct link_mark *mark)
{
	return !d->ops->taken || d->ops->taken(d, mark);
}

static inline int dest_refused(const struct dest *d)
{
	return (int)__atomic_load_n(&dest_innermost(d)->refused, __ATOMIC_RELAXED);
}

static inline void dest_doubt(struct dest *d)
{
	while (d->inner)
		d = d->inner;
	if (d->ops->doubt)
		d->ops->doubt(d);
}

static inline void dest_get_to_know(struct dest *d)
{
	while (d->inner)
		d = d->inner;
	if (d->ops->get_to_know)
		d->ops->get_to_know(d);
}

static inline void dest_silence(struct dest *d, struct link_silence *out)
{
	while (d->inner)
		d = d->inner;
	*out = (struct link_silence){ .refused = dest_refused(d) };
	if (d->ops->silence)
		d->ops->silence(d, out);
}

static inline int dest_send(struct dest *d, const struct seg *s, struct waiter *w)
{
	return d->ops->send(d, s, w);
}

/* What the protocol must know of the link to a peer. Without a destination (NULL) each is false. */

/* The link loses no segment and keeps their order: no ack timer runs. */
static inline bool link_is_lossless(const struct dest *d)
{
	return d && d->same_host;
}

/* Answers by this link may carry syndromes that RoCE lacks: receives were posted, there is no
 * responder, memory cannot be fetched (SYN_*). */
static inline bool link_has_notices(const struct dest *d)
{
	return d && d->same_host;
}

/* An ACK waits until this side has taken all segments that the peer has sent, so that it wakes the
 * peer only once. */
static inline bool link_gathers_acks(const struct dest *d)
{
	return d && d->same_host;
}

/* A request or a response can carry an ACK (SEG_ACK). */
static inline bool link_carries_acks(const struct dest *d)
{
	return d && !d->net;
}

/* Other traffic shares the way: it delays, drops and marks packets, and round trips vary. */
static inline bool link_may_congest(const struct dest *d)
{
	return d && d->net;
}

/* A segment is one packet: a long message is many segments, and a READ may be requested in
 * parts. */
static inline bool link_is_of_packets(const struct dest *d)
{
	return d && d->net;
}

/* The peer says by reports which packets it misses, and keeps those behind them. */
static inline bool link_reports_loss(const struct dest *d)
{
	return link_is_of_packets(d) && (dest_abilities(d) & DEST_REPORTS);
}

/* The addresses at both ends of a network path; else NULL. */
static inline const struct dest_net *link_ends(const struct dest *d)
{
	return d ? d->net : NULL;
}
