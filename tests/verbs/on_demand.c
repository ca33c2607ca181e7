// SPDX-License-Identifier: MIT
/* On-demand regions, explicit and implicit, advice, flags that only hint; zero based regions; null
 * regions. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include "verbs/cases.h"
#include "verbs/duo.h"

enum { TOGETHER, APART };
enum {
	ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
	      IBV_ACCESS_REMOTE_ATOMIC,
	ODP = ALL | IBV_ACCESS_ON_DEMAND,
	PAGE = 4096,
	PAGES = 64
};

static struct duo duo;

static void begin(int where)
{
	struct duo_opts o = { .qp = { .type = IBV_QPT_RC },
			      .bytes = 4 << 20,
			      .together = where == TOGETHER };

	duo_open(&duo, &o);
}

/* o->id: the access; registers pages that are mapped only afterwards. */
static struct duo_answer far_late(struct side *s, const struct duo_order *o)
{
	uint8_t *p = mmap(NULL, PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool implicit = o->len == 0;
	struct ibv_mr *mr = implicit ? ibv_reg_mr(s->dev.pd, NULL, SIZE_MAX, (int)o->id)
				     : ibv_reg_mr(s->dev.pd, p, PAGES * PAGE, (int)o->id);

	if (!mr)
		die("ibv_reg_mr");
	want_eq(mr->length, implicit ? SIZE_MAX : PAGES * PAGE);
	want_eq(mprotect(p, PAGES * PAGE, PROT_READ | PROT_WRITE), 0);
	pattern_fill(p, PAGES * PAGE, 3, 0);
	s->own[0] = mr;
	s->own[1] = p;
	s->ep.mine.va = (uintptr_t)p;
	return (struct duo_answer){ .found = true, .value = mr->rkey };
}

static struct duo_answer far_where(struct side *s, const struct duo_order *o)
{
	(void)o;
	return (struct duo_answer){ .value = (uintptr_t)s->own[1] };
}

static struct duo_answer far_look(struct side *s, const struct duo_order *o)
{
	return (struct duo_answer){ .found = pattern_check((uint8_t *)s->own[1] + o->off, o->len,
							   o->id, o->off) == o->len };
}

/* The memory goes, the region stays. */
static struct duo_answer far_unmap(struct side *s, const struct duo_order *o)
{
	(void)o;
	peer_unmap(s->own[1], PAGES * PAGE);
	return (struct duo_answer){ .found = true };
}

static struct duo_answer far_dereg(struct side *s, const struct duo_order *o)
{
	(void)o;
	want_eq(ibv_dereg_mr(s->own[0]), 0);
	return (struct duo_answer){ .found = true };
}

static enum ibv_wc_status access_by(enum ibv_wr_opcode op, uint32_t rkey, uint64_t va, uint32_t len)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr = duo_wr(&duo, op, &sg, len);

	wr.wr.rdma.rkey = rkey;
	wr.wr.rdma.remote_addr = va;
	want_eq(duo_post(&duo, &wr), 0);
	return duo_wc(&duo).status;
}

static void remote_access(int where, bool implicit)
{
	const uint32_t len = PAGES * PAGE;
	uint32_t rkey;
	uint64_t va;

	begin(where);
	rkey = (uint32_t)duo_do(&duo, far_late, 0, implicit ? 0 : len, ODP).value;
	va = duo_do(&duo, far_where, 0, 0, 0).value;
	for (int i = 0; i < 2; i++) {
		memset(duo.near.mem, 0, len);
		want_eq(access_by(IBV_WR_RDMA_READ, rkey, va, len), IBV_WC_SUCCESS);
		want_eq(pattern_check(duo.near.mem, len, 3, 0), len);
	}
	pattern_fill(duo.near.mem, len, 4, 0);
	want_eq(access_by(IBV_WR_RDMA_WRITE, rkey, va, len), IBV_WC_SUCCESS);
	want(duo_do(&duo, far_look, 0, len, 4).found);
	if (!implicit) {
		want_eq(access_by(IBV_WR_RDMA_WRITE, rkey, va + len - 7, 8), IBV_WC_REM_ACCESS_ERR);
		duo_reconnect(&duo);
	}
	duo_do(&duo, far_unmap, 0, 0, 0);
	want_eq(access_by(IBV_WR_RDMA_WRITE, rkey, va, 8), IBV_WC_REM_OP_ERR);
	duo_reconnect(&duo);
	if (implicit) { /* an address that no process has */
		want_eq(access_by(IBV_WR_RDMA_WRITE, rkey, 0x8000000000001000, 8),
			IBV_WC_REM_OP_ERR);
		duo_reconnect(&duo);
	}
	duo_do(&duo, far_dereg, 0, 0, 0);
	want_eq(access_by(IBV_WR_RDMA_READ, rkey, va, 8), IBV_WC_REM_ACCESS_ERR);
	duo_close(&duo);
}

