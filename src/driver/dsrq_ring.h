// SPDX-License-Identifier: MIT
/* The ring of a shared receive queue, the driver's half: slots in a free list, posting, and wr_ids.
 * A slot is free again when its completion is polled (docs/design/shared-receive-queues.md).
 * Locking: @lock guards the ring, the free list and the wr_ids; the device's leaf lock is taken
 * under it when the ring is switched. */
#pragma once
#include "driver/account.h"
#include "driver/objects.h"
#include "driver/ring_memory.h"
#include "engine/unrung.h"
#include "hca/srq.h"

struct dsrq_tags;

struct dsrq {
	struct ibv_srq ib; /* first */
	struct srq *dev;
	uint32_t epoch;
	uint32_t uidx;
	struct spin lock;
	uint8_t *buf; /* the ring: cnt slots of stride bytes, linked by next_wqe_index */
	uint32_t cnt, stride;
	uint32_t max_wr, max_sge; /* as granted */
	uint32_t head, tail; /* slots: first and last of the free list */
	uint32_t used; /* slots posted whose completion was not polled */
	uint16_t posted; /* receives ever posted, as the doorbell record counts them */
	uint64_t *wr_id; /* by slot */
	struct dsrq_tags *tags; /* of a tag-matching SRQ (dsrq_tags.h); else NULL */
	struct ibv_cq *cq; /* CQ of a tag-matching or XRC SRQ; else NULL */
	uint32_t async_delivered; /* events taken; account.h */
	struct unrung unrung; /* listed: the engine looks at the record (lay_open.h) */
	bool told; /* a program writes the ring itself, which stays, for good. Under lock */
	uint32_t opening; /* calls under way that list it; the ring stays meanwhile. Under lock */
	uint32_t seen; /* the doorbell record as of the last look */
	uint32_t *dbrec; /* @record, @lent_record, or that of @pages; under the lock */
	struct ring_memory memory; /* of the ring, until it stands in @pages. Under the lock */
	struct ring_memory lent_record; /* until the SRQ ends; none: @record */
	struct ring_pages pages; /* of the ring, once it is laid open */
	uint32_t record[2] __attribute__((aligned(64)));
};

static inline struct dsrq *to_dsrq(struct ibv_srq *ib)
{
	return (struct dsrq *)ib;
}

static inline struct account dsrq_ring_account(struct dsrq *srq)
{
	return (struct account){ &srq->ib.mutex, &srq->ib.cond, &srq->ib.events_completed,
				 &srq->async_delivered };
}

/* Slots of a ring for @max_wr work requests. One slot more stays free, so that the list of free
 * slots never runs empty. */
static inline uint32_t dsrq_ring_slots(uint32_t max_wr)
{
	return 1U << (32 - __builtin_clz(max_wr | 1));
}

struct dsrq_memory { /* of one ring */
	struct ring_memory ring;
	uint64_t *wr_id;
	uint32_t cnt; /* slots */
};

/* All slots of the ring are free. */
void dsrq_ring_init(struct dsrq *srq);
/* Puts the zeroed memory @n in the ring's place; @n is the old memory then. A larger ring may come
 * at any time and keeps the free list; any other comes only while no slot is in use, and starts the
 * free list anew: true. Under the lock. */
bool dsrq_ring_switch(struct dsrq *srq, struct dsrq_memory *n);
/* Gives the slot back, returns its wr_id. */
uint64_t dsrq_ring_complete(struct dsrq *srq, uint16_t idx);
int dsrq_post_recv(struct ibv_srq *ib, struct ibv_recv_wr *wr,
		   struct ibv_recv_wr **bad); /* ops entry */
