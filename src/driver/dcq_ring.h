// SPDX-License-Identifier: MIT
/* A completion queue's ring as its consumer sees it: which entries are there, reading on, and
 * taking an object's entries out. Entries name QPs, SRQs and WQs by object index (uidx;
 * docs/design/completions.md). What an entry says is completion.h.
 * Locking: @lock is the consumer's; never held while a turn is taken (poll makes progress first). */
#pragma once
#include "driver/account.h"
#include "driver/objects.h"
#include "hca/cq.h"
#include "hca/pd.h"
#include "util/be.h"

struct dcq {
	struct ibv_cq_ex ib; /* first; its prefix is the ibv_cq */
	struct cq *dev;
	struct context *ctx;
	struct pd *pd; /* the parent domain it was made in, with a reference; or NULL */
	uint32_t epoch;
	struct spin lock; /* guards buf, cnt, ci and cur */
	uint8_t *buf; /* the ring: cnt entries of 64 bytes */
	uint32_t cnt, ci; /* entries; entries read, atomic for dcq_ring_idle() */
	uint32_t dbrec[2] __attribute__((aligned(64)));
	struct cqe cur; /* what the ibv_cq_ex readers describe; outlives end_poll */
	enum ibv_wc_opcode cur_op;
	uint32_t cur_flags, cur_qpn; /* IBV_WC_* flags, QP number of cur */
	bool cur_raw; /* cur.qpn is a flow tag */
	uint64_t wc_flags; /* IBV_WC_EX_* asked for */
	const void *poller; /* the thread between start_poll and end_poll, NULL none */
	bool single; /* the program polls it from one thread only: @lock is not taken for that */
	uint64_t wall; /* ns from a timestamp to the wall clock, as of start_poll */
	uint32_t comp_delivered; /* completion events taken; account.h */
	uint32_t async_delivered; /* asynchronous events taken */
};

static inline struct dcq *to_dcq(struct ibv_cq *ib)
{
	return (struct dcq *)ib;
}

static inline struct account dcq_ring_comp(struct dcq *cq)
{
	struct ibv_cq *ib = (struct ibv_cq *)&cq->ib;

	return (struct account){ &ib->mutex, &ib->cond, &ib->comp_events_completed,
				 &cq->comp_delivered };
}

static inline struct account dcq_ring_async(struct dcq *cq)
{
	struct ibv_cq *ib = (struct ibv_cq *)&cq->ib;

	return (struct account){ &ib->mutex, &ib->cond, &ib->async_events_completed,
				 &cq->async_delivered };
}

/* Most polls find nothing, and need no lock for it (cq_written()). */
static inline bool dcq_ring_idle(const struct dcq *cq)
{
	return cq_written(cq->dev) == load_relaxed(&cq->ci);
}

/* Entries before ci are the device's again: (A) with cq_push(). */
static inline void dcq_ring_publish(struct dcq *cq)
{
	store_release(&cq->dbrec[0], htobe32(cq->ci & 0xffffff)); /* (A) */
}

extern __thread char dcq_ring_self; /* its address names this thread */

static inline bool dcq_ring_polling(const struct dcq *cq)
{
	return load_relaxed(&cq->poller) == &dcq_ring_self;
}

/* The consumer's lock, for calls that may come between ibv_start_poll() and ibv_end_poll() of the
 * same thread, which has it already. */
void dcq_ring_lock(struct dcq *cq);
void dcq_ring_unlock(struct dcq *cq);
/* Drops every entry of object @uidx that was not read (RESET, destroy); slots of shared receives go
 * back to their SRQ. The object writes no more entries. */
void dcq_ring_purge(struct dcq *cq, uint32_t uidx);
