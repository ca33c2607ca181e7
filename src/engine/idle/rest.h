// SPDX-License-Identifier: MIT
/* A thread that polls in vain while other threads want the core (vain.h) sleeps in the poll, until
 * a packet or a record comes in, or something is due. To senders of this host the process looks as
 * if its engine slept: they ring. The engine thread naps longer meanwhile. */
#pragma once
#include "engine/node_state.h"

/* At most @ns from @now on. Outside any quiesce section. False: it has not slept, or for nothing:
 * the process has no network, something is to be done, or another thread does it. */
bool rest(struct node *n, uint64_t now, uint64_t ns);

/* A thread rests on the sockets of a network, unless another one leads. */
static inline bool rest_possible(const struct node *n)
{
	return load_relaxed(&n->networks) && !load_relaxed(&n->led);
}

/* For the engine thread, ns: until when a thread that polls rests, at most; in the past: none
 * does. */
static inline uint64_t rest_until(const struct node *n)
{
	return load_relaxed(&n->rest_until);
}
