// SPDX-License-Identifier: MIT
/* Segments that are dropped while their sender counts them as sent: datagrams, UC's messages, and
 * requests for a number that no queue pair has. The receiver records a reason for each cause at the
 * 1st, 10th, 100th, 1000th drop, with the count. As often it tells a sender on its own host by an
 * OP_DROPPED, or an OP_GROUNDS for a request that it refused, and the sender's process explains it
 * to its program. The sender of a datagram to a group is told nothing. Under the QP's turn, except
 * drop_nobody() and drop_damaged(). */
#pragma once
#include <stdint.h>

struct seg;
struct tqp;

/* In the syndrome of an OP_DROPPED. Programs of other releases read them: values never change. */
enum drop_why { DROP_QKEY, DROP_NO_RECEIVE, DROP_LONG, DROP_STATE, DROP_NO_QP };

struct drops {
	uint32_t n[DROP_NO_QP + 1]; /* by cause */
	uint32_t told; /* reasons from OP_DROPPED; limited, as a peer may send any number */
};

/* @q drops the request @s. Records the verdict for a trace, too. */
void drop_say(struct tqp *q, const struct seg *s, enum drop_why why);
/* No QP has the number that @s names. Adds one to *@count, an atomic. */
void drop_nobody(uint64_t *count, const struct seg *s);
/* The fault link of a process of this host has damaged @s. The same count. */
void drop_damaged(uint64_t *count, const struct seg *s);
/* On this host: no process has the number @dqpn that a datagram of @q is for. */
void drop_unheard(struct tqp *q, uint32_t dqpn);
/* The request @s is refused on q->rsp.grounds: tells its sender, if that is on this host. */
void drop_refused(struct tqp *q, const struct seg *s);
/* A peer of this host has dropped what @q sent: an OP_DROPPED or an OP_GROUNDS. */
void drop_told(struct tqp *q, const struct seg *s);
