// SPDX-License-Identifier: MIT
/* Completion queue, the device's half: writes CQEs into a ring that the driver (or a program, by
 * mlx5dv) gave it, and raises completion events.
 * Locking: @lock is a leaf (producers: turns of any QP on it, resize, purge). The consumer's half
 * is driver/cq_poll's; it is read here only through dbrec[0] (overrun) (M40). */
#pragma once
#include "hca/comp_channel.h"
#include "util/wheel.h"
#include "prm/cqe_ring.h"

struct cq {
	struct context *ctx;
	uint32_t epoch;
	uint32_t cqn;
	struct spin lock; /* guards the producer's half: pi, ring switch, armed */
	uint8_t *buf; /* cnt entries of cqe_size bytes; the cqe64 is the last 64 of each */
	uint32_t cnt; /* power of two */
	uint32_t cqe_size;
	volatile uint32_t *dbrec; /* [0] consumer index (24 bits, big-endian), [1] arm */
	uint32_t pi; /* entries written; atomic for cq_written() */
	bool ignore_overrun;
	bool stamped; /* each entry says when it was written: cq_attr's */
	bool overrun; /* IBV_EVENT_CQ_ERR was raised: nothing is written any more */
	enum { CQ_IDLE, CQ_ARMED_SOLICITED, CQ_ARMED } armed;
	uint64_t stamp; /* the last entry's: they do not go back */
	struct { /* ibv_modify_cq: how many entries, or ns, an event may stand for; under lock */
		uint32_t count; /* 0: every event at once */
		uint64_t period;
		uint32_t pending; /* entries that the next event stands for */
	} moderate;
	struct timer timer; /* the period's; the engine's, under its wheel's lock */
	struct cq *timer_due; /* the engine's: next of the same run */
	bool timer_queued; /* the engine's: it is in some run's list */
	struct comp_channel *channel; /* or NULL */
	struct comp_event event; /* the channel's */
	void *user; /* struct ibv_cq *: what events name */
	uint32_t refs; /* atomic: QPs, SRQs on it */
};

struct cq_attr {
	void *buf;
	uint32_t cnt, cqe_size;
	volatile uint32_t *dbrec;
	struct comp_channel *channel;
	bool ignore_overrun;
	bool stamped;
	void *user;
};

/* Timers for moderation, by the surroundings (engine). The engine calls cq_period_over() no sooner
 * than @ns after later(), which is called without a lock; after drop() returned it does not. */
struct cq_timers {
	void (*later)(struct cq *cq, uint64_t ns);
	void (*drop)(struct cq *cq);
};

int cq_create(struct context *ctx, const struct cq_attr *attr, struct cq **out);
int cq_destroy(struct cq *cq); /* EBUSY while a QP or SRQ uses it; drops its queued events */
void cq_get(struct cq *cq);
void cq_put(struct cq *cq);
/* Writes one entry. EOVERFLOW: the ring was full; the CQ is in overrun from now on, the event is
 * raised once and the caller moves its QP to ERR. */
int cq_push(struct cq *cq, const struct cqe *c);
/* How many entries were ever written, which the consumer compares with how many it has read. Read
 * without the lock: an entry counts no sooner than it can be read. A consumer that has armed the CQ
 * since sees all that came before, as cq_arm() takes the lock. */
static inline uint32_t cq_written(const struct cq *cq)
{
	return load_relaxed(&cq->pi);
}

/* Another ring takes the place of the old one, which the device does not touch after the call; the
 * entries that the consumer has not read, from @ci on, are copied to the same numbers of @ring.
 * Returns how many these are. When they do not fit (not fewer than ring->cnt), nothing has changed.
 * The caller keeps the consumer away. */
uint32_t cq_switch(struct cq *cq, const struct cqe_ring *ring, uint32_t ci);
/* The arm doorbell (ibv_req_notify_cq): one event for the next entry (@solicited: the next that is
 * solicited or an error) written after this call. */
void cq_arm(struct cq *cq, bool solicited);
/* An armed CQ raises its event when @count entries that fulfil it are there, or @us microseconds
 * after the first of them, whichever is sooner. Either 0: at the first. */
void cq_moderate(struct cq *cq, uint16_t count, uint16_t us);
void cq_period_over(struct cq *cq);
