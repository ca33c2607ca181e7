// SPDX-License-Identifier: MIT
/* Live values in the files of a port's counters, where `softhca run` shows files that programs may
 * write (docs/design/port-counters.md). The engine's thread adds to them what this process has done
 * since it last did, once in PORT_COUNTS_PERIOD, and the end of the process adds the rest. */
#pragma once
#include "engine/node_state.h"

#define PORT_COUNTS_PERIOD 1000000000ULL /* ns; hw_counters/lifespan says the same in ms */

void port_counts_init(struct node *n);
/* A QP ends, or its files are due: counts what it has moved. Inside a quiesce section. */
void port_counts_take(struct eqp *e);
void port_counts_end(struct node *n); /* at exit() */

static inline uint64_t port_counts_due(const struct node *n) /* ns; UINT64_MAX: never */
{
	return load_relaxed(&n->counts.due);
}

void port_counts_write(struct node *n, uint64_t now);

static inline void port_counts_tend(struct node *n, uint64_t now) /* the engine's thread */
{
	if (unlikely(port_counts_due(n) <= now))
		port_counts_write(n, now);
}
