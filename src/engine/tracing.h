// SPDX-License-Identifier: MIT
/* SOFTHCA_TRACE=FILE: the packets that this process sends and receives, in a pcapng file
 * (link/trace.h), each with a comment: the QP, the verdict, the reason. Decided when the node is
 * made: then destinations are wrapped, and inbound.c calls here around each segment. Where there is
 * no trace this costs nothing. */
#pragma once
#include "engine/node_state.h"
#include "link/trace.h"

void tracing_start(void); /* before the node's host is made */
bool tracing(void);

struct tracing_arrival { /* a segment that is being delivered */
	uint64_t now, sentences; /* when it came; the thread's reasons until then */
	struct trace_ends ends;
	uint8_t op;
	bool expects; /* the next two count, as when it came; the caller sets all three */
	uint32_t epsn, una; /* of the QP: the next request's PSN, its oldest open request's */
	uint32_t ahead; /* by how much the last packet's PSN is past the segment's */
	struct trace_frame last; /* its last packet */
};

void tracing_arrives(struct node *n, const struct seg *s, struct tracing_arrival *out);
void tracing_arrived(const struct tracing_arrival *a); /* delivered: writes the last packet */

/* The packet @s, which came at @now by no link, has been worked on: @sentences are the thread's
 * reasons until then. Only while tracing. */
void tracing_heard(const struct trace_ends *ends, const struct seg *s, uint64_t now,
		   uint64_t sentences);

/* A frame or multicast datagram of @e has left. Only while tracing. */
void tracing_cast(struct eqp *e, const struct seg *s);

/* A destination of @e's that is traced, if there is a trace. Takes over the reference on @d, also
 * when it fails. @to: NULL, to where the QP is connected. */
int tracing_wrap(struct eqp *e, const struct av *to, struct dest *d, struct dest **out);
