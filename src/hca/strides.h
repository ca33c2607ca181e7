// SPDX-License-Identifier: MIT
/* The receive WQEs of a striding work queue (mlx5dv_create_wq(3)). Such a WQE is a buffer of 2^n
 * strides, and takes many frames: each frame gets the next whole strides. A frame that does not fit
 * in those that are left goes to the next WQE, and these are passed over. They are passed over even
 * if no other WQE is posted, so that the program gets the WQE back, and can post it again. A WQE
 * begins with the next segment of an SRQ's, which says nothing, since the ring goes round.
 * Pure but for the ring. Locking: the work queue's. */
#pragma once
#include "hca/srq.h"

struct stride_form {
	uint8_t size_log; /* bytes of a stride, log2; 0: a WQE takes one frame */
	uint8_t count_log; /* strides of a WQE, log2 */
	bool shift; /* two zero bytes stand in front of each frame */
};

struct strides {
	struct stride_form form;
	struct rwqe wqe; /* the one in hand, or the last one */
	uint32_t used; /* its strides that are taken or passed over; all: none is in hand */
};

struct stride_run {
	uint32_t first, n; /* strides of the WQE in hand */
};

enum strides_found {
	STRIDES_FRAME, /* the run takes the frame */
	STRIDES_REST, /* the run is passed over, and no WQE is in hand: look again */
	STRIDES_NONE, /* no WQE is posted */
	STRIDES_LONG, /* no WQE has so many strides; the one that was in hand is done */
};

void strides_init(struct strides *s, const struct stride_form *form);
/* Room for @len bytes, those of the shift included. A WQE is done with its last stride. */
enum strides_found strides_take(struct strides *s, struct rq *rq, uint32_t len,
				struct stride_run *out);
/* True: a WQE was in hand; it is given up. */
bool strides_end(struct strides *s);

static inline uint64_t strides_at(const struct strides *s, uint32_t stride) /* in bytes */
{
	return (uint64_t)stride << s->form.size_log;
}
