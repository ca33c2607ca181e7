// SPDX-License-Identifier: MIT
/* A queue pair's protocol: requester, responder, completer of the services RC, UC and UD.
 *
 * Sans I/O: input is a doorbell, a segment, or the passing of a deadline, each with the time;
 * output goes to q->dest (segments), to the CQs (CQEs) and to q->deadline. No thread, no clock,
 * no lock of its own: the caller holds the QP's turn and is inside a quiesce section for every
 * function here.
 *
 * Both ends of every rule live here: PSN windows, go-back-N, NAK, RNR and timeouts (a deadline
 * is lazy: q->deadline may move later without notice, the caller re-checks when it fires),
 * duplicate READ and atomic replay, rd_atomic limits, fences, MSN; the fate table (fate.h) maps
 * a verdict to {NAK, completion status, vendor syndrome, QP action, event}. */
#pragma once
#include "hca/qp.h"
#include "link/link.h"
#include "transport/drop.h"
#include "transport/requester.h"
#include "transport/responder.h"
#include "transport/sender.h"

#define TQP_NEVER UINT64_MAX

struct tqp_env;

struct tqp {
	struct qp qp; /* first */
	const struct tqp_env *env;
	struct dest *dest; /* connected services, from RTR on; NULL: none (segments vanish) */
	struct dest *alternate; /* of path migration; NULL: none, or as dest */
	struct waiter waiter; /* on dest's waiting list */
	uint64_t deadline; /* ns; TQP_NEVER: none */
	uint64_t watch_at; /* ns: the same for a look that may be late; far apart */
	uint64_t cnp_at; /* ns: when the peer was last sent a CNP; 0: never */
	bool ack_due; /* an ACK waits for the next segment, for tqp_flush_ack(), or for the link */
	bool unsettled; /* segments have been handed to the link that leave by tqp_settle() */
	bool again; /* long work goes on in a later turn, by tqp_resume(); the engine clears it */
	bool asking; /* DC: a target is asked for a connection, and has not answered */
	bool rnr_waiting; /* a sender waits: call tqp_rq_doorbell() when a receive is posted */
	struct sender sender; /* whose packets are accepted */
	uint64_t cause; /* the reason's record for ERR or SQE; 0: by modify */
	struct requester req;
	struct responder rsp;
	struct drops drops;
	struct {
		struct linear_buffer {
			uint8_t *bytes; /* NULL until the first use */
			uint64_t size;
		} part, image; /* what a segment carries; memory around it (mkey/signature.h) */
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
	/* Through a network: may what was posted now, and has been handed to the link, wait for
	 * what the program posts next? true: call tqp_uncork() soon. NULL: it may not. */
	bool (*cork)(struct tqp *q, uint64_t now);
	/* How often the program has polled, modulo 2^32. NULL: no READ or WRITE leaves direct
	 * access for the ring because others follow it. */
	uint32_t (*polls)(const struct tqp *q);
	/* ns, within a turn; not NULL where polls is not. */
	uint64_t (*clock)(const struct tqp *q);
	/* The protocol itself has moved the QP to ERR or SQE (direct access ends). NULL:
	 * ignored. */
	void (*moved)(struct tqp *q);
	/* q->watch_at was set: call tqp_timer() then, or soon after. NULL: the caller looks. */
	void (*watch)(struct tqp *q);
	/* q->dest is dead. True: it is another way to the same peer now, and q->waiter waits
	 * nowhere. NULL: there never is one. */
	bool (*again)(struct tqp *q);
	/* Does the alternate path still exist? NULL: always. */
	bool (*usable)(struct tqp *q);
	/* tqp_no_responder() got EAGAIN: call it again later. NULL: the QP's own answer is used
	 * if it has a destination. */
	void (*no_responder_later)(struct tqp *q, const struct seg *s);
	/* Sends a frame (FRAME_OP) or a multicast datagram. 0: it is out. EAGAIN: q->waiter waits
	 * at q->req.way.at; call again with the same segment. */
	int (*cast)(struct tqp *q, const struct seg *s);
	/* XRC, DC: makes q->dest the way to what @w names: to the process of its SRQ, or to its
	 * target. False: not yet; it is another than now, and not @idle: something is outstanding
	 * there; or the target is asked for a connection. NULL: one destination serves all. */
	bool (*route)(struct tqp *q, const struct wqe *w, bool idle, uint64_t now);
	/* DCI streams: a work request has failed, and nothing that was sent behind it has been
	 * executed. True: that ends its stream alone, and the way to the target; the others go on.
	 * NULL: the QP goes to ERR. */
	bool (*spare)(struct tqp *q, uint16_t block);
	/* Is the stream of the work request at @block in error? NULL where spare is. */
	bool (*stopped)(const struct tqp *q, uint16_t block);
	/* XRC: the responder is to work for SRQ @srqn, by xrc_bind(). False: its domain has it
	 * not. NULL: a request that was kept is for the SRQ in use. */
	bool (*serve)(struct tqp *q, uint32_t srqn);
	/* An event of a QP that several handles name (XRC). NULL: qp.user is the only one. */
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
/* Receives were posted. In ERR they are flushed; else a sender that waits for one is told. */
void tqp_rq_doorbell(struct tqp *q, uint64_t now);
void tqp_input(struct tqp *q, const struct seg *s, uint64_t now);
void tqp_timer(struct tqp *q, uint64_t now); /* before q->deadline, q->watch_at: nothing */
/* ibv_modify_qp_rate_limit(); attr.rate_limit says it already. */
void tqp_rate(struct tqp *q, uint32_t burst, uint64_t now);
void tqp_resume(struct tqp *q, uint64_t now); /* the link has space again */
void tqp_flush_ack(struct tqp *q);
bool tqp_ack_waits(const struct tqp *q); /* is an ACK delayed by env->ack_delay()? */
/* The turn ends: the packets that answer those that came in leave together. */
void tqp_settle(struct tqp *q);
void tqp_uncork(struct tqp *q); /* what env->cork() has let wait leaves now */
/* XRC: the answers to a segment may leave now, an ACK without waiting for a segment to ride on. */
void tqp_release(struct tqp *q);
void tqp_unblock(struct tqp *q); /* the destination that the QP waited for is gone */
/* A process of this host has ended, or is reached again. If it was the peer's, the requests that it
 * has not answered are lost: they go out again by the new way, or the ack timeout starts, since no
 * timer runs on a lossless link. */
void tqp_peer_dead(struct tqp *q, uint64_t now);
/* A segment that no QP responds to, on the grounds @why: on one host the sender of a request is
 * told, and its ack timeout starts. 0; EAGAIN: call again later, or the sender waits for ever. */
int tqp_no_responder(const struct seg *s, enum grounds_code why);
