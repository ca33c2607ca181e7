// SPDX-License-Identifier: MIT
/* One end of a connection, or of a question for a UD queue pair, as a state machine (IB
 * specification volume 1, chapter 12.9): a message, a call or the time makes a new state, at most
 * one message and at most one event. Values, tries and waits are Linux's; between hosts that run
 * softhca the first repetition comes after 20 ms, and each next one after twice as long. A REQ to a
 * port without a listener is repeated for some 60 ms: by an adapter it would come later, too.
 * Pure: the caller sends cm_out.msg, raises cm_out.event, calls cm_fsm_timer() at fsm.deadline. */
#pragma once
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include "wire/cm_msg.h"

enum cm_state {
	CM_IDLE, /* nothing has begun */
	CM_REQ_SENT,
	CM_REQ_RCVD, /* the program is to accept or reject */
	CM_REP_SENT,
	CM_REP_RCVD, /* the program is to fetch the event */
	CM_ESTABLISHED,
	CM_DREQ_SENT,
	CM_DREQ_RCVD, /* the program is to disconnect */
	CM_TIMEWAIT,
	CM_SIDR_SENT,
	CM_SIDR_RCVD,
	CM_SIDR_DONE, /* answered: the answer is repeated for a repeated question */
	CM_CLOSED,
};

/* Reasons of a REJ (and what rdma_get_cm_event shows as the status). */
enum {
	CM_REJ_TIMEOUT = 4,
	CM_REJ_SERVICE = 8,
	CM_REJ_STALE = 10,
	CM_REJ_GID = 12,
	CM_REJ_MTU = 26,
	CM_REJ_CONSUMER = 28,
	CM_REJ_ECE = 35,
};

enum { CM_SIDR_SERVICE = 1 }; /* status of a SIDR_REP: nobody listens */

enum {
	CM_FIRST_QPN = 2, /* of a program's queue pair */
	CM_NO_EVENT = -1,
	CM_ASK_QPN = 1, /* the QPN in a DREQ that only asks */
	CM_REFUSALS = 5, /* answers that the port has no listener, behind which it is believed */
};

struct cm_fsm {
	enum cm_state state;
	bool udp; /* SIDR */
	bool active; /* it sent the REQ */
	bool xrc; /* the target queue pair is its domain's, and may outlive the passive end */
	uint32_t local_id, remote_id; /* SIDR: both are the request's id */
	uint32_t local_qpn, remote_qpn;
	uint64_t guid, remote_guid; /* of the processes' CAs */
	uint64_t tid;
	uint8_t ack_timeout; /* of the path: how long TIMEWAIT lasts */
	uint8_t life; /* code of the path's packet life time */
	uint64_t rep_wait; /* ns that the peer is given to answer our REP */
	unsigned int rep_tries;
	struct cm_msg sent; /* the message that is repeated until it is answered */
	uint64_t wait; /* ns from the last try to the next, if the peer has softhca */
	uint64_t full, next_full; /* ns: the same by the specification; when it is over */
	uint64_t give_up; /* ns: no try follows then */
	bool delayed; /* an MRA has answered the message: a second one is ignored, as by Linux */
	uint64_t deadline; /* ns; UINT64_MAX: none */
	bool asked; /* the peer was asked whether its end is still there; no answer yet */
	uint8_t deaths; /* answers in a row which say that the peer's end is gone */
	bool parted; /* DISCONNECTED was raised: TIMEWAIT_EXIT follows */
	uint8_t refusals; /* answers so far that the port has no listener */
};

struct cm_out {
	bool send;
	struct cm_msg msg;
	int event; /* enum rdma_cm_event_type, CM_NO_EVENT */
	int status; /* of the event: 0, a REJ's reason, a negative errno */
};

void cm_fsm_init(struct cm_fsm *f, uint32_t local_id, uint64_t guid);
/* The calls; EINVAL: not in this state. Messages come without ids and TID: those are filled in. */
int cm_fsm_connect(struct cm_fsm *f, const struct cm_msg *req, uint64_t now, struct cm_out *out);
/* A REQ or SIDR_REQ has made this end; raises CONNECT_REQUEST. */
void cm_fsm_requested(struct cm_fsm *f, const struct cm_msg *req, struct cm_out *out);
int cm_fsm_accept(struct cm_fsm *f, const struct cm_msg *rep, uint64_t now, struct cm_out *out);
int cm_fsm_establish(struct cm_fsm *f, struct cm_out *out); /* REP_RCVD: the RTU */
int cm_fsm_reject(struct cm_fsm *f, const struct cm_msg *rej, struct cm_out *out);
/* 0 also when there is nothing to end any more. */
int cm_fsm_disconnect(struct cm_fsm *f, uint64_t now, struct cm_out *out);
/* The QP has received: EISCONN, EINVAL. */
int cm_fsm_notify(struct cm_fsm *f, struct cm_out *out);
/* The program gives it up: the peer is told. No event follows. True: not over yet, the DREQ is to
 * be repeated. */
bool cm_fsm_destroy(struct cm_fsm *f, uint64_t now, struct cm_out *out);

/* The answer @rep is not taken: its sender is told why, and the request goes on. */
void cm_fsm_refuse(struct cm_fsm *f, const struct cm_msg *rep, uint16_t reason, struct cm_out *out);
/* The QP that a REP tells: of XRC, the target. */
uint32_t cm_fsm_qpn(const struct cm_msg *rep);
void cm_fsm_message(struct cm_fsm *f, const struct cm_msg *m, uint64_t now, struct cm_out *out);
/* The request that has waited for its turn leaves now. */
void cm_fsm_depart(struct cm_fsm *f, uint64_t now, struct cm_out *out);
/* @quick: the peer's host runs softhca. */
void cm_fsm_timer(struct cm_fsm *f, uint64_t now, bool quick, struct cm_out *out);
/* Asks a peer on a network whether its end is still there, by a DREQ that can end nothing: an end
 * that is there leaves it alone; one that is over, and a host that does not know it, answer with a
 * DREP. */
void cm_fsm_ask(struct cm_fsm *f, struct cm_out *out);
/* The message reached no host; @error says why. */
void cm_fsm_unreached(struct cm_fsm *f, int error, struct cm_out *out);
void cm_fsm_death(struct cm_fsm *f, uint64_t now, struct cm_out *out); /* the peer has ended */
/* The connection goes on without the peer's end, which nobody was told of, as by Linux. */
bool cm_fsm_outlives(const struct cm_fsm *f);
