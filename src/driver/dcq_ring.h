// SPDX-License-Identifier: MIT
/* A completion queue's ring as its consumer sees it: whether entries are there, and taking the
 * entries of one object out. Entries name QPs, SRQs and WQs by object index (uidx;
 * docs/design/completions.md). completion.h reads entries.
 * Locking: @lock is the consumer's; never held while a turn is taken (poll makes progress
 * first). */
#pragma once
#include "driver/account.h"
#include "driver/objects.h"
#include "driver/ring_memory.h"
#include "engine/unrung.h"
#include "hca/cq.h"
#include "hca/pd.h"
#include "util/be.h"

struct dcq {
	struct ibv_cq_ex ib; /* first; its prefix is the ibv_cq */
	struct cq *dev;
	struct context *ctx;
	struct pd *pd; /* parent domain that made the ring, with a reference; or NULL */
	uint32_t epoch;
	struct spin lock; /* guards buf, first, cnt, ci, dbrec and cur */
	uint8_t *buf; /* the ring */
	const uint8_t *first; /* the cqe64 of its first entry */
	size_t cqe_size; /* bytes of an entry: 64, or 128, of which the cqe64 is the second half */
	uint32_t cnt, ci; /* entries; entries read, atomic for dcq_ring_idle() */
	/* consumer index; how a program that reads the ring arms it (lay_open.h): @record,
	 * @lent_record, or that of @pages */
	uint32_t *dbrec;
	uint32_t record[2] __attribute__((aligned(64)));
	struct cqe cur; /* entry that the ibv_cq_ex readers describe */
	enum ibv_wc_opcode cur_op; /* verb of cur */
	uint32_t cur_flags, cur_qpn; /* IBV_WC_* flags, QP number of cur */
	bool cur_raw; /* cur.qpn is a flow tag */
	uint8_t compressed; /* enum mlx5dv_cqe_comp_res_format, one bit; 0: nothing is */
	uint64_t wc_flags; /* IBV_WC_EX_* asked for */
	const void *poller; /* thread from start_poll to end_poll (dcq_ring_self); NULL: none */
	bool single; /* the program polls from one thread only: start_poll takes no lock */
	uint64_t wall; /* ns to add to a timestamp for the wall clock; as of start_poll */
	uint32_t comp_delivered; /* completion events taken; account.h */
	uint32_t async_delivered; /* asynchronous events taken */
	struct unrung unrung; /* listed: the engine looks at the arm record (lay_open.h) */
	/* A program knows where the ring is, reads it itself and owns all entries: for good, though
	 * the CQ may be off the list. Set under lock; atomic. */
	bool told;
	uint32_t opening; /* calls under way that list it; the ring stays meanwhile. Under lock */
	struct ring_memory memory; /* of the ring, until it stands in @pages. Under lock */
	struct ring_memory lent_record; /* until the CQ ends; none: @record */
	struct ring_pages pages; /* of the ring, once it is laid open */
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

/* No entry to read. Most polls find none, and take no lock to find that (cq_written()). */
static inline bool dcq_ring_idle(const struct dcq *cq)
{
	return cq_written(cq->dev) == load_relaxed(&cq->ci);
}

/* Gives the entries before ci back to the device: (A) pairs with the load of the record in
 * cq_push(). */
static inline void dcq_ring_publish(struct dcq *cq)
{
	store_release(&cq->dbrec[0], htobe32(cq->ci & 0xffffff)); /* (A) */
}

extern __thread char dcq_ring_self; /* its address names this thread */

static inline bool dcq_ring_polling(const struct dcq *cq)
{
	return load_relaxed(&cq->poller) == &dcq_ring_self;
}

/* @buf: @cnt entries of cqe_size bytes, which is set. */
void dcq_ring_set(struct dcq *cq, uint8_t *buf, uint32_t cnt);
static inline struct cqe_ring dcq_ring_now(const struct dcq *cq)
{
	return (struct cqe_ring){ cq->buf, cq->cnt, (uint32_t)cq->cqe_size };
}

/* Entry number ci, which may still be the device's. */
static inline const struct mlx5_cqe64 *dcq_ring_next(const struct dcq *cq)
{
	return (const struct mlx5_cqe64 *)(cq->first +
					   (size_t)(cq->ci & (cq->cnt - 1)) * cq->cqe_size);
}

/* The next entry is the consumer's: if it is a title, its session becomes ordinary entries. */
void dcq_ring_expand(const struct dcq *cq);

/* The consumer's lock, for calls that a thread may make between its ibv_start_poll() and its
 * ibv_end_poll(), when it has the lock already. */
static inline void dcq_ring_lock(struct dcq *cq)
{
	if (!dcq_ring_polling(cq))
		spin_lock(&cq->lock);
}

static inline void dcq_ring_unlock(struct dcq *cq)
{
	if (!dcq_ring_polling(cq))
		spin_unlock(&cq->lock);
}

/* Drops every unread entry of object @uidx, which is in RESET or destroyed and so gets no more;
 * slots of shared receives go back to their SRQ. */
void dcq_ring_purge(struct dcq *cq, uint32_t uidx);
/* After dcq_ring_purge(), by which the entries of a CQ that is laid open stay: returns when no
 * thread that polls such a CQ uses an object that objects_del() has taken away before. */
void dcq_ring_settle(struct dcq *cq);
