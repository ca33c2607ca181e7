// SPDX-License-Identifier: MIT
/* SOFTHCA_TRACE=FILE: what this process sends and receives, in a pcapng file (link/trace.h), each
 * packet with a comment: the QP, the verdict, the reason. Decided when the node is made: then
 * destinations are wrapped, and what comes in passes through here. Who is not traced pays
 * nothing. */
#pragma once
#include "engine/node_state.h"
#include "engine/path.h"

void tracing_start(void); /* before the node's host is made */
bool tracing(void);

/* host_config.deliver and udp_config.deliver while tracing. */
void tracing_deliver(void *arg, const struct seg *s);
void tracing_packet(void *arg, const struct seg *s);

/* A frame or multicast datagram has gone to those who want it. Only while tracing. */
void tracing_cast(struct eqp *e, const struct seg *s);

/* A destination of @e's that is traced, if there is a trace. Takes over the reference on @d, also
 * when it fails. @to: NULL, to where the QP is connected. */
int tracing_wrap(struct eqp *e, const struct av *to, struct dest *d, struct dest **out);
