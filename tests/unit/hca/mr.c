// SPDX-License-Identifier: MIT
#include "fixture.h"
#include <sys/mman.h>
#include <unistd.h>
#include "hca/memory.h"
#include "hca/mr.h"
#include "util/quiesce.h"

#define PAGE 4096UL
#define W    IBV_ACCESS_LOCAL_WRITE
#define RW   IBV_ACCESS_REMOTE_WRITE
#define RR   IBV_ACCESS_REMOTE_READ
#define RA   IBV_ACCESS_REMOTE_ATOMIC

/* Four pages: rw, r, none, unmapped. */
static uint8_t *pages(void)
{
	uint8_t *p =
		mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	check(p != MAP_FAILED);
	check_eq(mprotect(p + PAGE, PAGE, PROT_READ), 0);
	check_eq(mprotect(p + 2 * PAGE, PAGE, PROT_NONE), 0);
	check_eq(munmap(p + 3 * PAGE, PAGE), 0);
	return p;
}

static int reg(struct fixture *f, void *addr, uint64_t len, unsigned int access, struct mr **mr)
{
	return mr_create(f->pd, &(struct mr_attr){ addr, len, (uintptr_t)addr, access }, mr);
}

static enum key_verdict may(struct fixture *f, uint32_t key, const void *p, uint64_t len,
			    unsigned int need)
{
	struct key_ask a = { key, f->pd->pdn, (uintptr_t)p, len, need };
	enum key_verdict v;
	uint64_t addr;

	quiesce_enter();
	v = key_check(f->hca.keys, &a, &addr);
	quiesce_exit();
	return v;
}

TEST(public_fields_are_filled)
{
	struct fixture *f = fixture_open(16);
	uint8_t buf[64];
	struct mr *mr;

	check_eq(reg(f, buf, sizeof(buf), W | RR, &mr), 0);
	check(mr->ib.context == &f->ctx->ib.context);
	check(mr->ib.pd == &f->pd->ib);
	check(mr->ib.addr == buf);
	check_eq(mr->ib.length, sizeof(buf));
	check_eq(mr->ib.lkey, mr->ib.rkey);
	check_eq(may(f, mr->ib.rkey, buf, sizeof(buf), RR), KEY_OK);
	check_eq(may(f, mr->ib.rkey, buf, sizeof(buf), RW), KEY_NO_RIGHT);
	check_eq(pd_destroy(f->pd), EBUSY);
	check_eq(f->hca.count.mr, 1);
	uint32_t key = mr->ib.lkey;

	check_eq(mr_destroy(mr), 0);
	check_eq(f->hca.count.mr, 0);
	check_eq(may(f, key, buf, 1, 0), KEY_UNKNOWN);
	fixture_close(f);
}

TEST(access_flags_are_checked)
{
	static const struct {
		unsigned int access;
		int err;
	} cases[] = {
		{ 0, 0 },
		{ W, 0 },
		{ RR, 0 },
		{ W | RW | RR | RA, 0 },
		{ W | IBV_ACCESS_MW_BIND, 0 },
		{ W | IBV_ACCESS_HUGETLB, 0 },
		{ W | IBV_ACCESS_RELAXED_ORDERING, 0 },
		{ W | 1U << 29, 0 },
		{ W | 1U << 30, EINVAL },
		{ W | 1U << 19, EINVAL },
		{ W | 1U << 8, EOPNOTSUPP }, /* IBV_ACCESS_FLUSH_GLOBAL */
		{ W | 1U << 9, EOPNOTSUPP }, /* IBV_ACCESS_FLUSH_PERSISTENT */
		{ RW | 1U << 8, EINVAL },
		{ RW, EINVAL },
		{ RA, EINVAL },
		{ RW | RR | RA, EINVAL },
		{ W | IBV_ACCESS_ON_DEMAND, 0 },
		{ W | IBV_ACCESS_ZERO_BASED, 0 },
		{ W | IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB, EINVAL }, /* no huge pages here */
	};
	struct fixture *f = fixture_open(64);
	uint8_t buf[64];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct mr *mr = NULL;

		check_eq(reg(f, buf, sizeof(buf), cases[i].access, &mr), cases[i].err);
		if (mr)
			check_eq(mr_destroy(mr), 0);
	}
	check_eq(f->hca.count.mr, 0);
	fixture_close(f);
}

