// SPDX-License-Identifier: MIT
/* Completions of tag matching. */
#pragma once
#include "transport/tqp.h"

struct inner;

/* Makes @c a completion of tag matching, if the message in hand took a tagged buffer. Returns the
 * CQ to which @c goes. */
struct cq *tag_cqe_route(struct tqp *q, struct cqe *c);
/* The READ of a rendezvous is done: with success (@error NULL), or with the error CQE @error.
 * EOVERFLOW: the tag list's CQ is full. */
int tag_cqe_arrived(struct tqp *q, const struct inner *in, const struct cqe *error, uint64_t now);
