// SPDX-License-Identifier: MIT
/* What goes to every process of the host that wants it: frames and multicast datagrams, to one
 * after the other. Who has no room makes the sender wait, a second at most; then it goes without,
 * and nobody waits for it again until it takes something. Under the QP's turn, as everything here.
 */
#pragma once
#include "transport/tqp.h"

/* 0: out. EAGAIN: the QP waits; its waiter or its timer has it try the same again. */
int cast_send(struct tqp *q, const struct seg *s, uint64_t now);
void cast_pause(struct tqp *q); /* off the waiting list; the next cast_send() goes on */
void cast_stop(struct tqp *q); /* the next one begins anew */
/* q->deadline has passed: gives up a receiver that is late. Then the requester may go on. */
void cast_timer(struct tqp *q, uint64_t now);