TEST(memory_must_be_there_with_the_rights)
{
	uint8_t *p = pages();
	const struct {
		uint8_t *at;
		uint64_t len;
		unsigned int access;
		int err;
	} cases[] = {
		{ p, PAGE, W, 0 },
		{ p + PAGE - 1, 1, W, 0 },
		{ p, 2 * PAGE, 0, 0 },
		{ p, 2 * PAGE, RR, 0 },
		{ p + PAGE, PAGE, W, EFAULT },
		{ p + PAGE, PAGE, IBV_ACCESS_MW_BIND, EFAULT },
		{ p + PAGE - 1, 2, W, EFAULT }, /* straddles into the read-only page */
		{ p + 2 * PAGE - 1, 2, 0, EFAULT }, /* and into PROT_NONE */
		{ p + 2 * PAGE, 1, 0, EFAULT },
		{ p + 3 * PAGE, 1, 0, EFAULT },
		{ NULL, PAGE, 0, EFAULT },
		{ (uint8_t *)0xffff800000000000, PAGE, 0, EFAULT },
	};
	struct fixture *f = fixture_open(64);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct mr *mr = NULL;
		bool write = cases[i].access & (W | IBV_ACCESS_MW_BIND);

		check_eq(reg(f, cases[i].at, cases[i].len, cases[i].access, &mr), cases[i].err);
		check_eq(memory_check_maps((uintptr_t)cases[i].at, cases[i].len, write, "test"),
			 cases[i].err);
		if (mr)
			check_eq(mr_destroy(mr), 0);
	}
	check_eq(f->hca.count.mr, 0);
	munmap(p, 3 * PAGE);
	fixture_close(f);
}

TEST(the_reason_names_the_first_bad_address)
{
	uint8_t *p = pages();
	struct fixture *f = fixture_open(16);
	struct mr *mr;
	char want[64];

	check_eq(reg(f, p, 2 * PAGE, W, &mr), EFAULT);
	snprintf(want, sizeof(want), "%p is mapped r--", (void *)(p + PAGE));
	check_reason(want);
	check_eq(reg(f, p + 3 * PAGE, 1, 0, &mr), EFAULT);
	check_reason("is not mapped");
	munmap(p, 3 * PAGE);
	fixture_close(f);
}

TEST(a_mapping_behind_its_files_end_is_refused)
{
	int fd = memfd_create("short", MFD_CLOEXEC);
	struct fixture *f = fixture_open(16);
	struct mr *mr;

	check_eq(ftruncate(fd, PAGE), 0);
	uint8_t *p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	check_eq(reg(f, p, PAGE, W, &mr), 0);
	check_eq(mr_destroy(mr), 0);
	check_eq(reg(f, p, PAGE + 1, W, &mr), EFAULT);
	check_eq(reg(f, p, PAGE + 1, 0, &mr), EFAULT);
	munmap(p, 2 * PAGE);
	close(fd);
	fixture_close(f);
}

TEST(lengths_and_wraps_are_refused)
{
	static const struct mr_attr cases[] = {
		{ (void *)0x1000, 0, 0x1000, W },
		{ (void *)-4096L, 8192, -4096ULL, W },
		{ (void *)0x1000, UINT64_MAX, 0x1000, W },
		{ (void *)0x1000, LIMIT_MR_SIZE + 1, 0x1000, W },
		{ (void *)0x1000, 4096, -2048ULL, W },
		{ (void *)0x1000, 4096, 0x2001, W }, /* another offset in the page */
	};
	struct fixture *f = fixture_open(16);
	struct mr *mr;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		check_eq(mr_create(f->pd, &cases[i], &mr), EINVAL);
	fixture_close(f);
}

