// SPDX-License-Identifier: MIT
/* Frames and multicast datagrams go to every process of the host that wants them, one after the
 * other. A process without room makes the sender wait, for a second at most; then it misses the
 * segment, and no sender waits for it again until it takes something. Under the QP's turn, like
 * all of the transport. */
#pragma once
#include "transport/tqp.h"

/* 0: every process has the segment. EAGAIN: the QP waits; call again with the same segment when its
 * waiter or its timer has fired. */
int cast_send(struct tqp *q, const struct seg *s, uint64_t now);
void cast_pause(struct tqp *q); /* off the waiting list; the next cast_send() goes on */
void cast_stop(struct tqp *q); /* the next cast_send() begins with the first process */
/* q->deadline has passed: passes over the process that is late. Then the requester may go on. */
void cast_timer(struct tqp *q, uint64_t now);
