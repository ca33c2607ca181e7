// SPDX-License-Identifier: MIT
/* Inner work: the device's own work requests, the requester's second input beside the SQ
 * (docs/design/inner-work.md). They go out before WQEs that have not been started, in order, in the
 * same stream of PSNs. Tag matching's rendezvous uses them: a READ and the FIN behind it. */
#pragma once
#include "transport/tqp.h"

enum { INNER_MAX = 256 }; /* entries; a power of two */

struct inner {
	uint8_t opcode; /* MLX5_OPCODE_RDMA_READ or _SEND */
	uint16_t slot; /* the tagged buffer's index in its list */
	uint32_t len, rkey; /* READ */
	uint64_t raddr;
	struct sge sge; /* READ: where the bytes go */
	uint8_t data[16]; /* SEND: the payload */
};

struct inner_queue {
	uint32_t done, next, tail; /* numbers of the next entry to retire, to start, to add */
	struct inner e[INNER_MAX];
};

static inline bool inner_waits(const struct tqp *q)
{
	const struct inner_queue *in = q->req.inner;

	return unlikely(in != NULL) && in->next != in->tail;
}

/* Is there room for @n entries? Allocates the queue at first use. */
bool inner_room(struct tqp *q, unsigned int n);
void inner_add(struct tqp *q, const struct inner *w);
/* Takes the next entry to be started: its number, for inner_wqe(). */
uint16_t inner_take(struct tqp *q);
/* Entry @number as a WQE; its SEND waits until the READs before it are answered. */
void inner_wqe(const struct tqp *q, uint16_t number, struct wqe *w);
/* The oldest started entry is done: with success (@error NULL), or with the error CQE @error.
 * EOVERFLOW: the CQ of its completion is full. */
int inner_retire(struct tqp *q, const struct cqe *error, uint64_t now);
/* All entries fail with @error, those that have not been started too. */
void inner_flush(struct tqp *q, const struct cqe *error, uint64_t now);
