// SPDX-License-Identifier: MIT
/* The node's timer wheel: one lazy entry per QP (docs/design/wakeups.md), one per CQ whose event
 * waits for more completions, and one for ports that other programs have (port_wait.h). A thread
 * that makes progress takes what is due, inside a quiesce section, and acts on it (progress.c). */
#pragma once
#include "engine/node_state.h"
#include "hca/cq.h"

/* Lazy: does nothing when an earlier deadline is armed, since the transport looks at q->deadline
 * when that fires. @at: ns. */
void timers_arm(struct eqp *e, uint64_t at);
void timers_drop(struct eqp *e);
/* Any other timer, with what it does under wheel_lock; a running one is moved. */
void timers_add(struct node *n, struct timer *t, void (*fire)(struct timer *, uint64_t),
		uint64_t at);
extern const struct cq_timers timers_of_cqs;
uint64_t timers_next(struct node *n); /* ns: no later than the first deadline; UINT64_MAX none */

/* The watchdog's looks at QPs (tqp.watch_at), in a wheel of their own, which only the engine thread
 * runs, or who stands in for it: threads that poll do not read the clock for it. */
void timers_run_watches(void); /* the engine's thread, which asks before it sleeps */
void timers_watch(struct tqp *q); /* tqp_env.watch */
uint64_t timers_next_watch(struct node *n); /* as timers_next() */
/* Those that are due, for timers_next_qp(). Inside a quiesce section. */
struct eqp *timers_take_watches(struct node *n, uint64_t now);

struct timers_due { /* what one run of the wheel has found */
	struct eqp *qps; /* timers_next_qp() leads from one to the next */
	struct cq *cqs; /* timers_next_cq() */
};

/* False: nothing is due, or another thread is at it. */
bool timers_take(struct node *n, uint64_t now, struct timers_due *out);
/* Their timers may fire anew from here on. */
struct eqp *timers_next_qp(struct eqp *e);
struct cq *timers_next_cq(struct cq *cq);
