// SPDX-License-Identifier: MIT
/* Segments that are dropped while their sender counts them as sent: datagrams, UC's messages, and
 * requests for a number that no queue pair has. The receiver says each cause once, then at the
 * 10th, the 100th, the 1000th drop, with the count; as often it tells a sender on its own host by
 * an OP_DROPPED, or why it refused a request by an OP_GROUNDS, which that one explains to its
 * program. A group's sender is told nothing: its members are not its business. Under the QP's turn,
 * but for drop_nobody(). */
#pragma once
#include <stdint.h>

struct seg;
struct tqp;

/* In an OP_DROPPED's syndrome: programs of other releases read them, so they keep their values. */
enum drop_why { DROP_QKEY, DROP_NO_RECEIVE, DROP_LONG, DROP_STATE, DROP_NO_QP };

struct drops {
	uint32_t n[DROP_NO_QP + 1]; /* by cause */
	uint32_t told; /* sentences about what peers have dropped: a peer that makes them up ends */
};

/* @q drops the request @s; the verdict for a trace is said too. */
void drop_say(struct tqp *q, const struct seg *s, enum drop_why why);
/* No QP has the number that @s asks for; it is one more of *@count, which any thread adds to. */
void drop_nobody(uint64_t *count, const struct seg *s);
/* On this host: no process has the number @dqpn that a datagram of @q is for. */
void drop_unheard(struct tqp *q, uint32_t dqpn);
/* The request @s is refused on q->rsp.grounds: its sender is told, if it is on this host. */
void drop_refused(struct tqp *q, const struct seg *s);
/* A peer of this host has dropped what @q sent: an OP_DROPPED or an OP_GROUNDS. */
void drop_told(struct tqp *q, const struct seg *s);
