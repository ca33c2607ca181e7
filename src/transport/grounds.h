// SPDX-License-Identifier: MIT
/* The grounds on which a responder refuses a request, as a code and numbers. Both ends make their
 * sentence of it by the same table: the responder at once, the requester when an OP_GROUNDS has
 * brought it ahead of the NAK (docs/design/explanations.md). A peer sends numbers, of which this
 * side makes its own text, and they decide nothing; an unknown code is ignored. Pure, except
 * grounds_of_key(). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hca/key_table.h"

/* On the wire. Programs of other releases read them: values never change. */
enum grounds_code {
	GROUNDS_NONE,
	GROUNDS_DISABLED,
	GROUNDS_NO_OPERATION,
	GROUNDS_NOT_FINISHED, /* a new message starts in the middle of another */
	GROUNDS_NOT_BEGUN,
	GROUNDS_PART, /* bytes of a packet in the middle of a message, path MTU here */
	GROUNDS_EMPTY_END,
	GROUNDS_PSNS, /* bytes, their PSNs, path MTU here */
	GROUNDS_SUM,
	GROUNDS_LONG,
	GROUNDS_MIDDLE, /* a READ or an atomic stands there */
	GROUNDS_DEPTH, /* max_dest_rd_atomic */
	GROUNDS_ALIGNMENT,
	GROUNDS_ATOMIC_PSNS,
	GROUNDS_ATOMIC_WRITE,
	GROUNDS_NO_MEMORY,
	GROUNDS_INVALIDATE,
	GROUNDS_NO_SRQ, /* its number */
	GROUNDS_SHORT, /* bytes of the receive, bytes that came */
	GROUNDS_SHORT_GRH, /* the same, with 40 B of GRH */
	GROUNDS_RECEIVE_KEY, /* which SGE */
	GROUNDS_RECEIVE_UNMAPPED,
	GROUNDS_UNMAPPED,
	GROUNDS_KEY_UNKNOWN,
	GROUNDS_KEY_PD,
	GROUNDS_KEY_RIGHT, /* IBV_ACCESS_*: the missing rights, the rights that the key has */
	GROUNDS_KEY_BEFORE, /* bytes */
	GROUNDS_KEY_BEHIND, /* bytes */
	GROUNDS_KEY_RANGE,
	GROUNDS_KEY_UNBOUND,
	GROUNDS_KEY_QP,
	GROUNDS_KEY_BENEATH,
	GROUNDS_NO_QP,
	GROUNDS_STATE, /* enum ibv_qp_state */
	GROUNDS_ANOTHER, /* the QP is connected to another */
	GROUNDS_EMPTY_SRQ,
	GROUNDS_KEY_SIGNED,
	GROUNDS_ACCESS_KEY,
	GROUNDS_NO_TARGET,
	GROUNDS_MASKS,
	GROUNDS_CODES
};

struct grounds {
	uint32_t code; /* enum grounds_code */
	uint64_t n[3]; /* the numbers that the code's comment lists; else 0 */
};

enum { GROUNDS_BYTES = 28, GROUNDS_TEXT = 192 };

/* Writes the clause, with what to do, into @buf; NULL: no grounds, or a code of another release. */
const char *grounds_text(const struct grounds *g, char buf[GROUNDS_TEXT]);
/* Do they say that no queue pair responds, and not that one refuses? */
static inline bool grounds_of_absence(const struct grounds *g)
{
	return g->code == GROUNDS_NO_QP || g->code == GROUNDS_STATE || g->code == GROUNDS_ANOTHER ||
	       g->code == GROUNDS_NO_TARGET;
}

/* Why a peer's key was refused, without addresses. The number of bytes by which a range misses its
 * region is told only up to a page, so a peer cannot find out where memory lies. Inside a quiesce
 * section. */
struct grounds grounds_of_key(const struct key_table *t, enum key_verdict v,
			      const struct key_ask *ask);

void grounds_encode(const struct grounds *g, uint8_t out[GROUNDS_BYTES]);
bool grounds_decode(const uint8_t *in, size_t len, struct grounds *out); /* false: too short */
