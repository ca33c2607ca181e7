// SPDX-License-Identifier: MIT
/* ibv_rereg_mr in every combination of its flags, and each way to refuse it: the code that it
 * returns and errno. Regions of a dma-buf, which a memfd stands for. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "verbs/cases.h"
#include "verbs/duo.h"

enum { TOGETHER, APART };
enum {
	T = IBV_REREG_MR_CHANGE_TRANSLATION,
	P = IBV_REREG_MR_CHANGE_PD,
	A = IBV_REREG_MR_CHANGE_ACCESS,
	INPUT = IBV_REREG_MR_ERR_INPUT,
	CMD = IBV_REREG_MR_ERR_CMD,
	ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	PAGE = 4096
};

static struct duo duo;

/* own[0]: the region, of the first page; own[1]: another PD */
static struct duo_answer far_make(struct side *s, const struct duo_order *o)
{
	struct ibv_mr *mr = ibv_reg_mr(s->dev.pd, s->mem, PAGE, ALL);

	(void)o;
	want(mr != NULL);
	s->own[0] = mr;
	s->own[1] = ibv_alloc_pd(s->dev.ctx);
	return (struct duo_answer){ .value = mr->rkey };
}

/* o->id: the flags. To the second page, another PD, reading only. */
static struct duo_answer far_rereg(struct side *s, const struct duo_order *o)
{
	struct ibv_mr *mr = s->own[0];
	struct ibv_pd *garbage = (struct ibv_pd *)0x6d37e7;
	uint32_t lkey = mr->lkey, rkey = mr->rkey;
	int f = (int)o->id;

	want_eq(ibv_rereg_mr(mr, f, f & P ? s->own[1] : garbage, f & T ? s->mem + PAGE : NULL,
			     f & T ? PAGE : 0, f & A ? IBV_ACCESS_REMOTE_READ : 0),
		0);
	want(mr->lkey == lkey && mr->rkey == rkey);
	want(mr->pd == (f & P ? s->own[1] : s->dev.pd));
	want(mr->addr == s->mem + (f & T ? PAGE : 0));
	return (struct duo_answer){ .found = true };
}

static struct duo_answer far_unmake(struct side *s, const struct duo_order *o)
{
	(void)o;
	want_eq(ibv_dereg_mr(s->own[0]), 0);
	want_eq(ibv_dealloc_pd(s->own[1]), 0);
	return (struct duo_answer){ .found = true };
}

static uint64_t far(duo_fn fn, uint64_t id)
{
	return duo_tell(&duo, (struct duo_order){ .op = DUO_DO, .fn = fn, .id = id }).value;
}

static bool allowed_at(enum ibv_wr_opcode op, uint32_t rkey, uint64_t addr)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr = duo_wr(&duo, op, &sg, 64);
	struct ibv_wc wc;

	wr.wr.rdma.rkey = rkey;
	wr.wr.rdma.remote_addr = addr;
	want_eq(duo_post(&duo, &wr), 0);
	wc = duo_wc(&duo);
	if (wc.status == IBV_WC_SUCCESS)
		return true;
	want_eq(wc.status, IBV_WC_REM_ACCESS_ERR);
	duo_reconnect(&duo);
	return false;
}

static bool allowed(enum ibv_wr_opcode op, uint32_t rkey, uint32_t off)
{
	return allowed_at(op, rkey, duo.near.ep.theirs.va + off);
}

static void every_combination(int where)
{
	struct duo_opts o = { .qp = { .type = IBV_QPT_RC },
			      .bytes = 4 * PAGE,
			      .together = where == TOGETHER };

	duo_open(&duo, &o);
	for (int f = 1; f < 8; f++) {
		uint32_t rkey = (uint32_t)far(far_make, 0);

		peer_note("flags %d", f);
		want(allowed(IBV_WR_RDMA_WRITE, rkey, 0));
		want(!allowed(IBV_WR_RDMA_WRITE, rkey, PAGE));
		far(far_rereg, (uint64_t)f);
		want(allowed(IBV_WR_RDMA_READ, rkey, f & T ? PAGE : 0) == !(f & P));
		want(!allowed(IBV_WR_RDMA_READ, rkey, f & T ? 0 : PAGE));
		want(allowed(IBV_WR_RDMA_WRITE, rkey, f & T ? PAGE : 0) == !(f & (P | A)));
		far(far_unmake, 0);
	}
	duo_close(&duo);
}

enum { NOT_AT_A_PAGE = 64 };

static struct duo_answer far_make_zero_based(struct side *s, const struct duo_order *o)
{
	struct ibv_mr *mr =
		ibv_reg_mr(s->dev.pd, s->mem + NOT_AT_A_PAGE, PAGE, ALL | IBV_ACCESS_ZERO_BASED);

	(void)o;
	want(mr != NULL);
	s->own[0] = mr;
	return (struct duo_answer){ .value = mr->rkey };
}

/* o->id: the access. */
static struct duo_answer far_access(struct side *s, const struct duo_order *o)
{
	want_eq(ibv_rereg_mr(s->own[0], A, NULL, NULL, 0, (int)o->id), 0);
	return (struct duo_answer){ .found = true };
}

