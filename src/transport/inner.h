// SPDX-License-Identifier: MIT
/* Work that the device gives the requester itself: its second input beside the SQ (M39). It goes
 * out before WQEs that have not been started, in order, in the same stream of PSNs; nothing of it
 * stands in the SQ. Used by tag matching's rendezvous: a READ and the FIN behind it. */
#pragma once
#include "transport/tqp.h"

enum { INNER_MAX = 256 }; /* entries; a power of two */

struct inner {
	uint8_t opcode; /* MLX5_OPCODE_RDMA_READ or _SEND */
	uint16_t slot; /* the tagged buffer's */
	uint32_t len, rkey; /* READ */
	uint64_t raddr;
	struct sge sge; /* where its bytes go */
	uint8_t data[16]; /* SEND: all of it */
};

struct inner_queue {
	uint32_t done, next, tail; /* retired; to be started; to be added */
	struct inner e[INNER_MAX];
};

static inline bool inner_waits(const struct tqp *q)
{
	const struct inner_queue *in = q->req.inner;

	return unlikely(in != NULL) && in->next != in->tail;
}

bool inner_room(struct tqp *q, unsigned int n); /* allots the queue at first use */
void inner_add(struct tqp *q, const struct inner *w);
/* Takes the next entry to be started: its number, for inner_wqe(). */
uint16_t inner_take(struct tqp *q);
/* Entry @number as a WQE; its SEND waits until the READs before it are answered. */
void inner_wqe(const struct tqp *q, uint16_t number, struct wqe *w);
/* The oldest started entry is done, well or with @error (a CQE with status, or NULL). EOVERFLOW:
 * the CQ that hears of it is full. */
int inner_retire(struct tqp *q, const struct cqe *error, uint64_t now);
/* What has not been started fails with @error too. */
void inner_flush(struct tqp *q, const struct cqe *error, uint64_t now);
