// SPDX-License-Identifier: MIT
/* Queues that stop: ERR completes every WQE with WR_FLUSH_ERR, SQE those of the SQ, SQD waits for
 * the WQEs that were started, RESET drops all WQEs. */
#pragma once
#include "transport/tqp.h"
#include "transport/fate.h"

/* The QP is in ERR: stops both halves and completes all WQEs. @id: the reason's record; 0:
 * modify. */
void flush_all(struct tqp *q, uint64_t id, uint64_t now);
void flush_sq(struct tqp *q, uint64_t now);
void flush_send(struct tqp *q, const struct sent *e, uint64_t now); /* one of a stream in error */
void flush_rq(struct tqp *q, uint64_t now);
/* RESET in the middle of a message: completes the receive that the message took from the SRQ; the
 * driver drops that completion and frees the SRQ's entry. */
void flush_shared(struct tqp *q, uint64_t now);
/* The protocol itself moves the QP: to ERR, or UC and UD to SQE. @id: the reason's record. */
void flush_to_err(struct tqp *q, uint64_t id, uint64_t now);
void flush_to_sqe(struct tqp *q, uint64_t id, uint64_t now);
/* A signature is wrong: a QP with sig_pipelining goes to SQD, and the event comes without being
 * asked for. */
void flush_to_sqd(struct tqp *q);
void flush_drained(struct tqp *q); /* SQD: raises the event when the last started WQE is done */
void flush_undrain(struct tqp *q); /* it is drained, or leaves SQD before that */
void flush_event(struct tqp *q, enum ibv_event_type type);
void flush_overrun(struct tqp *q, struct cq *cq, uint64_t now); /* cq_push(): EOVERFLOW */
