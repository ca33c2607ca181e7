// SPDX-License-Identifier: MIT
/* ibv_poll_cq() and ibv_req_notify_cq(): entries of the ops table. */
#pragma once
#include "driver/dcq_ring.h"
#include "engine/doorbell.h"

/* Is there an entry to read? The device makes progress only when there is none: a program that
 * reads what is there can post receives again before more messages come in, which UC and UD
 * need. */
static inline bool cq_poll_ready(const struct dcq *cq)
{
	if (!dcq_ring_idle(cq)) {
		doorbell_polled();
		return true;
	}
	progress();
	if (unlikely(cq->compressed))
		cq_let_go(cq->dev); /* another thread drains, and has acknowledged them */
	return !dcq_ring_idle(cq);
}

int dcq_poll(struct ibv_cq *ib, int n, struct ibv_wc *wc); /* the count, or -errno */
int dcq_arm(struct ibv_cq *ib, int solicited_only);
