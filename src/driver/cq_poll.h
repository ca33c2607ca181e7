// SPDX-License-Identifier: MIT
/* Polling and arming: entries of the ops table. */
#pragma once
#include "driver/dcq_ring.h"
#include "engine/doorbell.h"

/* Is there an entry to read? Entries that wait in the CQ go to the program before more are let in:
 * receives that the program posts again are there then, which UC and UD need. */
static inline bool cq_poll_ready(const struct dcq *cq)
{
	if (!dcq_ring_idle(cq))
		return true;
	progress();
	return !dcq_ring_idle(cq);
}

int dcq_poll(struct ibv_cq *ib, int n, struct ibv_wc *wc); /* the count, or -errno */
int dcq_arm(struct ibv_cq *ib, int solicited_only);
