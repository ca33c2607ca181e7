// SPDX-License-Identifier: MIT
/* Device memory: its size, alignment, ranges and errnos; and RDMA to it, in this process and from
 * another. The memory is the far side's. */
#include <errno.h>
#include <string.h>
#include "verbs/cases.h"
#include "verbs/duo.h"

enum { TOGETHER, APART };
enum {
	REGION = IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE,
	REMOTE = REGION | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		 IBV_ACCESS_REMOTE_ATOMIC,
	BYTES = 256 << 10,
	OFF = 4096
};

static struct duo duo;

static struct ibv_dm *alloc(struct ibv_context *ctx, size_t len)
{
	struct ibv_alloc_dm_attr a = { .length = len };

	return ibv_alloc_dm(ctx, &a);
}

static struct duo_answer far_alloc(struct side *s, const struct duo_order *o)
{
	static uint8_t bytes[BYTES];
	struct ibv_dm *dm = alloc(s->dev.ctx, BYTES);
	struct ibv_mr *mr;

	(void)o;
	want(dm != NULL);
	pattern_fill(bytes, BYTES, 3, 0);
	want_eq(ibv_memcpy_to_dm(dm, 0, bytes, BYTES), 0);
	mr = ibv_reg_dm_mr(s->dev.pd, dm, OFF, BYTES - OFF, REMOTE);
	want(mr != NULL);
	want(!mr->addr);
	want_eq(mr->length, BYTES - OFF);
	s->own[0] = dm;
	s->own[1] = mr;
	return (struct duo_answer){ .value = mr->rkey };
}

/* Is the pattern o->id at o->off of the device memory? */
static struct duo_answer far_look(struct side *s, const struct duo_order *o)
{
	static uint8_t bytes[BYTES];

	want_eq(ibv_memcpy_from_dm(bytes, s->own[0], o->off, o->len), 0);
	return (struct duo_answer){ .found =
					    pattern_check(bytes, o->len, o->id, o->off) == o->len };
}

static struct duo_answer far_free(struct side *s, const struct duo_order *o)
{
	(void)o;
	want_errno(ibv_free_dm(s->own[0]), EBUSY);
	want_eq(ibv_dereg_mr(s->own[1]), 0);
	want_eq(ibv_free_dm(s->own[0]), 0);
	return (struct duo_answer){ .found = true };
}

static enum ibv_wc_status access_by(enum ibv_wr_opcode op, uint32_t rkey, uint64_t va, uint32_t len)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr = duo_wr(&duo, op, &sg, len);

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.remote_addr = va;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.rkey = rkey;
		wr.wr.rdma.remote_addr = va;
	}
	want_eq(duo_post(&duo, &wr), 0);
	return duo_wc(&duo).status;
}

static void remote_access(int where)
{
	struct duo_opts o = { .qp = { .type = IBV_QPT_RC },
			      .bytes = BYTES,
			      .together = where == TOGETHER };
	const uint32_t len = BYTES - OFF;
	uint64_t before, after;
	uint32_t rkey;

	duo_open(&duo, &o);
	rkey = (uint32_t)duo_do(&duo, far_alloc, 0, 0, 0).value;
	/* twice: what follows an exchange may go another way */
	for (int i = 0; i < 2; i++) {
		memset(duo.near.mem, 0, len);
		want_eq(access_by(IBV_WR_RDMA_READ, rkey, 0, len), IBV_WC_SUCCESS);
		want_eq(pattern_check(duo.near.mem, len, 3, OFF), len);
	}
	pattern_fill(duo.near.mem, 8000, 4, OFF + 100);
	want_eq(access_by(IBV_WR_RDMA_WRITE, rkey, 100, 8000), IBV_WC_SUCCESS);
	want(duo_do(&duo, far_look, OFF + 100, 8000, 4).found);
	want(duo_do(&duo, far_look, 0, OFF + 100, 3).found);
	want(duo_do(&duo, far_look, OFF + 8100, 4096, 3).found);
	want_eq(access_by(IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, 8, 8), IBV_WC_SUCCESS);
	memcpy(&before, duo.near.mem, 8);
	want_eq(access_by(IBV_WR_RDMA_READ, rkey, 8, 8), IBV_WC_SUCCESS);
	memcpy(&after, duo.near.mem, 8);
	want(after == before + 1);
	/* its end is the region's end */
	want_eq(access_by(IBV_WR_RDMA_WRITE, rkey, len - 8, 8), IBV_WC_SUCCESS);
	want_eq(access_by(IBV_WR_RDMA_WRITE, rkey, len - 7, 8), IBV_WC_REM_ACCESS_ERR);
	duo_do(&duo, far_free, 0, 0, 0);
	duo_reconnect(&duo);
	want_eq(access_by(IBV_WR_RDMA_READ, rkey, 0, 8), IBV_WC_REM_ACCESS_ERR);
	duo_close(&duo);
}