/* As on Linux: a region of no bytes pins the page in which it lies, and gives access to none. */
TEST(a_region_of_no_bytes_lies_in_a_page)
{
	struct fixture *f = fixture_open(16);
	static _Alignas(64) uint8_t bytes[64];
	struct mr_attr nothing = { bytes + 8, 0, (uintptr_t)bytes + 8, W };
	struct mr_attr unmapped = { (void *)0x1008, 0, 0x1008, W };
	struct key_ask ask = { .pdn = f->pd->pdn, .va = nothing.iova, .len = 1, .need = W };
	uint64_t addr;
	struct mr *mr;

	check_eq(mr_create(f->pd, &unmapped, &mr), EFAULT);
	check_eq(mr_create(f->pd, &nothing, &mr), 0);
	check_eq(mr->ib.length, 0);
	ask.key = mr->ib.lkey;
	check_eq(key_check(f->hca.keys, &ask, &addr), KEY_RANGE);
	ask.va--;
	check_eq(key_check(f->hca.keys, &ask, &addr), KEY_RANGE);
	check_eq(mr_destroy(mr), 0);
	fixture_close(f);
}

TEST(iova_moves_the_range)
{
	struct fixture *f = fixture_open(16);
	uint8_t buf[256];
	struct key_ask a = { .pdn = f->pd->pdn, .len = 8 };
	uint64_t addr, low = (uintptr_t)buf & (PAGE - 1);
	struct mr *mr;

	check_eq(mr_create(f->pd, &(struct mr_attr){ buf, sizeof(buf), 0x4000000 + low, W }, &mr),
		 0);
	a.key = mr->ib.lkey;
	a.va = 0x4000000 + low + 16;
	quiesce_enter();
	check_eq(key_check(f->hca.keys, &a, &addr), KEY_OK);
	check_eq(addr, (uintptr_t)buf + 16);
	quiesce_exit();
	check_eq(may(f, mr->ib.lkey, buf, 1, 0), KEY_RANGE);
	check_eq(mr_destroy(mr), 0);
	fixture_close(f);
}

/* Every combination of the three flags does what it says and nothing else. */
TEST(rereg_changes_what_its_flags_name)
{
	struct fixture *f = fixture_open(16);
	static uint8_t a[64], b[128];
	struct pd *other;

	check_eq(pd_create(f->ctx, &other), 0);
	for (int flags = 1; flags < 8; flags++) {
		const bool trans = flags & IBV_REREG_MR_CHANGE_TRANSLATION;
		const bool access = flags & IBV_REREG_MR_CHANGE_ACCESS;
		const bool pd = flags & IBV_REREG_MR_CHANGE_PD;
		struct mr_attr want = { b, sizeof(b), (uintptr_t)b, access ? W | RR : 0 };
		struct pd *bad = (struct pd *)0x6d37e7;
		struct mr *mr;

		check_eq(reg(f, a, sizeof(a), W, &mr), 0);
		uint32_t key = mr->ib.lkey;

		check_eq(mr_rereg(mr, flags, pd ? other : bad, &want), 0);
		check_eq(mr->ib.lkey, key);
		check(mr->ib.addr == (trans ? b : a));
		check_eq(mr->ib.length, trans ? sizeof(b) : sizeof(a));
		check(mr->ib.pd == (pd ? &other->ib : &f->pd->ib));
		check_eq(other->refs, pd);
		check_eq(f->pd->refs, !pd);
		check_eq(may(f, key, trans ? b : a, trans ? sizeof(b) : sizeof(a), access ? RR : W),
			 pd ? KEY_WRONG_PD : KEY_OK);
		if (!pd)
			check_eq(may(f, key, trans ? a : b, 1, 0), KEY_RANGE);
		if (!pd && !access)
			check_eq(may(f, key, trans ? b : a, 1, RR), KEY_NO_RIGHT);
		check_eq(mr_destroy(mr), 0);
	}
	check_eq(pd_destroy(other), 0);
	fixture_close(f);
}

