// SPDX-License-Identifier: MIT
/* Work requests that the requester has started and not completed: a ring of positions in the SQ.
 * The WQE itself is not kept; it is read from the SQ again when it is sent again or answered. */
#pragma once
#include "transport/fate.h"
#include "transport/tqp.h"

enum { /* struct sent's flags */
       SENT_SIGNALED = 1,
       SENT_READ = 2, /* READ or atomic: answered by data */
       SENT_DONE = 4, /* its data has arrived; of local work: it was executed */
       SENT_FENCE = 8,
       SENT_INLINES = 32, /* signaled: the data that it reads may stand in its CQE */
       SENT_FLUSHED = 64, /* of a stream in error: sends nothing, completes with an error */
       SENT_INNER = 16, /* of the inner queue: block is its number there (inner.h) */
       SENT_REFUSED = 128, /* its WQE was malformed when it was started: nothing of it is sent */
};

struct sent {
	uint16_t block; /* of the SQ, as the producer counts */
	uint8_t opcode; /* MLX5_OPCODE_* */
	uint8_t flags; /* SENT_* */
	uint32_t psn, npsn; /* first PSN, number of PSNs: 24 bits, at most 2^23 */
	uint32_t len; /* bytes */
};

int sent_allot(struct tqp *q); /* allocates the ring. ENOMEM */
/* Blocks of the SQ that the program has posted and the requester has not started. */
uint16_t sent_posted(const struct tqp *q);
/* Reads the WQE of an entry again. False: it was refused, or the program has changed it. */
bool sent_reread(struct tqp *q, const struct sent *e, struct wqe *w);
/* Why sent_reread() has returned false. */
enum verdict sent_refusal(struct tqp *q, const struct sent *e, struct wqe *w);
/* A wrong signature has stopped the QP while a fenced work request waits for READs: undoes its
 * start. */
void sent_unstart(struct tqp *q);
uint32_t sent_pdn(const struct tqp *q, const struct sent *e); /* the PD whose keys its READ uses */

static inline struct sent *sent_at(const struct requester *r, uint32_t i)
{
	return &r->sent[i & r->mask];
}

/* The index of the entry with @psn, which is outstanding. */
static inline uint32_t sent_find(const struct requester *r, uint32_t psn)
{
	uint32_t i = r->head;

	while (!psn_within(psn, sent_at(r, i)->psn, sent_at(r, i)->npsn))
		i++;
	return i;
}
