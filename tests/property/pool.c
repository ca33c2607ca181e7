// SPDX-License-Identifier: MIT
#include <stdlib.h>
#include "property/side.h"
#include "verbs/peer.h"

enum { POOLED = 2 };

void pool_open(struct process *pr)
{
	struct ibv_srq_init_attr a = { .attr = { .max_wr = POOL, .max_sge = 1 } };
	struct pool *pool = &pr->pool;
	size_t n = POOL * slot_bytes(pr->p);

	pthread_mutex_init(&pool->lock, NULL);
	pool->mem = aligned_alloc(4096, (n + 4095) & ~(size_t)4095);
	pool->srq = ibv_create_srq(pr->pd, &a);
	pool->mr = ibv_reg_mr(pr->pd, pool->mem, n, IBV_ACCESS_LOCAL_WRITE);
	if (!pool->mem || !pool->srq || !pool->mr)
		die("an SRQ");
	pool_fill(pr);
}

void pool_close(struct process *pr)
{
	struct pool *pool = &pr->pool;

	if (ibv_destroy_srq(pool->srq) || ibv_dereg_mr(pool->mr))
		board_fail("process %u: the SRQ or its memory stays in use", pr->number);
	free(pool->mem);
}

/* Under the lock. */
static void post(struct process *pr, unsigned int slot)
{
	struct pool *pool = &pr->pool;
	struct ibv_sge sg = { (uintptr_t)pool->mem + slot * slot_bytes(pr->p), 0, pool->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = (uint64_t)POOLED << 56 | slot,
				  .sg_list = &sg,
				  .num_sge = 1 },
			   *bad;
	int err;

	sg.length = pr->p->max_len;
	pool->busy[slot] = true;
	err = ibv_post_srq_recv(pool->srq, &wr, &bad);
	if (err)
		board_fail("process %u: ibv_post_srq_recv says %d while its work request %u is "
			   "free",
			   pr->number, err, slot);
}

void pool_fill(struct process *pr)
{
	struct pool *pool = &pr->pool;

	pthread_mutex_lock(&pool->lock);
	for (unsigned int i = 0; i < POOL; i++)
		if (!pool->busy[i])
			post(pr, i);
	pthread_mutex_unlock(&pool->lock);
}

void pool_free(struct process *pr, unsigned int slot)
{
	pthread_mutex_lock(&pr->pool.lock);
	pr->pool.busy[slot] = false;
	pthread_mutex_unlock(&pr->pool.lock);
}
