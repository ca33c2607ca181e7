// SPDX-License-Identifier: MIT
/* Completion queue, the driver's half: ring memory, consumer index, decoding of CQEs to ibv_wc
 * and the ibv_cq_ex readers. CQEs resolve to QPs and SRQs by object index (uidx, M32). Locking:
 * @lock is the consumer's; never held while a turn is taken (poll makes progress first), taken
 * under a turn only by the purge. */
#pragma once
#include "driver/objects.h"
#include "hca/cq.h"
#include "hca/pd.h"

struct dcq {
	struct ibv_cq_ex ib; /* first; its prefix is the ibv_cq */
	struct cq *dev;
	struct context *ctx;
	struct pd *pd; /* the parent domain it was made in, with a reference; or NULL */
	uint32_t epoch;
	struct spin lock; /* guards ci, ring switch, cur */
	uint8_t *buf;
	uint32_t cnt, ci;
	uint32_t dbrec[2] __attribute__((aligned(64)));
	struct cqe cur; /* what the ibv_cq_ex readers describe; outlives end_poll */
	enum ibv_wc_opcode cur_op;
	uint32_t cur_flags, cur_qpn;
	bool cur_raw; /* cur.qpn is a flow tag */
	uint64_t wc_flags; /* IBV_WC_EX_* asked for */
	const void *poller; /* the thread between start_poll and end_poll, NULL none */
	bool single; /* the program polls it from one thread only: @lock is not taken for that */
	uint64_t wall; /* ns from a timestamp to the wall clock, as of start_poll */
	uint32_t comp_delivered; /* events handed to the program; driver/events.c */
	uint32_t async_delivered;
};

static inline struct dcq *to_dcq(struct ibv_cq *ib)
{
	return (struct dcq *)ib;
}

/* EINVAL: cqe 0 or over the limit, comp_vector out of range; EOPNOTSUPP: wc_flags that do not
 * work. */
int dcq_create(struct context *ctx, const struct ibv_cq_init_attr_ex *attr, struct dcq **out);
int dcq_destroy(struct dcq *cq); /* waits for unacknowledged events */
int dcq_resize(struct dcq *cq, int cqe); /* EINVAL: fewer than the unpolled entries */
/* EINVAL: attributes that are no ibv_cq_attr_mask bits. */
int dcq_modify(struct dcq *cq, const struct ibv_modify_cq_attr *attr);
int dcq_poll(struct ibv_cq *ib, int n, struct ibv_wc *wc); /* the ops entry: count or -errno */
int dcq_arm(struct ibv_cq *ib, int solicited_only); /* the ops entry */
/* The consumer's lock, for calls that may come between ibv_start_poll() and ibv_end_poll() of the
 * same thread, which has it already. */
void dcq_lock(struct dcq *cq);
void dcq_unlock(struct dcq *cq);
/* Drops every CQE of object @uidx, unread ones too (RESET, destroy); SRQ slots go back. */
void dcq_purge(struct dcq *cq, uint32_t uidx);
