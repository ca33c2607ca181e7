// SPDX-License-Identifier: MIT
/* Queue pairs whose last posts wait, built and unsent, for the program's next posts to the network
 * (docs/design/network-performance.md, "Posts that follow each other"). The first post behind a
 * poll leaves at once; those behind it wait for the next poll, whichever thread's, for a full
 * batch, or until a deadline that the engine thread keeps. A program that does not poll behind its
 * posts is soon not made to wait any more. The thread that takes the list leaves TURN_CORK to each
 * QP of it (backlog.h). */
#pragma once
#include "engine/node_state.h"

enum { CORKS_MOST = 16 }; /* QPs that wait at once: each has a batch of packets in memory */

bool corks_wait(struct tqp *q, uint64_t now); /* tqp_env.cork; under the turn */
/* ns: when what waits must leave; UINT64_MAX: nothing does. */
uint64_t corks_deadline(const struct node *n);
/* All that wait; corks_unlist() leads from one to the next. */
struct eqp *corks_take_all(struct node *n);
/* The QP may be listed anew from here on. */
struct eqp *corks_unlist(struct eqp *e, uint64_t now);
