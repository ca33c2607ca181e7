// SPDX-License-Identifier: MIT
/* Requests for a QP that does not exist, whose senders could not be told so at once, since the link
 * had no room. Senders on this host run no ack timer, so each is told later. If there is no memory
 * to keep the request, or UNANSWERED_MAX of its sender are kept, its sender is not told: it does
 * not read what it gets. */
#pragma once
#include "engine/node_state.h"

enum { UNANSWERED_MAX = 16384 }; /* about as many as answers fit in a ring */

void unanswered_put(struct node *n, const struct seg *s); /* keeps its headers */
void unanswered_later(struct tqp *q, const struct seg *s); /* tqp_env.no_responder_later */
void unanswered_tell(struct node *n); /* tells senders whose link has room, keeps the rest */

static inline bool unanswered_any(const struct node *n)
{
	return load_relaxed(&n->unanswered) != NULL;
}
