// SPDX-License-Identifier: MIT
/* The link of a process to itself: a queue of parcels. send() only queues, so a QP never runs
 * inside another one's turn (docs/design/loopback.md); loopback_drain() delivers, in order, from
 * one thread at a time. Large payloads stay where they are until the receiver fetches them. */
#pragma once
#include "link/parcel.h"
#include "peers/host.h"
#include "peers/host_wait.h"
#include "util/spin.h"

enum { LOOPBACK_MAX = 1024 }; /* parcels queued; more wait */
#define LOOPBACK_PROCESS UINT64_MAX /* dest.process; contacts count up from 1 */

struct loopback {
	struct dest d;
	struct host *host;
	struct spin lock; /* guards the queue */
	struct parcel *first, **end;
	uint32_t len;
	uint64_t sent, delivered; /* parcels of all time; atomic */
	struct host_wait waiters;
	struct spin drain_lock; /* only tried: one thread delivers */
};

void loopback_init(struct loopback *l, struct host *h);
void loopback_fini(struct loopback *l); /* frees what is queued */
unsigned int loopback_drain(struct loopback *l, unsigned int budget);
static inline bool loopback_pending(const struct loopback *l)
{
	return load_relaxed(&l->len) != 0;
}
