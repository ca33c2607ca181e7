// SPDX-License-Identifier: MIT
/* Work that threads have left for the next one that makes progress: ACKs, corked posts, QPs whose
 * holder did not finish. Each is done under the turn of its QP. Inside a quiesce section. */
#pragma once
#include "engine/node_state.h"

void backlog_acks(struct node *n); /* lets the ACKs of node->acks leave */
/* Lets the delayed ACKs leave whose time has come, or @all; the rest are listed again. */
void backlog_delayed_acks(struct node *n, bool all);
void backlog_corks(struct node *n); /* lets corked posts leave */
/* ns: when a delayed ACK or a post that waits must leave; UINT64_MAX: never. */
uint64_t backlog_deadline(const struct node *n);
/* ns: when the engine thread must end a nap. Corked posts end none: it would wake every 50 us in
 * the middle of the program's posts, perhaps on the program's core. The nap's end is early enough
 * for them (docs/design/network-performance.md). */
uint64_t backlog_ends_nap(const struct node *n);
void backlog_ready(struct node *n); /* goes on with node->ready */

/* For the last look before the engine thread sleeps. Other threads look at node->asleep after they
 * have left work; the engine thread sets node->asleep and then looks here. */
static inline bool backlog_any(const struct node *n)
{
	return load_relaxed(&n->acks) || load_relaxed(&n->ready) || load_relaxed(&n->corked);
}

/* Outside any section: the process ends, and ACKs that wait leave. So do, before this returns,
 * those that the engine thread has taken off their list or is sending. */
void backlog_end(struct node *n);
/* Outside any section: takes a QP that ends off node->acks, delayed, corked and ready. */
void backlog_forget(struct eqp *e);