static void explicit_region(int where)
{
	remote_access(where, false);
}

static void implicit_region(int where)
{
	remote_access(where, true);
}

/* One key for every local buffer. */
static void implicit_lkey(int where)
{
	uint8_t *buf = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_sge sg;
	struct ibv_send_wr wr;
	struct ibv_mr *mr;

	begin(where);
	mr = ibv_reg_mr(duo.near.dev.pd, NULL, SIZE_MAX,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
	want(mr != NULL);
	pattern_fill(buf, PAGE, 8, 0);
	wr = duo_wr(&duo, IBV_WR_RDMA_WRITE, &sg, PAGE);
	sg = (struct ibv_sge){ (uintptr_t)buf, PAGE, mr->lkey };
	want_eq(duo_post(&duo, &wr), 0);
	want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	want(duo_tell(&duo, (struct duo_order){ DUO_CHECK, .len = PAGE, .id = 8 }).found);
	memset(buf, 0, PAGE);
	wr.opcode = IBV_WR_RDMA_READ;
	want_eq(duo_post(&duo, &wr), 0);
	want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	want_eq(pattern_check(buf, PAGE, 8, 0), PAGE);
	want_eq(ibv_dereg_mr(mr), 0);
	duo_close(&duo);
}

/* o->id != 0: of a buffer that does not begin at a page */
static struct duo_answer far_zero_based(struct side *s, const struct duo_order *o)
{
	struct ibv_mr *mr =
		ibv_reg_mr(s->dev.pd, s->mem + o->off, 8192, ALL | IBV_ACCESS_ZERO_BASED);

	if (!mr)
		die("ibv_reg_mr");
	want(mr->addr == s->mem + o->off);
	s->own[0] = mr;
	return (struct duo_answer){ .value = mr->rkey };
}

static void zero_based(int where)
{
	uint32_t rkey;

	begin(where);
	rkey = (uint32_t)duo_do(&duo, far_zero_based, 100, 0, 0).value;
	pattern_fill(duo.near.mem, 8192, 6, 100);
	for (int i = 0; i < 2; i++)
		want_eq(access_by(IBV_WR_RDMA_WRITE, rkey, 0, 8192), IBV_WC_SUCCESS);
	want(duo_tell(&duo, (struct duo_order){ DUO_CHECK, .off = 100, .len = 8192, .id = 6 })
		     .found);
	want_eq(access_by(IBV_WR_RDMA_WRITE, rkey, 1, 8192), IBV_WC_REM_ACCESS_ERR);
	duo_reconnect(&duo);
	duo_do(&duo, far_dereg, 0, 0, 0);
	duo_close(&duo);
}

static void registration_errnos(int arg)
{
	uint8_t *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_device_attr_ex a;
	struct peer_dev dev;
	struct ibv_mr *mr;

	(void)arg;
	peer_open(&dev);
	want_eq(ibv_query_device_ex(dev.ctx, NULL, &a), 0);
	want_eq(a.odp_caps.general_caps, IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT);
	want_eq(a.odp_caps.per_transport_caps.rc_odp_caps,
		IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE |
			IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC | IBV_ODP_SUPPORT_SRQ_RECV);
	/* what is there need not be; what is named must be right */
	mr = ibv_reg_mr(dev.pd, (void *)0x100000, PAGE, ODP);
	want(mr != NULL);
	want_eq(ibv_dereg_mr(mr), 0);
	want_null(ibv_reg_mr(dev.pd, p, 0, ODP), EINVAL);
	want_null(ibv_reg_mr(dev.pd, p, PAGE, IBV_ACCESS_ON_DEMAND | IBV_ACCESS_REMOTE_WRITE),
		  EINVAL);
	want_null(ibv_reg_mr(dev.pd, p, PAGE, ODP | IBV_ACCESS_HUGETLB), EINVAL);
	want_null(ibv_reg_mr(dev.pd, NULL, SIZE_MAX, ODP | IBV_ACCESS_HUGETLB), EINVAL);
	want_null(ibv_reg_mr(dev.pd, NULL, SIZE_MAX, ALL), EINVAL); /* not on-demand */
	want_null(ibv_reg_mr_iova(dev.pd, NULL, SIZE_MAX, PAGE, ODP), EINVAL);
	mr = ibv_reg_mr(dev.pd, p, PAGE, ALL | IBV_ACCESS_HUGETLB | IBV_ACCESS_RELAXED_ORDERING);
	want(mr != NULL); /* without ON_DEMAND a hint */
	want_eq(ibv_dereg_mr(mr), 0);
	peer_close(&dev);
}

static int advise(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		  const struct ibv_mr *mr, void *p, uint32_t len)
{
	struct ibv_sge sg = { (uintptr_t)p, len, mr->lkey };

	return ibv_advise_mr(pd, advice, flags, &sg, 1);
}

#define READ	 IBV_ADVISE_MR_ADVICE_PREFETCH
#define WRITE	 IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE
#define NO_FAULT IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT
#define FLUSH	 IBV_ADVISE_MR_FLAG_FLUSH

static unsigned int resident(uint8_t *p, unsigned int pages)
{
	unsigned char there[PAGES];
	unsigned int n = 0;

	want_eq(mincore(p, pages * PAGE, there), 0);
	for (unsigned int i = 0; i < pages; i++)
		n += there[i] & 1;
	return n;
}

static void advice(int arg)
{
	uint8_t *p = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);
	struct peer_dev dev;
	struct ibv_mr *mr;

	(void)arg;
	madvise(p, PAGES * PAGE, MADV_NOHUGEPAGE);
	peer_open(&dev);
	mr = ibv_reg_mr(dev.pd, p, PAGES * PAGE, ODP);
	want(mr != NULL);
	want_eq(resident(p, PAGES), 0);
	want_eq(advise(dev.pd, NO_FAULT, FLUSH, mr, p, PAGES * PAGE), 0);
	want_eq(resident(p, PAGES), 0);
	want_eq(advise(dev.pd, WRITE, FLUSH, mr, p + PAGE, 3 * PAGE), 0);
	want_eq(resident(p, PAGES), 3);
	want_eq(advise(dev.pd, READ, FLUSH, mr, p + 8 * PAGE + 100, 10), 0);
	want_eq(resident(p + 8 * PAGE, 1), 1);
	want_eq(advise(dev.pd, WRITE, 0, mr, p, PAGES * PAGE), 0);
	want_eq(ibv_dereg_mr(mr), 0);
	/* an implicit region takes advice for any memory */
	mr = ibv_reg_mr(dev.pd, NULL, SIZE_MAX, ODP);
	want_eq(advise(dev.pd, WRITE, FLUSH, mr, p, PAGE), 0);
	want_eq(ibv_dereg_mr(mr), 0);
	peer_close(&dev);
}

