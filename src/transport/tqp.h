// SPDX-License-Identifier: MIT
/* A queue pair's protocol: requester, responder, completer of RC, UC, UD, XRC and DC; RAW_PACKET
 * has frames alone.
 *
 * Sans I/O: input is a doorbell, a segment, or the passing of a deadline, each with the time;
 * output goes to q->dest (segments), to the CQs (CQEs) and to q->deadline. No thread, no lock of
 * its own, no clock but env->clock(), by which direct access measures its cost: for every function
 * here the caller holds the QP's turn and is inside a quiesce section.
 *
 * Both ends of every rule live here: PSN windows, go-back-N, NAK, RNR and timeouts (q->deadline may
 * move to a later time without notice, so the caller looks again when it fires), duplicate READ and
 * atomic replay, rd_atomic limits, fences, MSN; the fate table (fate.h) maps a verdict to {NAK,
 * completion status, vendor syndrome, QP action, event}. */
#pragma once
#include "hca/qp.h"
#include "link/link.h"
#include "obs/rnr_since.h"
#include "obs/tally.h"
#include "transport/drop.h"
#include "transport/requester.h"
#include "transport/responder.h"
#include "transport/sender.h"

#define TQP_NEVER UINT64_MAX

struct tqp_env;

/* What waits for tqp_settle(). */
enum tqp_unsettled {
	UNSETTLED_LINK = 1, /* segments, in the link */
	UNSETTLED_ENTRIES = 2, /* completions, in CQs that compress them (receive.h) */
};

struct tqp {
	struct qp qp; /* first */
	const struct tqp_env *env;
	struct dest *dest; /* connected services, from RTR on; NULL: none, and segments vanish */
	struct dest *alternate; /* of path migration; NULL: none, or the same as dest */
	struct waiter waiter; /* on dest's waiting list */
	uint64_t deadline; /* ns; TQP_NEVER: none */
	uint64_t watch_at; /* ns: the same for the watchdog's looks, which may be late */
	uint64_t cnp_at; /* ns: when the peer was last sent a CNP; 0: never */
	bool ack_due; /* an ACK waits for the next segment, for tqp_flush_ack(), or for the link */
	uint8_t unsettled; /* enum tqp_unsettled */
	bool again; /* work goes on in a later turn, by tqp_resume(); the engine clears it */
	bool asking; /* DC: a target is asked for a connection, and has not answered */
	bool rnr_waiting; /* a sender waits: call tqp_rq_doorbell() when a receive is posted */
	struct rnr_since waits, refused; /* the last message that waited there, and here */
	struct sender sender; /* whose packets are accepted */
	struct tally tally;
	uint32_t *executed; /* UC: where processes of this host see rsp.epsn + 1; NULL: nowhere */
	struct cq *delaying; /* list of CQs that delay completions of this turn; or NULL */
	uint64_t cause; /* the reason's record for ERR or SQE; 0: by modify */
	struct requester req;
	struct responder rsp;
	struct drops drops;
	struct {
		struct linear_buffer {
			uint8_t *bytes; /* NULL until the first use */
			uint64_t size;
		} part, image; /* a segment's payload; the memory around it (mkey/signature.h) */
		bool wrong; /* the last call has found a signature that is wrong */
	} linear; /* linear/linear.h */
};

