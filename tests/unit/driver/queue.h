// SPDX-License-Identifier: MIT
/* A queue pair of memory alone, and the device's side of the seam: doorbells that only count. */
#pragma once
#include <errno.h>
#include "driver/wqe_build.h"
#include "engine/doorbell.h"
#include "obs/explain.h"
#include "test.h"
#include "util/be.h"
#include "util/fork.h"

static struct {
	unsigned int sq, rq, srq, progress; /* calls */
} rung;

/* engine/doorbell.c's, which is not linked then. */
void doorbell_sq(struct tqp *q)
{
	(void)q;
	rung.sq++;
}

void doorbell_rq(struct tqp *q)
{
	(void)q;
	rung.rq++;
}

void doorbell_armed(void)
{
}

bool doorbell_srq(struct srq *srq)
{
	(void)srq;
	rung.srq++;
	return false;
}

void doorbell_uncork(void)
{
}

void progress(void)
{
	rung.progress++;
}

enum { BLOCKS_IN_RING = 8, RECEIVES = 4, RECEIVE_SGES = 2, GUARD = 64, INLINE_MAX = 300 };

struct queue {
	struct dqp *qp;
	struct tqp dev; /* what the driver may say of it: atomic writes */
	uint8_t *memory; /* a guard, the send ring, a guard */
	uint8_t receives[RECEIVES][RECEIVE_SGES * 16];
	uint64_t receive_ids[RECEIVES];
};

static inline void open_queue(struct queue *q, enum ibv_qp_type type)
{
	size_t ring = BLOCKS_IN_RING * WQE_BB;
	struct dqp *qp = aligned_alloc(64, sizeof(*qp));

	check_eq(fork_init(), 0);
	memset(qp, 0, sizeof(*qp));
	memset(q, 0, sizeof(*q));
	memset(&rung, 0, sizeof(rung));
	q->memory = aligned_alloc(64, ring + 2 * GUARD);
	memset(q->memory, 0xee, ring + 2 * GUARD);
	qp->dev = &q->dev;
	qp->dbrec = qp->record;
	qp->epoch = fork_epoch();
	qp->service = service_find(type);
	qp->ib.qp_base.qp_type = type;
	qp->ib.qp_base.state = IBV_QPS_RTS;
	qp->ib.qp_base.qp_num = 0x123456;
	qp->max_inline = qp->any_inline = INLINE_MAX;
	qp->max_send_sge = 4;
	qp->sq.buf = q->memory + GUARD;
	qp->sq.cnt = BLOCKS_IN_RING;
	qp->sq.max_wr = 4;
	qp->sq.slot = calloc(BLOCKS_IN_RING, sizeof(*qp->sq.slot));
	qp->rq = (struct dqp_rq){ .buf = q->receives[0],
				  .cnt = RECEIVES,
				  .stride = sizeof(q->receives[0]),
				  .max_wr = RECEIVES,
				  .max_sge = RECEIVE_SGES,
				  .wr_id = q->receive_ids };
	spin_init(&qp->sq.lock);
	spin_init(&qp->rq.lock);
	q->qp = qp;
}

/* Nothing was written beside the ring. */
static inline void close_queue(struct queue *q)
{
	static uint8_t guard[GUARD];

	memset(guard, 0xee, GUARD);
	check_mem(q->memory, guard, GUARD);
	check_mem(q->qp->sq.buf + BLOCKS_IN_RING * WQE_BB, guard, GUARD);
	free(q->qp->sq.slot);
	free(q->qp);
	free(q->memory);
}

/* The next send begins at block @pi; all before it are completed. */
static inline void start_at(struct queue *q, uint32_t pi)
{
	q->qp->sq.pi = pi;
	q->qp->sq.head = q->qp->sq.tail = 0;
}

/* @n bytes of the send ring from block @pi on, across its end. */
static inline void read_ring(const struct queue *q, uint32_t pi, uint8_t *to, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = q->qp->sq.buf[(pi * WQE_BB + i) % (BLOCKS_IN_RING * WQE_BB)];
}

/* Posted blocks, as the device reads them. */
static inline uint32_t sq_record(const struct queue *q)
{
	return be32toh(q->qp->dbrec[MLX5_SND_DBR]);
}

/* The reason of the last refusal has @word in it. */
static inline void check_reason(const char *word)
{
	char text[EXPLAIN_TEXT];

	check_eq(explain_last(text, sizeof(text)), 0);
	if (!strstr(text, word))
		fail_msg("'%s' is not in '%s'", word, text);
}
