// SPDX-License-Identifier: MIT
/* Queue pairs whose last posts wait, built and unsent, for the program's next posts to the network
 * (docs/design/network-performance.md, "Posts that follow each other"). The first post behind a
 * poll leaves at once; those behind it wait for the next poll, whichever thread's, for a full
 * batch, or until a deadline that the engine thread keeps. The posts of a program that does not
 * poll after them soon wait no longer. The thread that takes the list leaves the note TURN_CORK at
 * each QP on it (backlog.h). */
#pragma once
#include "engine/node_state.h"

enum { CORKS_MOST = 16 }; /* QPs that wait at once: each has a batch of packets in memory */

bool corks_wait(struct tqp *q, uint64_t now); /* tqp_env.cork; under the turn */
/* ns: when the first posts that wait must leave; UINT64_MAX: none waits. */
uint64_t corks_deadline(const struct node *n);
/* All that wait; corks_unlist() leads from one to the next. */
struct eqp *corks_take_all(struct node *n);
/* The QP may be listed anew from here on. */
struct eqp *corks_unlist(struct eqp *e, uint64_t now);
