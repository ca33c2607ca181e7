// SPDX-License-Identifier: MIT
/* Receive queues, the device's half: a QP's own (struct rq) and the shared one (struct srq).
 * A WQE belongs to the device from the doorbell record's store until its CQE is written. A
 * multi-packet message takes its WQE at its FIRST packet
 * (docs/design/shared-receive-queues.md).
 * Locking: a QP's rq is used under its turn; srq->lock is a leaf. */
#pragma once
#include "hca/cq.h"
#include "hca/pd.h"
#include "hca/xrcd.h"
#include "prm/wqe.h"

struct rq {
	struct rq_ring ring;
	uint16_t head; /* WQEs taken */
};

/* Takes the next posted WQE. ENOENT: none. */
int rq_take(struct rq *rq, struct rwqe *out);
/* WQEs posted and not yet taken; reads the doorbell record. */
uint16_t rq_posted(const struct rq *rq);

struct tag_list;

struct srq {
	struct pd *pd;
	uint32_t epoch;
	uint32_t srqn;
	uint32_t uidx; /* the driver's object index, in CQEs */
	struct spin lock; /* guards ring state below */
	struct rq_ring ring; /* slots linked by next_wqe_index, from slot 0 */
	uint16_t next; /* slot the next message takes */
	uint16_t taken; /* WQEs ever taken, to compare with the doorbell record */
	uint32_t max_wr, max_sge;
	uint32_t limit; /* work requests; 0: not armed; atomic for srq_limit() */
	void *user; /* struct ibv_srq * */
	struct xrcd *xrcd; /* XRC: its domain and the CQ of its receives; else NULL */
	struct cq *cq;
	uint32_t refs; /* atomic: QPs on it */
	struct tag_list *tags; /* of a tag-matching SRQ (tag_list.h); else NULL */
};

struct srq_attr {
	struct rq_ring ring;
	uint32_t max_wr, max_sge, limit;
	uint32_t uidx;
	void *user;
	struct cq *tm_cq; /* CQ of a tag-matching SRQ; else NULL */
	uint32_t max_num_tags; /* tag matching: buffers of the list */
	struct xrcd *xrcd; /* XRC: domain, CQ and number; else 0 */
	struct cq *cq;
	uint32_t srqn; /* unique on the host */
};

int srq_create(struct pd *pd, const struct srq_attr *attr, struct srq **out);
int srq_destroy(struct srq *srq); /* EBUSY while a QP uses it */
void srq_get(struct srq *srq);
void srq_put(struct srq *srq);
/* Takes the next WQE; raises IBV_EVENT_SRQ_LIMIT_REACHED once when fewer than limit are left. */
int srq_take(struct srq *srq, struct rwqe *out);
/* The two halves of srq_take(), for srq_tags.c: under the lock, and the event after it if *low. */
int srq_take_locked(struct srq *srq, struct rwqe *out, bool *low);
void srq_low(struct srq *srq);
uint16_t srq_posted(struct srq *srq);
/* Another ring takes the place of the old one, which the device does not read after the call.
 * @anew: the list starts at slot 0 with nothing posted; else all slots are where they were. */
void srq_switch(struct srq *srq, const struct rq_ring *ring, bool anew);
uint64_t srq_wr_id(struct srq *srq, uint16_t index); /* rq_ring_wr_id(), under the lock */
void srq_set_max_wr(struct srq *srq, uint32_t max_wr);
/* The limit that is armed now, 0: none; without the lock. */
static inline uint32_t srq_limit(const struct srq *srq)
{
	return load_relaxed(&srq->limit);
}

int srq_set_limit(struct srq *srq, uint32_t limit); /* EINVAL above max_wr */