TEST(rereg_that_fails_leaves_the_mr_as_it_was)
{
	const int T = IBV_REREG_MR_CHANGE_TRANSLATION, A = IBV_REREG_MR_CHANGE_ACCESS;
	const int INPUT = IBV_REREG_MR_ERR_INPUT, CMD = IBV_REREG_MR_ERR_CMD;
	uint8_t *p = pages();
	const struct {
		int flags;
		struct mr_attr attr;
		int code, err;
	} cases[] = {
		{ 0, { p, PAGE, (uintptr_t)p, 0 }, CMD, EINVAL },
		{ 0, { p, PAGE, (uintptr_t)p, W }, INPUT, EINVAL },
		{ 8, { p, PAGE, (uintptr_t)p, 0 }, INPUT, EINVAL },
		{ T, { p, 0, (uintptr_t)p, 0 }, INPUT, EINVAL },
		{ T, { NULL, PAGE, 0, 0 }, INPUT, EINVAL },
		{ T, { p, PAGE, (uintptr_t)p, RR }, INPUT, EINVAL }, /* access without its flag */
		{ T, { p + 3 * PAGE, PAGE, (uintptr_t)p, 0 }, CMD, EFAULT },
		{ T | A, { p + PAGE, PAGE, (uintptr_t)p, W }, CMD, EFAULT },
		{ A, { NULL, 0, 0, RW }, CMD, EINVAL },
		{ A, { NULL, 0, 0, W }, CMD, EFAULT }, /* the old range is read-only */
		{ A, { NULL, 0, 0, 1U << 8 }, CMD, EOPNOTSUPP },
		{ A, { NULL, 0, 0, 1U << 18 }, CMD, EINVAL },
	};
	struct fixture *f = fixture_open(16);
	struct mr *mr;

	check_eq(reg(f, p + PAGE, PAGE, RR, &mr), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		errno = 0;
		check_eq(mr_rereg(mr, cases[i].flags, NULL, &cases[i].attr), cases[i].code);
		check_eq(errno, cases[i].err);
		check_eq(may(f, mr->ib.lkey, p + PAGE, PAGE, RR), KEY_OK);
	}
	check_eq(mr_destroy(mr), 0);
	munmap(p, 3 * PAGE);
	fixture_close(f);
}

TEST(rereg_refuses_a_pd_of_another_context)
{
	struct fixture *f = fixture_open(16);
	struct context *ctx;
	uint8_t buf[64];
	struct pd *pd;
	struct mr *mr;

	check_eq(context_create(&f->hca, NULL, &ctx), 0);
	check_eq(pd_create(ctx, &pd), 0);
	check_eq(reg(f, buf, sizeof(buf), W, &mr), 0);
	check_eq(mr_rereg(mr, IBV_REREG_MR_CHANGE_PD, pd, &(struct mr_attr){ 0 }),
		 IBV_REREG_MR_ERR_CMD);
	check_eq(errno, EINVAL);
	check_eq(mr_destroy(mr), 0);
	check_eq(pd_destroy(pd), 0);
	context_destroy(ctx);
	fixture_close(f);
}

TEST(max_mr_regions_can_be_registered_and_not_one_more)
{
	struct fixture *f = fixture_open(LIMIT_MR + 1);
	struct mr **mr = calloc(LIMIT_MR, sizeof(*mr)), *more;
	uint8_t buf[64];

	for (int i = 0; i < LIMIT_MR; i++)
		check_eq(reg(f, buf, sizeof(buf), W, &mr[i]), 0);
	check_eq(reg(f, buf, sizeof(buf), W, &more), ENOMEM);
	check_reason("all 65536");
	for (int i = 0; i < LIMIT_MR; i++)
		check_eq(mr_destroy(mr[i]), 0);
	free(mr);
	fixture_close(f);
}

RUN_TESTS(unit_test(public_fields_are_filled), unit_test(access_flags_are_checked),
	  unit_test(memory_must_be_there_with_the_rights),
	  unit_test(the_reason_names_the_first_bad_address),
	  unit_test(a_mapping_behind_its_files_end_is_refused),
	  unit_test(a_region_of_no_bytes_lies_in_a_page), unit_test(lengths_and_wraps_are_refused),
	  unit_test(iova_moves_the_range), unit_test(rereg_changes_what_its_flags_name),
	  unit_test(rereg_that_fails_leaves_the_mr_as_it_was),
	  unit_test(rereg_refuses_a_pd_of_another_context),
	  unit_test(max_mr_regions_can_be_registered_and_not_one_more))