/* What the surroundings (engine, or a simulator) do for a QP. */
struct tqp_env {
	/* The destination of a UD segment. 0 and a reference in *out; or an errno: it is lost. */
	int (*resolve)(struct tqp *q, const struct av *av, uint32_t dqpn, struct dest **out);
	/* q->ack_due was set: call tqp_flush_ack() when no more segments are there. */
	void (*ack_later)(struct tqp *q);
	/* Through a network: may the ACK of a message wait a moment for the program's reply? true:
	 * call tqp_flush_ack() soon. NULL: it may not. */
	bool (*ack_delay)(struct tqp *q);
	/* Through a network: may packets of this post, which the link has, wait for those of the
	 * program's next posts? true: call tqp_uncork() soon. NULL: they may not. */
	bool (*cork)(struct tqp *q, uint64_t now);
	/* How often the program has polled, modulo 2^32. NULL: direct access is used for series of
	 * READs and WRITEs, too (struct series). */
	uint32_t (*polls)(const struct tqp *q);
	/* The time in ns, for measuring within a turn; not NULL where polls is not. */
	uint64_t (*clock)(const struct tqp *q);
	/* The protocol itself has moved the QP to ERR or SQE (direct access ends). NULL:
	 * ignored. */
	void (*moved)(struct tqp *q);
	/* q->watch_at was set: call tqp_timer() at that time, or later. NULL: the caller looks at
	 * q->watch_at by itself. */
	void (*watch)(struct tqp *q);
	/* q->dest is dead. True: q->dest is another destination of the same peer now, and q->waiter
	 * is on no list. NULL: there never is another one. */
	bool (*again)(struct tqp *q);
	/* Does the alternate path still exist? NULL: always. */
	bool (*usable)(struct tqp *q);
	/* tqp_no_responder() got EAGAIN: call it again later. NULL: the QP's own answer is used
	 * if it has a destination. */
	void (*no_responder_later)(struct tqp *q, const struct seg *s);
	/* Sends a frame (FRAME_OP) or a multicast datagram. 0: it is out. EAGAIN: q->waiter waits
	 * at q->req.way.at; call again with the same segment. */
	int (*cast)(struct tqp *q, const struct seg *s);
	/* XRC, DC: makes q->dest the destination that @w names: the process of its SRQ, or its
	 * target. False: not yet, since it differs from the present one and segments are
	 * outstanding there (not @idle), or since the target is being asked for a connection. NULL:
	 * one destination serves all work requests. */
	bool (*route)(struct tqp *q, const struct wqe *w, bool idle, uint64_t now);
	/* DCI streams: a work request has failed, and none that was sent behind it has been
	 * executed. True: that ends its stream and the connection to the target; other streams go
	 * on. NULL: the QP goes to ERR. */
	bool (*spare)(struct tqp *q, uint16_t block);
	/* Is the stream of the work request at @block in error? NULL where spare is. */
	bool (*stopped)(const struct tqp *q, uint16_t block);
	/* XRC: binds the responder to SRQ @srqn, by xrc_bind(). False: its domain does not have
	 * that SRQ. NULL: kept requests are for the SRQ in use. */
	bool (*serve)(struct tqp *q, uint32_t srqn);
	/* Raises an event on each handle of a QP that has several (XRC). NULL: qp.user is the only
	 * one. */
	void (*event)(struct tqp *q, enum ibv_event_type type);
};

void tqp_init(struct tqp *q, const struct tqp_env *env);
/* Frees the protocol's memory and references; the QP is in RESET or being destroyed. */
void tqp_fini(struct tqp *q);

/* The state was changed by qp_modify() from @old: RESET drops all protocol state; RTR arms the
 * responder; RTS the requester; SQD drains (IBV_EVENT_SQ_DRAINED); ERR flushes both queues and
 * raises IBV_EVENT_QP_LAST_WQE_REACHED for a QP on an SRQ. */
void tqp_moved(struct tqp *q, enum ibv_qp_state old, uint64_t now);

void tqp_doorbell(struct tqp *q, uint64_t now); /* the SQ may have new WQEs */
/* The same, where it needs no time. False: it does; tqp_doorbell() goes on from here. */
bool tqp_doorbell_timeless(struct tqp *q);
/* Receives were posted. In ERR they are flushed; else a sender that waits for one is told. */
void tqp_rq_doorbell(struct tqp *q, uint64_t now);
void tqp_input(struct tqp *q, const struct seg *s, uint64_t now);
void tqp_timer(struct tqp *q, uint64_t now); /* before q->deadline, q->watch_at: nothing */
/* ibv_modify_qp_rate_limit(); attr.rate_limit says it already. */
void tqp_rate(struct tqp *q, uint32_t burst, uint64_t now);
void tqp_resume(struct tqp *q, uint64_t now); /* the link has space again */
void tqp_flush_ack(struct tqp *q);
bool tqp_ack_waits(const struct tqp *q); /* is an ACK delayed by env->ack_delay()? */
/* The turn ends: the packets that answer those that came in leave together, and completions that
 * were delayed are the program's. */
void tqp_settle(struct tqp *q);
void tqp_uncork(struct tqp *q); /* what env->cork() has let wait leaves now */
/* XRC: the answers to a segment may leave now, an ACK without waiting for a segment to ride on. */
void tqp_release(struct tqp *q);
/* q->dest was swapped, and the QP is on no waiting list: if it was, it goes on in a later turn. */
void tqp_unblock(struct tqp *q);
/* A process of this host has ended, or is reached again. If it was the peer's, the requests that it
 * has not answered are lost: they go out again to its new destination, or the ack timeout starts,
 * since no timer runs on a lossless link. */
void tqp_peer_dead(struct tqp *q, uint64_t now);
/* No QP responds to the segment @s, on the grounds @why: on one host this tells the sender of a
 * request, whose ack timeout then starts. 0; EAGAIN: call again later, or the sender waits for
 * ever. */
int tqp_no_responder(const struct seg *s, enum grounds_code why);