static struct duo_answer far_end(struct side *s, const struct duo_order *o)
{
	(void)o;
	want_eq(ibv_dereg_mr(s->own[0]), 0);
	return (struct duo_answer){ .found = true };
}

/* IBV_ACCESS_ZERO_BASED comes and goes by a change of the access: as if registered anew. */
static void zero_based(int where)
{
	struct duo_opts o = { .qp = { .type = IBV_QPT_RC },
			      .bytes = 4 * PAGE,
			      .together = where == TOGETHER };
	uint32_t rkey;

	duo_open(&duo, &o);
	rkey = (uint32_t)far(far_make_zero_based, 0);
	for (int i = 0; i < 2; i++) {
		want(allowed_at(IBV_WR_RDMA_WRITE, rkey, 0));
		want(!allowed(IBV_WR_RDMA_WRITE, rkey, NOT_AT_A_PAGE));
		far(far_access, ALL);
		want(!allowed_at(IBV_WR_RDMA_WRITE, rkey, 0));
		want(allowed(IBV_WR_RDMA_WRITE, rkey, NOT_AT_A_PAGE));
		far(far_access, ALL | IBV_ACCESS_ZERO_BASED);
	}
	far(far_end, 0);
	duo_close(&duo);
}

/* The old region stands after each of them. */
static void every_refusal(int arg)
{
	uint8_t *p =
		mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const struct {
		int flags;
		void *addr;
		size_t len;
		int access, code, err;
	} refusals[] = {
		{ 8, NULL, 0, 0, INPUT, EINVAL },
		{ T | 8, p, PAGE, 0, INPUT, EINVAL },
		{ T, NULL, PAGE, 0, INPUT, EINVAL },
		{ T, p, 0, 0, INPUT, EINVAL },
		{ T, p, PAGE, ALL, INPUT, EINVAL },
		{ P, NULL, 0, ALL, INPUT, EINVAL },
		{ 0, NULL, 0, 0, CMD, EINVAL },
		{ A, NULL, 0, IBV_ACCESS_REMOTE_WRITE, CMD, EINVAL },
		{ A, NULL, 0, 1 << 10, CMD, EINVAL },
		{ T, p + 3 * PAGE, PAGE, 0, CMD, EFAULT },
		{ T | A, p + 2 * PAGE, PAGE, ALL, CMD, EFAULT },
		{ T, p, SIZE_MAX, 0, CMD, EINVAL },
		{ T | A, p, SIZE_MAX, ALL | IBV_ACCESS_ON_DEMAND, CMD, EINVAL },
	};
	struct ibv_context *other;
	struct peer_dev dev;
	struct ibv_pd *pd;
	struct ibv_mr *mr;

	(void)arg;
	want_eq(mprotect(p + 2 * PAGE, PAGE, PROT_READ), 0);
	want_eq(mprotect(p + 3 * PAGE, PAGE, PROT_NONE), 0);
	peer_open(&dev);
	mr = ibv_reg_mr(dev.pd, p, PAGE, ALL);
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		peer_note("refusal %zu", i);
		errno = 0;
		want_eq(ibv_rereg_mr(mr, refusals[i].flags, dev.pd, refusals[i].addr,
				     refusals[i].len, refusals[i].access),
			refusals[i].code);
		want_eq(errno, refusals[i].err);
		want(mr->addr == p && mr->length == PAGE && mr->pd == dev.pd);
	}
	other = ibv_open_device(dev.ctx->device);
	pd = ibv_alloc_pd(other);
	want_eq(ibv_rereg_mr(mr, P, pd, NULL, 0, 0), CMD);
	want_eq(errno, EINVAL);
	want_eq(ibv_dealloc_pd(pd), 0);
	want_eq(ibv_close_device(other), 0);
	/* to on-demand, and there to memory that is not mapped */
	want_eq(ibv_rereg_mr(mr, A, NULL, NULL, 0, ALL | IBV_ACCESS_ON_DEMAND), 0);
	want_eq(ibv_rereg_mr(mr, T, NULL, p + 3 * PAGE, PAGE, 0), 0);
	want_eq(ibv_rereg_mr(mr, T | A, NULL, p, PAGE, ALL), 0);
	want_eq(ibv_dereg_mr(mr), 0);
	peer_close(&dev);
}

/* --- dma-buf --- */

static int buffer(size_t n)
{
	int fd = memfd_create("buffer", MFD_CLOEXEC);
	uint8_t *p;

	want(fd >= 0 && !ftruncate(fd, (off_t)n));
	p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	pattern_fill(p, n, 2, 0);
	munmap(p, n);
	return fd;
}

static struct duo_answer far_dmabuf(struct side *s, const struct duo_order *o)
{
	int fd = buffer(4 * PAGE);
	struct ibv_mr *mr =
		ibv_reg_dmabuf_mr(s->dev.pd, PAGE + 16, 2 * PAGE, 0x7000000010, fd, ALL);

