// SPDX-License-Identifier: MIT
/* XRC: RC's protocol, but a request names an SRQ, and a target QP belongs to a domain of processes,
 * of which the member that has the SRQ is the responder. Members share the part of the responder's
 * state that the next member needs (struct xrc_state); the state of a message or an answer that is
 * under way stays with the process that has begun it. docs/design/xrc-domains.md
 * Locking: the caller has the QP's turn and, for xrc_load() and the stores, the shared turn. */
#pragma once
#include "transport/tqp.h"

struct xrc_state {
	uint32_t state; /* IBV_QPS_* */
	uint32_t epsn, msn;
	uint32_t comm_est, nak_sent; /* booleans */
	uint32_t nsaved;
	struct saved saved[RESPONDER_DEPTH];
	struct ibv_qp_attr attr;
};

/* A request for a target QP, or a response for an XRC_SEND QP. True: *rc is to be worked on as
 * RC's. The answer to a request waits for tqp_release(): a peer that has got it may send to the
 * next member at once, which needs the state. */
bool xrc_admit(struct tqp *q, const struct seg *s, struct seg *rc, uint64_t now);
/* The responder is to work for @srq; NULL: for none, and requests are refused. */
void xrc_bind(struct tqp *q, struct srq *srq);
void xrc_unbind(struct tqp *q, const struct srq *srq); /* @srq is destroyed: none, if it was that */
/* Takes over the state that another member has left. Checks it: members may be hostile. @moved: the
 * QP was modified since; drops the message that this process has begun. ENOMEM: nothing was taken
 * over. */
int xrc_load(struct tqp *q, const struct xrc_state *s, bool moved, uint64_t now);
void xrc_store(const struct tqp *q, struct xrc_state *s); /* after a segment */
void xrc_store_attr(const struct tqp *q, struct xrc_state *s); /* after a modify */
