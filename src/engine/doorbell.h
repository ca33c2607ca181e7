// SPDX-License-Identifier: MIT
/* Doorbells and progress: how the caller's thread becomes the device for a moment
 * (docs/design/turns.md). A doorbell takes the QP's turn, or leaves a note for its holder.
 * progress() delivers inbound segments, runs due timers and lets ACKs leave; a poll that finds its
 * CQ empty calls it. */
#pragma once
#include "engine/idle/vain.h"
#include "transport/tqp.h"

/* All that the driver says about WQEs beside their bytes: from now on the QP takes
 * WQE_OPCODE_ATOMIC_WRITE, or WQE_OPCODE_BIND_MW, opcodes of our own. Without it they are refused,
 * as by hardware, so a program that writes its own WQEs does not meet them by chance. */
static inline void doorbell_atomic_writes(struct tqp *q)
{
	store_relaxed(&q->qp.atomic_writes, true);
}

static inline void doorbell_binds(struct tqp *q)
{
	store_relaxed(&q->qp.binds, true);
}

void doorbell_sq(struct tqp *q); /* WQEs were written and the doorbell record updated */
/* The same for the receive queue, whose record was stored by store_fenced(). */
void doorbell_rq(struct tqp *q);
/* The same for a shared receive queue. True: a sender was waiting for a receive. */
bool doorbell_srq(struct srq *srq);
/* doorbell_sq() of this process's QP @qpn. False: there is none, or none with a send queue. */
bool doorbell_by_number(uint32_t qpn);
void progress(void); /* never blocks */

extern bool corks_used; /* posts may wait for a poll (corks.h); set once, atomic */
void doorbell_uncork(void); /* the program polls: corked posts leave */

/* The program arms a CQ: it may wait for an event from now on. Outside any lock of the CQ. */
void doorbell_armed(void);

/* The program polls, and finds completions without making progress: not in vain, whoever brought
 * them. */
static inline void doorbell_polled(void)
{
	vain_found(&vain_mine);
	if (unlikely(load_relaxed(&corks_used)))
		doorbell_uncork();
}
