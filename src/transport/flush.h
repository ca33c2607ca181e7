// SPDX-License-Identifier: MIT
/* Queues that stop: ERR completes every WQE with WR_FLUSH_ERR, SQE those of the SQ, SQD waits
 * for the started ones, RESET forgets all. */
#pragma once
#include "transport/tqp.h"
#include "transport/fate.h"

/* The QP is in ERR: stops both halves and completes everything. @id: the reason, 0: modify. */
void flush_all(struct tqp *q, uint64_t id, uint64_t now);
void flush_sq(struct tqp *q, uint64_t now);
void flush_rq(struct tqp *q, uint64_t now);
/* RESET in the middle of a message: the SRQ's receive that it took goes back, by a completion (the
 * driver's purge returns its slot). */
void flush_shared(struct tqp *q, uint64_t now);
/* The protocol itself moves the QP: to ERR, or an SQ of UC and UD to SQE. @id: the reason. */
void flush_to_err(struct tqp *q, uint64_t id, uint64_t now);
void flush_to_sqe(struct tqp *q, uint64_t id, uint64_t now);
void flush_drained(struct tqp *q); /* SQD: raises the event when the last started WQE is done */
void flush_event(struct tqp *q, enum ibv_event_type type);
void flush_overrun(struct tqp *q, struct cq *cq, uint64_t now); /* cq_push() said EOVERFLOW */