static void advice_errnos(int arg)
{
	uint8_t *p =
		mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr, *plain, *reads, none = { .lkey = PEER_NO_KEY };
	struct ibv_sge two[2];
	struct peer_dev dev;
	struct ibv_pd *pd;
	struct ibv_mw *mw;

	(void)arg;
	peer_open(&dev);
	pd = ibv_alloc_pd(dev.ctx);
	mr = ibv_reg_mr(dev.pd, p, 4 * PAGE, ODP);
	plain = ibv_reg_mr(dev.pd, p, PAGE, ALL);
	reads = ibv_reg_mr(dev.pd, p, PAGE, IBV_ACCESS_ON_DEMAND);
	mw = ibv_alloc_mw(dev.pd, IBV_MW_TYPE_1);
	want(pd && mr && plain && reads && mw);
	want_eq(advise(dev.pd, 3, 0, mr, p, PAGE), EOPNOTSUPP);
	want_eq(advise(dev.pd, READ, 2, mr, p, PAGE), EINVAL);
	want_errno(ibv_advise_mr(dev.pd, READ, 0, two, 0), EINVAL);
	want_eq(advise(dev.pd, READ, 0, &none, p, PAGE), ENOENT);
	none.lkey = mw->rkey;
	want_eq(advise(dev.pd, READ, 0, &none, p, PAGE), EINVAL);
	want_eq(advise(dev.pd, READ, 0, plain, p, PAGE), EINVAL);
	want_eq(advise(pd, READ, 0, mr, p, PAGE), EPERM);
	want_eq(advise(dev.pd, WRITE, 0, reads, p, PAGE), EPERM);
	want_eq(advise(dev.pd, READ, 0, reads, p, PAGE), 0);
	want_eq(advise(dev.pd, READ, 0, mr, p - 1, PAGE), EFAULT);
	want_eq(advise(dev.pd, READ, 0, mr, p + 1, 4 * PAGE), EFAULT);
	peer_unmap(p + 3 * PAGE, PAGE);
	want_eq(advise(dev.pd, READ, FLUSH, mr, p, 4 * PAGE), EFAULT);
	want_eq(advise(dev.pd, WRITE, FLUSH, mr, p, 4 * PAGE), EFAULT);
	want_eq(advise(dev.pd, READ, 0, mr, p, 4 * PAGE), 0); /* a hint */
	want_eq(advise(dev.pd, NO_FAULT, FLUSH, mr, p, 4 * PAGE), 0);
	two[0] = (struct ibv_sge){ (uintptr_t)p, PAGE, mr->lkey };
	two[1] = (struct ibv_sge){ (uintptr_t)p, PAGE, plain->lkey };
	want_eq(ibv_advise_mr(dev.pd, READ, FLUSH, two, 1), 0);
	want_errno(ibv_advise_mr(dev.pd, READ, FLUSH, two, 2), EINVAL);
	want_eq(ibv_dealloc_mw(mw), 0);
	want_eq(ibv_dereg_mr(reads), 0);
	want_eq(ibv_dereg_mr(plain), 0);
	want_eq(ibv_dereg_mr(mr), 0);
	want_eq(ibv_dealloc_pd(pd), 0);
	peer_close(&dev);
}

