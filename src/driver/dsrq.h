// SPDX-License-Identifier: MIT
/* Shared receive queue, the driver's half: ring memory, free list, wr_ids. Slots return when their
 * completion is polled (M38).
 * Locking: @lock guards the ring, the free list and the wr_ids; the device's leaf lock is taken
 * under it when the ring is switched. */
#pragma once
#include "driver/objects.h"
#include "hca/srq.h"

struct dsrq_tags;

struct dsrq {
	struct ibv_srq ib; /* first */
	struct srq *dev;
	uint32_t epoch;
	uint32_t uidx;
	struct spin lock;
	uint8_t *buf;
	uint32_t cnt, stride;
	uint32_t max_wr, max_sge;
	uint32_t head, tail; /* slots: next to post, last of the free list */
	uint32_t used; /* posted and not polled yet */
	uint16_t posted; /* count, as in the doorbell record */
	uint64_t *wr_id;
	struct dsrq_tags *tags; /* of a tag-matching one; NULL (dsrq_tags.h) */
	struct ibv_cq *cq; /* its completions' CQ; NULL */
	uint32_t async_delivered; /* events handed to the program; driver/events.c */
	uint32_t dbrec[2] __attribute__((aligned(64)));
};

static inline struct dsrq *to_dsrq(struct ibv_srq *ib)
{
	return (struct dsrq *)ib;
}

/* Of the basic type, with IBV_SRQ_INIT_ATTR_TM of the tag-matching one, with
 * IBV_SRQ_INIT_ATTR_XRCD of an XRC domain; updates attr. */
int dsrq_create(struct pd *pd, struct ibv_srq_init_attr_ex *attr, struct dsrq **out);
int dsrq_destroy(struct dsrq *srq);
int dsrq_modify(struct dsrq *srq, const struct ibv_srq_attr *attr, int mask);
int dsrq_query(struct dsrq *srq, struct ibv_srq_attr *attr);
int dsrq_post_recv(struct ibv_srq *ib, struct ibv_recv_wr *wr,
		   struct ibv_recv_wr **bad); /* ops entry */
uint64_t dsrq_complete(struct dsrq *srq, uint16_t idx); /* gives the slot back, returns its wr_id */
