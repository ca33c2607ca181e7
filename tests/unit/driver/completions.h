// SPDX-License-Identifier: MIT
/* A completion queue of memory alone, whose entries the test writes as the device would, and poor
 * queues for them to name. */
#pragma once
#include "driver/cq_poll.h"
#include "driver/dwq.h"
#include "queue.h"

enum { CQES = 8 };

struct completions {
	struct cq dev; /* its pi: entries written */
	struct dcq *cq;
	struct mlx5_cqe64 ring[CQES];
};

static inline void open_completions(struct completions *c)
{
	memset(c, 0, sizeof(*c));
	check_eq(fork_init(), 0);
	c->cq = aligned_alloc(64, sizeof(*c->cq));
	memset(c->cq, 0, sizeof(*c->cq));
	cqe_init(c->ring, CQES, sizeof(c->ring[0]));
	c->cq->dev = &c->dev;
	c->cq->dbrec = c->cq->record;
	c->cq->epoch = fork_epoch();
	c->cq->cqe_size = sizeof(c->ring[0]);
	dcq_ring_set(c->cq, (uint8_t *)c->ring, CQES);
	spin_init(&c->cq->lock);
}

static inline void close_completions(struct completions *c)
{
	free(c->cq);
}

static inline void write_cqe(struct completions *c, const struct cqe *e)
{
	cqe_write(&c->ring[c->dev.pi % CQES], e, !!(c->dev.pi & CQES));
	c->dev.pi++;
}

static inline int poll_cq(struct completions *c, struct ibv_wc *wc, int n)
{
	memset(wc, 0xaa, n * sizeof(*wc));
	return dcq_poll((struct ibv_cq *)&c->cq->ib, n, wc);
}
