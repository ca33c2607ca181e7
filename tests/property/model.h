// SPDX-License-Identifier: MIT
/* What must come of a side's work, by the specification and the man pages. Knows the program and no
 * verbs object. The rules, for one episode:
 *
 * - Operations are posted in order, as are receives; how many follows from the steps that are on.
 * - Completions of a queue come in order. Unsignalled operations have none unless they fail or are
 *   flushed. After the first failure of a queue everything is flushed, and every one is told.
 * - An operation without a sin succeeds, unless something breaks its connection: a sin of the other
 *   side, a move, a death. One with a sin has that sin's status.
 * - A message to a side whose rq_psn is wrong fails, and so does not stay without a completion.
 * - RC: message n meets receive n; with fewer receives than messages the rest waits (rnr_retry 7).
 *   UC and UD: what arrives is a subsequence.
 * - What was refused, and what stood behind it, leaves no byte at the other end. */
#pragma once
#include "property/program.h"

struct view { /* of one side in one episode */
	const struct program *p;
	const struct link *l;
	unsigned int link, ep, side;
	const struct plan *mine, *theirs;
	unsigned int ops, recvs; /* that are posted */
	unsigned int their_ops, their_recvs;
	unsigned int sure; /* operations that complete without the QP being moved */
	unsigned int due; /* messages that arrive when nothing breaks; RC */
	bool they_break, i_break;
};

void view_make(struct view *v, const struct program *p, unsigned int link, unsigned int ep,
	       unsigned int side);
uint32_t op_len(const struct program *p, const struct op *o);
unsigned int message_number(const struct plan *p, unsigned int k); /* of operation k */
unsigned int message_op(const struct plan *p, unsigned int ops, unsigned int n); /* NONE: none */
unsigned int messages(const struct plan *p, unsigned int ops);

/* May operation @k complete so? @moved: this side has moved the QP to ERR by itself. */
bool model_send_may(const struct view *v, unsigned int k, enum ibv_wc_status s, bool failed,
		    bool moved);
/* May receive @r, which message @n meets (NONE: none), complete so? */
bool model_recv_may(const struct view *v, unsigned int r, unsigned int n, enum ibv_wc_status s,
		    bool failed, bool moved);
/* Do operations that were flushed behind the failure of @first with @s leave no trace? */
bool model_flushed_unsent(const struct op *first, enum ibv_wc_status s);