	(void)o;
	if (!mr)
		die("ibv_reg_dmabuf_mr");
	want_eq(mr->length, 2 * PAGE);
	want_eq(lseek(fd, 0, SEEK_CUR), 0); /* as it was */
	s->own[0] = mr;
	s->own[1] = (void *)(intptr_t)fd;
	return (struct duo_answer){ .value = mr->rkey };
}

static struct duo_answer far_dmabuf_end(struct side *s, const struct duo_order *o)
{
	int fd = (int)(intptr_t)s->own[1];
	uint8_t *p = mmap(NULL, 4 * PAGE, PROT_READ, MAP_SHARED, fd, 0);

	(void)o;
	want_eq(pattern_check(p, PAGE + 16, 2, 0), PAGE + 16);
	want_eq(pattern_check(p + PAGE + 16, 2 * PAGE, 3, 0), 2 * PAGE);
	want_eq(pattern_check(p + 3 * PAGE + 16, 64, 2, 3 * PAGE + 16), 64);
	want_eq(ibv_rereg_mr(s->own[0], A, NULL, NULL, 0, ALL), INPUT);
	want_eq(ibv_dereg_mr(s->own[0]), 0);
	munmap(p, 4 * PAGE);
	close(fd);
	return (struct duo_answer){ .found = true };
}

static void dmabuf(int where)
{
	struct duo_opts o = { .qp = { .type = IBV_QPT_RC },
			      .bytes = 4 * PAGE,
			      .together = where == TOGETHER };
	struct ibv_sge sg;
	struct ibv_send_wr wr;
	uint32_t rkey;

	duo_open(&duo, &o);
	rkey = (uint32_t)far(far_dmabuf, 0);
	wr = duo_wr(&duo, IBV_WR_RDMA_READ, &sg, 2 * PAGE);
	wr.wr.rdma.rkey = rkey;
	wr.wr.rdma.remote_addr = 0x7000000010;
	want_eq(duo_post(&duo, &wr), 0);
	want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	want_eq(pattern_check(duo.near.mem, 2 * PAGE, 2, PAGE + 16), 2 * PAGE);
	pattern_fill(duo.near.mem, 2 * PAGE, 3, 0);
	wr.opcode = IBV_WR_RDMA_WRITE;
	want_eq(duo_post(&duo, &wr), 0);
	want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	far(far_dmabuf_end, 0);
	duo_close(&duo);
}

static void dmabuf_errnos(int arg)
{
	int fd = buffer(2 * PAGE), ro, zero = open("/dev/zero", O_RDWR | O_CLOEXEC);
	char path[64];
	struct peer_dev dev;
	struct ibv_mr *mr;

	(void)arg;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ro = open(path, O_RDONLY | O_CLOEXEC);
	want(ro >= 0);
	peer_open(&dev);
	want_null(ibv_reg_dmabuf_mr(dev.pd, 0, PAGE, 0, -1, ALL), EBADF);
	want_null(ibv_reg_dmabuf_mr(dev.pd, 0, PAGE, 0, zero, ALL), EINVAL);
	want_null(ibv_reg_dmabuf_mr(dev.pd, 0, 0, 0, fd, ALL), EINVAL);
	want_null(ibv_reg_dmabuf_mr(dev.pd, 0, 2 * PAGE + 1, 0, fd, ALL), EINVAL);
	want_null(ibv_reg_dmabuf_mr(dev.pd, PAGE, PAGE + 1, 0, fd, ALL), EINVAL);
	want_null(ibv_reg_dmabuf_mr(dev.pd, UINT64_MAX, 2, UINT64_MAX, fd, ALL), EINVAL);
	want_null(ibv_reg_dmabuf_mr(dev.pd, 16, PAGE, 0, fd, ALL), EINVAL); /* iova's page offset */
	want_null(ibv_reg_dmabuf_mr(dev.pd, 0, PAGE, 0, fd, IBV_ACCESS_REMOTE_WRITE), EINVAL);
	want_null(ibv_reg_dmabuf_mr(dev.pd, 0, PAGE, 0, fd, ALL | IBV_ACCESS_ON_DEMAND), EINVAL);
	want_null(ibv_reg_dmabuf_mr(dev.pd, 0, PAGE, 0, fd, ALL | IBV_ACCESS_MW_BIND), EINVAL);
	want_null(ibv_reg_dmabuf_mr(dev.pd, 0, PAGE, 0, ro, ALL), EACCES);
	mr = ibv_reg_dmabuf_mr(dev.pd, 0, PAGE, 0, ro, IBV_ACCESS_REMOTE_READ);
	want(mr != NULL);
	want_eq(ibv_dereg_mr(mr), 0);
	peer_close(&dev);
}

#define BOTH(f)                                                                                    \
	{ #f " in one process", f, TOGETHER },                                                     \
	{                                                                                          \
#f " between two", f, APART                                                        \
	}

static const struct test_case cases[] = {
	BOTH(every_combination), BOTH(zero_based), CASE(every_refusal), BOTH(dmabuf),
	CASE(dmabuf_errnos),
};

int main(void)
{
	return CASES_RUN(cases);
}