/* --- null regions --- */

static enum ibv_wc_status post(struct ibv_send_wr *wr)
{
	want_eq(duo_post(&duo, wr), 0);
	return duo_wc(&duo).status;
}

static void null_region(int where)
{
	struct ibv_sge sg[3];
	struct ibv_send_wr wr;
	struct side *s = &duo.near;
	static const uint8_t zero[8192];
	struct ibv_mr *null;

	begin(where);
	null = ibv_alloc_null_mr(s->dev.pd);
	want(null != NULL && null->lkey);
	want_eq(null->rkey, 0);
	pattern_fill(s->mem, s->bytes, 9, 0);
	duo_tell(&duo, (struct duo_order){ DUO_FILL, .id = 5 });
	/* data, nothing from any address, data */
	wr = duo_wr(&duo, IBV_WR_RDMA_WRITE, sg, 100);
	sg[1] = (struct ibv_sge){ 0xdead000, 8192, null->lkey };
	sg[2] = (struct ibv_sge){ (uintptr_t)s->mem + 100 + 8192, 100, s->mr->lkey };
	wr.num_sge = 3;
	want_eq(post(&wr), IBV_WC_SUCCESS);
	want(duo_tell(&duo, (struct duo_order){ DUO_CHECK, .len = 100, .id = 9 }).found);
	want(duo_tell(&duo, (struct duo_order){ DUO_CHECK, .off = 8292, .len = 100, .id = 9 })
		     .found);
	/* back, without its middle, of which zeros are here */
	wr.opcode = IBV_WR_RDMA_READ;
	sg[1].addr = UINT64_MAX - 100;
	want_eq(post(&wr), IBV_WC_SUCCESS);
	wr.num_sge = 1;
	sg[0] = (struct ibv_sge){ (uintptr_t)s->mem, 8192, s->mr->lkey };
	wr.wr.rdma.remote_addr += 100;
	want_eq(post(&wr), IBV_WC_SUCCESS);
	want(!memcmp(s->mem, zero, 8192));
	want_eq(ibv_rereg_mr(null, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			     IBV_ACCESS_LOCAL_WRITE),
		IBV_REREG_MR_ERR_INPUT);
	want_eq(errno, EINVAL);
	want_eq(ibv_dereg_mr(null), 0);
	duo_close(&duo);
}

/* More than any segment carries. */
static void null_source_of_megabytes(int where)
{
	static const uint8_t zero[4 << 20];
	struct ibv_sge sg;
	struct ibv_send_wr wr;
	struct ibv_mr *null;

	begin(where);
	null = ibv_alloc_null_mr(duo.near.dev.pd);
	want(null != NULL);
	duo_tell(&duo, (struct duo_order){ DUO_FILL, .id = 5 });
	pattern_fill(duo.near.mem, sizeof(zero), 6, 0);
	wr = duo_wr(&duo, IBV_WR_RDMA_WRITE, &sg, sizeof(zero));
	sg.lkey = null->lkey;
	want_eq(post(&wr), IBV_WC_SUCCESS);
	wr = duo_wr(&duo, IBV_WR_RDMA_READ, &sg, sizeof(zero));
	want_eq(post(&wr), IBV_WC_SUCCESS);
	want(!memcmp(duo.near.mem, zero, sizeof(zero)));
	want_eq(ibv_dereg_mr(null), 0);
	duo_close(&duo);
}

#define BOTH(f)                                                                                    \
	{ #f " in one process", f, TOGETHER },                                                     \
	{                                                                                          \
#f " between two", f, APART                                                        \
	}

static const struct test_case cases[] = {
	BOTH(explicit_region), BOTH(implicit_region),	  BOTH(implicit_lkey),
	BOTH(zero_based),      CASE(registration_errnos), CASE(advice),
	CASE(advice_errnos),   BOTH(null_region),	  BOTH(null_source_of_megabytes),
};

int main(void)
{
	return CASES_RUN(cases);
}
