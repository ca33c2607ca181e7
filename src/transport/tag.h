// SPDX-License-Identifier: MIT
/* Tag matching in an RC responder whose QP is on a tag-matching SRQ: a SEND that begins with a
 * struct ibv_tmh takes the tagged buffer that its tag matches. Eager: the payload behind the header
 * goes to the buffer. Rendezvous: the device reads the payload from the address in struct ibv_rvh,
 * and tells the sender by a FIN that repeats the header. A message without a tag, or with one that
 * matches no buffer, goes as a whole to an ordinary receive. The message of a rendezvous that the
 * device cannot do (buffer too small, no READs allowed) goes to the tagged buffer as it is, and the
 * program does the rendezvous. */
#pragma once
#include "transport/place.h"

/* A message's first segment: takes its buffer into q->rsp.rwqe. *skip: bytes of the header that are
 * not placed. PLACE_DONE, _RNR, _NO_REF, _GONE. */
enum place tag_begin(struct tqp *q, const struct seg *s, uint32_t *skip);
/* The message is complete and acknowledged: the rendezvous begins, if it was one. */
void tag_rendezvous(struct tqp *q);
static inline bool tag_on(const struct tqp *q)
{
	return unlikely(q->qp.srq && q->qp.srq->tags);
}
