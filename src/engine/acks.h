// SPDX-License-Identifier: MIT
/* ACKs that are due and have not left. Those on node->acks leave when a drain finds nothing; those
 * on node->delayed wait, up to a deadline, for the program's reply, which would carry them. The
 * thread that takes a list leaves the note TURN_ACK at each QP on it (backlog.h). */
#pragma once
#include "engine/node_state.h"

void acks_later(struct tqp *q); /* tqp_env.ack_later; under the turn */
/* tqp_env.ack_delay; under the turn. False: the ACK must not wait, since the program sleeps. */
bool acks_delay(struct tqp *q);
/* Under the turn: the ACK waits until @end, ns. */
void acks_delay_until(struct eqp *e, uint64_t end);
/* Under the turn: is the delayed ACK's time still to come? Then the QP is listed again. */
bool acks_wait_on(struct eqp *e, uint64_t now);
/* ns: when the first delayed ACK must leave; UINT64_MAX: none waits. */
uint64_t acks_deadline(const struct node *n);

/* All of a list, node->acks or node->delayed; acks_unlist() leads from one QP to the next. */
struct eqp *acks_take_all(struct eqp **list);
/* The QP may be listed anew from here on. @at_once: its ACK waits no longer. */
struct eqp *acks_unlist(struct eqp *e, bool at_once);
