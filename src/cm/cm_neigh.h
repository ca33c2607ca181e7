// SPDX-License-Identifier: MIT
/* Ids whose peer's next hop is not known to the kernel yet. Under cm.lock. */
#pragma once
#include "cm/cm_state.h"

/* Calls @done with 0 when the neighbour on the way of @id is known, at once if it is, or after @ms
 * with -ETIMEDOUT; the id is in PHASE_ADDR_QUERY meanwhile. */
void cm_neigh_await(struct cm_id *id, int ms, void (*done)(struct cm_id *id, int status));