/* As the SGE of a send and of a receive. */
static void local_use(int where)
{
	struct duo_opts o = { .qp = { .type = IBV_QPT_RC }, .together = where == TOGETHER };
	struct ibv_sge sg;
	struct ibv_send_wr wr;
	static uint8_t bytes[8192];
	struct ibv_dm *dm;
	struct ibv_mr *mr;

	duo_open(&duo, &o);
	dm = alloc(duo.near.dev.ctx, sizeof(bytes));
	want(dm != NULL);
	mr = ibv_reg_dm_mr(duo.near.dev.pd, dm, 0, sizeof(bytes), REGION);
	want(mr != NULL);
	pattern_fill(bytes, sizeof(bytes), 7, 0);
	want_eq(ibv_memcpy_to_dm(dm, 0, bytes, sizeof(bytes)), 0);
	wr = duo_wr(&duo, IBV_WR_RDMA_WRITE, &sg, sizeof(bytes));
	sg = (struct ibv_sge){ 0, sizeof(bytes), mr->lkey };
	want_eq(duo_post(&duo, &wr), 0);
	want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	want(duo_tell(&duo, (struct duo_order){ DUO_CHECK, .len = sizeof(bytes), .id = 7 }).found);
	/* and back to its second half */
	wr.opcode = IBV_WR_RDMA_READ;
	sg = (struct ibv_sge){ 4096, 4096, mr->lkey };
	want_eq(duo_post(&duo, &wr), 0);
	want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	want_eq(ibv_memcpy_from_dm(bytes, dm, 4096, 4096), 0);
	want_eq(pattern_check(bytes, 4096, 7, 0), 4096);
	want_eq(ibv_dereg_mr(mr), 0);
	want_eq(ibv_free_dm(dm), 0);
	duo_close(&duo);
}

static void copy_errnos(int arg)
{
	struct peer_dev dev;
	uint8_t bytes[128] = { 1 };
	struct ibv_dm *dm;

	(void)arg;
	peer_open(&dev);
	dm = alloc(dev.ctx, 100);
	want(dm != NULL);
	want(dm->context == dev.ctx);
	want_eq(ibv_memcpy_to_dm(dm, 0, bytes, 100), 0);
	want_eq(ibv_memcpy_to_dm(dm, 100, bytes, 0), 0);
	want_eq(ibv_memcpy_to_dm(dm, 96, bytes, 4), 0);
	want_eq(ibv_memcpy_to_dm(dm, 96, bytes, 8), EFAULT);
	want_eq(ibv_memcpy_to_dm(dm, 104, bytes, 4), EFAULT);
	want_eq(ibv_memcpy_to_dm(dm, UINT64_MAX - 3, bytes, 8), EFAULT);
	want_eq(ibv_memcpy_to_dm(dm, 2, bytes, 4), EINVAL);
	want_eq(ibv_memcpy_to_dm(dm, 4, bytes, 6), EINVAL);
	want_eq(ibv_memcpy_from_dm(bytes, dm, 0, 100), 0);
	want_eq(ibv_memcpy_from_dm(bytes, dm, 4, 100), EFAULT);
	want_eq(ibv_memcpy_from_dm(bytes, dm, 1, 4), EINVAL);
	want_eq(ibv_free_dm(dm), 0);
	peer_close(&dev);
}

static uint64_t max_size(struct ibv_context *ctx)
{
	struct ibv_device_attr_ex a;

	want_eq(ibv_query_device_ex(ctx, NULL, &a), 0);
	return a.max_dm_size;
}

