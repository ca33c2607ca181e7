// SPDX-License-Identifier: MIT
/* Segments that a link has taken with seg.more and that leave together: at the end of the turn's
 * work, or, through a network, after the program's next posts (docs/design/network-performance.md,
 * "Posts that follow each other"). */
#pragma once
#include "transport/tqp.h"

/* The segments leave now. */
void corked_flush(struct tqp *q);
/* UD: @d, to which a segment has been sent with seg.more, is flushed by corked_flush(). */
void corked_keep(struct tqp *q, struct dest *d);
/* Behind a doorbell: the segments leave now, or wait for what the program posts next. */
void corked_posted(struct tqp *q, uint64_t now);
