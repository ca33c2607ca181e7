// SPDX-License-Identifier: MIT
/* What completion entries say about the work requests that they complete. Taking an entry gives the
 * slot of its work request back to the queue that it was posted to. */
#pragma once
#include "driver/dcq_ring.h"

struct completion {
	uint64_t wr_id;
	enum ibv_wc_opcode op;
	uint32_t qpn; /* wc.qp_num: the QP, or the work queue, that received */
	uint32_t wc_flags; /* IBV_WC_GRH, … */
	enum ibv_wc_status status; /* of entries without a syndrome */
	bool raw; /* a frame: the CQE has a flow tag where others have the QPN */
};

/* Takes the next entry, or false: there is none. Under cq->lock. Entries of objects that are gone
 * are skipped. */
bool completion_next(struct dcq *cq, struct cqe *c, struct completion *d);

static inline enum ibv_wc_status completion_status(const struct cqe *c, const struct completion *d)
{
	return c->syndrome ? cqe_status(c->syndrome) : d->status;
}