static void alloc_errnos(int arg)
{
	struct ibv_alloc_dm_attr a = { .length = 64, .comp_mask = 1 };
	struct ibv_dm *dm, *more;
	struct peer_dev dev;
	uint64_t max;

	(void)arg;
	peer_open(&dev);
	max = max_size(dev.ctx);
	want(max >= 1 << 20);
	want_null(ibv_alloc_dm(dev.ctx, &a), EINVAL);
	want_null(alloc(dev.ctx, 0), EINVAL);
	want_null(alloc(dev.ctx, max + 1), EINVAL);
	a = (struct ibv_alloc_dm_attr){ .length = 64, .log_align_req = 40 };
	want_null(ibv_alloc_dm(dev.ctx, &a), EINVAL);
	/* all of it, not a byte more, and again */
	for (int i = 0; i < 3; i++) {
		dm = alloc(dev.ctx, max);
		want(dm != NULL);
		want_null(alloc(dev.ctx, 1), ENOMEM);
		want_eq(ibv_free_dm(dm), 0);
	}
	for (unsigned int log = 0; log <= 21; log += 3) {
		a = (struct ibv_alloc_dm_attr){ .length = 64, .log_align_req = log };
		dm = ibv_alloc_dm(dev.ctx, &a);
		want(dm != NULL);
		more = alloc(dev.ctx, 4);
		want(more != NULL && more->handle != dm->handle);
		want_eq(ibv_free_dm(more), 0);
		want_eq(ibv_free_dm(dm), 0);
	}
	peer_close(&dev);
}

static void registration_errnos(int arg)
{
	struct ibv_context *other;
	struct ibv_mr *mr, *rest;
	struct peer_dev dev;
	struct ibv_dm *dm;
	struct ibv_pd *pd;

	(void)arg;
	peer_open(&dev);
	other = ibv_open_device(dev.ctx->device);
	pd = ibv_alloc_pd(other);
	dm = alloc(dev.ctx, 4096);
	want(dm != NULL && pd != NULL);
	want_null(ibv_reg_dm_mr(dev.pd, dm, 0, 4096, IBV_ACCESS_LOCAL_WRITE), EINVAL);
	want_null(ibv_reg_dm_mr(dev.pd, dm, 0, 4100, REGION), EINVAL);
	want_null(ibv_reg_dm_mr(dev.pd, dm, 4096, 4, REGION), EINVAL);
	want_null(ibv_reg_dm_mr(dev.pd, dm, UINT64_MAX, 4, REGION), EINVAL);
	want_null(ibv_reg_dm_mr(dev.pd, dm, 0, 4, REGION | IBV_ACCESS_ON_DEMAND), EINVAL);
	want_null(ibv_reg_dm_mr(dev.pd, dm, 0, 4, REGION | IBV_ACCESS_MW_BIND), EINVAL);
	want_null(ibv_reg_dm_mr(dev.pd, dm, 0, 4, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_REMOTE_WRITE),
		  EINVAL);
	want_null(ibv_reg_dm_mr(pd, dm, 0, 4, REGION), EINVAL);
	mr = ibv_reg_dm_mr(dev.pd, dm, 0, 0, REGION);
	want(mr != NULL); /* of nothing */
	rest = ibv_reg_dm_mr(dev.pd, dm, 4, 4092, REGION | IBV_ACCESS_RELAXED_ORDERING);
	want(rest != NULL);
	want_errno(ibv_free_dm(dm), EBUSY);
	want_eq(ibv_rereg_mr(rest, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, REGION),
		IBV_REREG_MR_ERR_INPUT);
	want_eq(ibv_dereg_mr(rest), 0);
	want_errno(ibv_free_dm(dm), EBUSY);
	want_eq(ibv_dereg_mr(mr), 0);
	want_eq(ibv_free_dm(dm), 0);
	want_eq(ibv_dealloc_pd(pd), 0);
	want_eq(ibv_close_device(other), 0);
	peer_close(&dev);
}

#define BOTH(f)                                                                                    \
	{ #f " in one process", f, TOGETHER },                                                     \
	{                                                                                          \
#f " between two", f, APART                                                        \
	}

static const struct test_case cases[] = {
	BOTH(remote_access), BOTH(local_use),		CASE(copy_errnos),
	CASE(alloc_errnos),  CASE(registration_errnos),
};

int main(void)
{
	return CASES_RUN(cases);
}
