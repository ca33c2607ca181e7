// SPDX-License-Identifier: MIT
/* Completions of tag matching. */
#pragma once
#include "transport/tqp.h"

struct inner;

/* Makes @c a completion of tag matching, if the message in hand is one. The CQ that @c goes to. */
struct cq *tag_cqe_route(struct tqp *q, struct cqe *c);
/* The READ of a rendezvous is done, well or with @error. EOVERFLOW: the tag list's CQ is full. */
int tag_cqe_arrived(struct tqp *q, const struct inner *in, const struct cqe *error, uint64_t now);
