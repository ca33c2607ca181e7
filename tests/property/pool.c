// SPDX-License-Identifier: MIT
#include <errno.h>
#include <stdlib.h>
#include "property/side.h"
#include "verbs/peer.h"

void pool_open(struct process *pr, struct pool *pool, struct ibv_cq *cq)
{
	struct ibv_srq_init_attr_ex a = { .srq_context = pool,
					  .attr = { .max_wr = POOL, .max_sge = 1 },
					  .comp_mask =
						  IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
					  .srq_type = cq ? IBV_SRQT_XRC : IBV_SRQT_BASIC,
					  .pd = pr->pd,
					  .xrcd = pr->xrcd,
					  .cq = cq };
	size_t n = POOL * slot_bytes(pr->p);

	if (cq)
		a.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	pool->p = pr->p;
	pthread_mutex_init(&pool->lock, NULL);
	pool->mem = aligned_alloc(4096, (n + 4095) & ~(size_t)4095);
	pool->srq = ibv_create_srq_ex(pr->ctx, &a);
	pool->mr = ibv_reg_mr(pr->pd, pool->mem, n, IBV_ACCESS_LOCAL_WRITE);
	if (!pool->mem || !pool->srq || !pool->mr)
		die("an SRQ");
	pool_fill(pool);
}

void pool_close(struct pool *pool)
{
	if (ibv_destroy_srq(pool->srq) || ibv_dereg_mr(pool->mr))
		board_fail("an SRQ or its memory stays in use");
	free(pool->mem);
}

/* Under the lock. */
static void post(struct pool *pool, unsigned int slot)
{
	struct ibv_sge sg = { (uintptr_t)pool->mem + slot * slot_bytes(pool->p), pool->p->max_len,
			      pool->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = pool->id | slot, .sg_list = &sg, .num_sge = 1 }, *bad;
	int err;

	pool->busy[slot] = true;
	err = ibv_post_srq_recv(pool->srq, &wr, &bad);
	if (err)
		board_fail("ibv_post_srq_recv says %d while its work request %u is free", err,
			   slot);
}

void pool_fill(struct pool *pool)
{
	pthread_mutex_lock(&pool->lock);
	for (unsigned int i = 0; i < POOL; i++)
		if (!pool->busy[i])
			post(pool, i);
	pthread_mutex_unlock(&pool->lock);
}

static void set_limit(struct pool *pool, uint32_t n)
{
	struct ibv_srq_attr a = { .srq_limit = n };

	if (n)
		atomic_fetch_add(&pool->limits, 1);
	if (ibv_modify_srq(pool->srq, &a, IBV_SRQ_LIMIT) || ibv_query_srq(pool->srq, &a))
		board_fail("the SRQ's limit %u is refused", n);
	if (a.srq_limit && a.srq_limit != n)
		board_fail("the SRQ's limit is %u, not %u or none", a.srq_limit, n);
}

static void resize(struct pool *pool, uint32_t n)
{
	struct ibv_srq_attr a = { .max_wr = n };

	if (ibv_modify_srq(pool->srq, &a, IBV_SRQ_MAX_WR) || ibv_query_srq(pool->srq, &a))
		board_fail("resizing the SRQ to %u is refused", n);
	if (a.max_wr < n || a.max_sge < 1)
		board_fail("the SRQ has room for %u, not %u", a.max_wr, n);
}

static void refused(struct pool *pool)
{
	struct ibv_srq_attr many = { .max_wr = 1 << 30 }, high = { .srq_limit = 1 << 30 };
	struct ibv_sge sg[64] = { { 0, 0, 0 } };
	struct ibv_recv_wr wr = { .sg_list = sg, .num_sge = 64 }, *bad = NULL;

	if (ibv_modify_srq(pool->srq, &many, IBV_SRQ_MAX_WR) != EINVAL ||
	    ibv_modify_srq(pool->srq, &high, IBV_SRQ_LIMIT) != EINVAL)
		board_fail("an SRQ beyond the limits of the device");
	if (ibv_post_srq_recv(pool->srq, &wr, &bad) != EINVAL || bad != &wr)
		board_fail("a receive with 64 pieces");
}

void pool_change(struct pool *pool, uint64_t draw)
{
	uint32_t n = (uint32_t)(draw >> 4);

	switch (draw % 3) {
	case 0:
		set_limit(pool, n % POOL);
		break;
	case 1:
		resize(pool, POOL + n % (4 * POOL));
		break;
	default:
		refused(pool);
	}
}

void pool_free(struct pool *pool, unsigned int slot)
{
	pthread_mutex_lock(&pool->lock);
	pool->busy[slot] = false;
	pthread_mutex_unlock(&pool->lock);
}
