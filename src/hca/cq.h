// SPDX-License-Identifier: MIT
/* Completion queue, the device's half: writes CQEs into a ring that the driver has given it, and
 * raises completion events.
 * Locking: @lock is a leaf; it is taken in the turns of all QPs on the CQ and by cq_switch(). Of
 * the consumer's half, driver/dcq_ring.h, only the index in dbrec[0] is read, to notice an overrun
 * (docs/design/completions.md). A CQ with a run delays receives until the turn ends. */
#pragma once
#include "hca/comp_channel.h"
#include "util/wheel.h"
#include "prm/cqe_session.h"

enum cq_extra {
	CQ_STAMPED = 1, /* each entry has the time when it was written */
	CQ_PADDED = 2, /* entries of 128 bytes are written whole: their first half is zero */
	CQ_LAID_OPEN = 4, /* the program reads entries itself, and finds small messages in them */
	CQ_COMPRESSES = 8, /* it has a struct cq_run */
};

/* Receive completions of one turn that the device delays to compress them
 * (docs/design/compressed-completions.md). Under the CQ's lock, but for @next, which is the turn's
 * that has the list. */
struct cq_run {
	struct cqe_session session;
	struct cq **list; /* of the turn that has delayed entries, with the CQ on it; or NULL */
	struct cq *next; /* in it */
	uint32_t loud; /* number of the last entry that is solicited or an error */
};

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
	uint8_t extras; /* bits of enum cq_extra; 0 for most CQs; atomic */
	struct cq_run *run; /* of a CQ that compresses; else NULL */
	bool overrun; /* IBV_EVENT_CQ_ERR was raised, and no entry is written any more */
	enum { CQ_IDLE, CQ_ARMED_SOLICITED, CQ_ARMED } armed;
	uint64_t stamp; /* time of the last entry, clock_raw() */
	struct { /* ibv_modify_cq: entries, or ns, that one event may stand for; under lock */
		uint32_t count; /* 0: every event at once */
		uint64_t period;
		uint32_t pending; /* entries that the next event stands for */
	} moderate;
	struct timer timer; /* end of the period; the engine's, under its wheel's lock */
	struct cq *timer_due; /* the engine's: next in its list of CQs whose period is over */
	bool timer_queued; /* the engine's: the CQ is on that list */
	bool timed; /* the engine's: its timer was started once; atomic */
	struct comp_channel *channel; /* or NULL */
	struct comp_event event; /* place in the channel's queue; the channel's */
	void *user; /* struct ibv_cq * that events name */
	uint32_t refs; /* atomic: QPs, WQs and SRQs on it */
};

struct cq_attr {
	void *buf;
	uint32_t cnt, cqe_size;
	volatile uint32_t *dbrec;
	struct comp_channel *channel;
	bool ignore_overrun;
	uint8_t extras; /* without CQ_COMPRESSES */
	/* enum mlx5dv_cqe_comp_res_format, one bit, or 0: nothing is compressed, as where entries
	 * are stamped, since a compressed one has no time */
	uint8_t compressed;
	void *user;
};

/* The engine's timers for moderation. later(): the engine calls cq_period_over() in @ns or later,
 * with no lock taken. drop(): it does not do so after the call. */
struct cq_timers {
	void (*later)(struct cq *cq, uint64_t ns);
	void (*drop)(struct cq *cq);
};

int cq_create(struct context *ctx, const struct cq_attr *attr, struct cq **out);
int cq_destroy(struct cq *cq); /* EBUSY while a QP, WQ or SRQ uses it; drops its queued events */
void cq_get(struct cq *cq);
void cq_put(struct cq *cq);
/* Writes one entry. EOVERFLOW: the ring was full. The CQ is in overrun from now on, its event is
 * raised once, and the caller moves its QP to ERR. */
int cq_push(struct cq *cq, const struct cqe *c);
/* The same for a receive in a turn, on a CQ with a run: the device may delay it until
 * cq_run_end(@list), which ends the turn. @list: of CQs, NULL when the turn begins. */
int cq_push_run(struct cq *cq, const struct cqe *c, struct cq **list);
void cq_run_end(struct cq **list);
void cq_let_go(struct cq *cq); /* writes what it has delayed */
/* The same, with the message's c->byte_cnt bytes, cq_room() at most, in the entry too. */
int cq_push_inlined(struct cq *cq, const struct cqe *c, const void *data);
/* Does the doorbell record say that more entries were read than were written? A program that writes
 * it itself may; then the ring counts as full. */
bool cq_misread(const struct cq *cq);
/* Bytes of a message that fit into an entry; 0: its reader does not look for them there. */
static inline uint32_t cq_room(const struct cq *cq)
{
	return load_relaxed(&cq->extras) & CQ_LAID_OPEN ? cq->cqe_size / 2 : 0;
}

/* What cqe.brief is to say of frames: enum mlx5dv_cqe_comp_res_format, one bit; 0: nothing. */
static inline uint8_t cq_brief(const struct cq *cq)
{
	return likely(!cq->run) ? 0 : cq->run->session.format;
}

void cq_lay_open(struct cq *cq); /* the program reads the entries itself from now on */
/* How many entries were ever written, for the consumer to compare with how many it has read. Takes
 * no lock: the number may be a little old, but not older than the consumer's last cq_arm(). */
static inline uint32_t cq_written(const struct cq *cq)
{
	return load_relaxed(&cq->pi);
}

/* How many entries the consumer has read, modulo 2^24. Takes no lock, as cq_written(). */
static inline uint32_t cq_consumed(const struct cq *cq)
{
	return be32toh(load_relaxed(&load_relaxed(&cq->dbrec)[0]));
}

/* @ring and the doorbell record @dbrec, which says @ci already, take the place of the old ones,
 * which the device does not touch after the call; the entries that the consumer has not read, from
 * @ci on, are copied to the same numbers of @ring. Returns how many these are; if that is not less
 * than ring->cnt they do not fit, and nothing has changed. The caller keeps the consumer away. */
uint32_t cq_switch(struct cq *cq, const struct cqe_ring *ring, volatile uint32_t *dbrec,
		   uint32_t ci);
/* The arm doorbell (ibv_req_notify_cq): one event for the next entry (@solicited: the next that is
 * solicited or an error) written after this call. */
void cq_arm(struct cq *cq, bool solicited);
/* The same for a consumer that armed the CQ some time ago, when it had read the entries before @ci
 * (24 bits): an entry that it is armed for may be written already, and then the event comes at
 * once. */
void cq_arm_since(struct cq *cq, bool solicited, uint32_t ci);
/* An armed CQ raises its event at the @count-th entry that it is armed for, or @us microseconds
 * after the first, whichever is sooner. Either 0: at the first. */
void cq_moderate(struct cq *cq, uint16_t count, uint16_t us);
void cq_period_over(struct cq *cq);
