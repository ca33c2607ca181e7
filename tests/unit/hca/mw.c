// SPDX-License-Identifier: MIT
#include "fixture.h"
#include "hca/mw.h"
#include "util/quiesce.h"

#define W  IBV_ACCESS_LOCAL_WRITE
#define RW IBV_ACCESS_REMOTE_WRITE
#define RR IBV_ACCESS_REMOTE_READ

static uint8_t buf[256];

static struct mr *region(struct fixture *f)
{
	struct mr *mr;

	check_eq(mr_create(f->pd,
			   &(struct mr_attr){ buf, sizeof(buf), (uintptr_t)buf,
					      W | IBV_ACCESS_MW_BIND },
			   &mr),
		 0);
	return mr;
}

static const char *bind(struct fixture *f, const struct mw *mw, const struct mr *mr, uint32_t rkey,
			uint32_t qpn)
{
	struct mw_bind b = { .window = mw->ib.rkey,
			     .rkey = rkey,
			     .lkey = mr->ib.lkey,
			     .access = RW | RR,
			     .addr = (uintptr_t)buf + 16,
			     .len = 32,
			     .pdn = f->pd->pdn,
			     .qpn = qpn };
	const char *why;

	quiesce_enter();
	why = mw_bind(f->hca.keys, &b);
	quiesce_exit();
	return why;
}

static const char *invalidate(struct fixture *f, uint32_t rkey, uint32_t qpn)
{
	const char *why;

	quiesce_enter();
	why = mw_invalidate(f->hca.keys, rkey, f->pd->pdn, qpn);
	quiesce_exit();
	return why;
}

static enum key_verdict may(struct fixture *f, uint32_t rkey, unsigned int off, uint32_t qpn,
			    unsigned int need)
{
	struct key_ask a = { rkey, f->pd->pdn, (uintptr_t)buf + off, 8, need, qpn };
	enum key_verdict v;
	uint64_t addr;

	quiesce_enter();
	v = key_check(f->hca.keys, &a, &addr);
	quiesce_exit();
	if (v == KEY_OK)
		check_eq(addr, (uintptr_t)buf + off);
	return v;
}

TEST(a_window_lives_from_bind_to_invalidation)
{
	struct fixture *f = fixture_open(16);
	struct mr *mr = region(f);
	struct mw *mw;

	check_eq(mw_create(f->pd, IBV_MW_TYPE_2, &mw), 0);
	uint32_t first = mw->ib.rkey, rkey = ibv_inc_rkey(first);

	check_eq(may(f, first, 16, 5, RW), KEY_UNBOUND);
	assert_null(bind(f, mw, mr, rkey, 5));
	check_eq(may(f, rkey, 16, 5, RW), KEY_OK);
	check_eq(may(f, rkey, 16, 6, RW), KEY_WRONG_QP);
	check_eq(may(f, first, 16, 5, RW), KEY_UNKNOWN);
	check_eq(may(f, rkey, 15, 5, RW), KEY_RANGE);
	check_eq(may(f, rkey, 41, 5, RW), KEY_RANGE);
	check_eq(may(f, rkey, 16, 5, IBV_ACCESS_REMOTE_ATOMIC), KEY_NO_RIGHT);
	/* a window is no lkey */
	check_eq(may(f, rkey, 16, 5, 0), KEY_UNKNOWN);
	check_eq(may(f, rkey, 16, 5, W), KEY_UNKNOWN);
	assert_non_null(invalidate(f, rkey, 6));
	check_eq(mr_destroy(mr), EBUSY);
	check_reason("1 memory window is bound");
	assert_null(invalidate(f, rkey, 5));
	check_eq(may(f, rkey, 16, 5, RW), KEY_UNBOUND);
	check_eq(mr_destroy(mr), 0);
	check_eq(mw_destroy(mw), 0);
	check_eq(may(f, rkey, 16, 5, RW), KEY_UNKNOWN);
	fixture_close(f);
}

/* A region that is being registered anew is not looked at, since what is seen may change: mr.c's
 * highest bit of windows. One that is looked at in vain is let go. */
TEST(a_region_that_changes_is_not_judged)
{
	const uint32_t leaving = 1U << 31;
	struct mr_attr a = { buf, sizeof(buf), (uintptr_t)buf, 0 };
	struct fixture *f = fixture_open(4);
	struct mr *mr;
	struct mw *mw;

	check_eq(mr_create(f->pd, &a, &mr), 0);
	check_eq(mw_create(f->pd, IBV_MW_TYPE_2, &mw), 0);
	mr->windows = leaving;
	check_str(bind(f, mw, mr, mw->ib.rkey, 5),
		  "the region is being deregistered or changed; let that end first");
	mr->windows = 0;
	check_str(bind(f, mw, mr, mw->ib.rkey, 5),
		  "the region was registered without IBV_ACCESS_MW_BIND; add that flag");
	check_eq(mr->windows, 0);
	check_eq(mr_destroy(mr), 0);
	check_eq(mw_destroy(mw), 0);
	fixture_close(f);
}

/* The tag 0 with index 0 would be no key at all. */
TEST(every_tag_of_a_window_is_a_key)
{
	struct fixture *f = fixture_open(4);
	struct mr *mr;
	struct mw *mw;

	check_eq(mw_create(f->pd, IBV_MW_TYPE_2, &mw), 0);
	check(mw->ib.rkey >= 0x100);
	mr = region(f);
	for (uint32_t tag = 0; tag < 256; tag++) {
		uint32_t rkey = (mw->ib.rkey & ~0xffU) | tag;

		assert_null(bind(f, mw, mr, rkey, 5));
		check_eq(may(f, rkey, 16, 5, RR), KEY_OK);
		assert_null(invalidate(f, rkey, 5));
	}
	check_eq(mw_destroy(mw), 0);
	check_eq(mr_destroy(mr), 0);
	fixture_close(f);
}

TEST(max_mw_windows_can_be_allocated_and_not_one_more)
{
	struct fixture *f = fixture_open(LIMIT_KEYS);
	struct mw **mw = calloc(LIMIT_MW, sizeof(*mw)), *more;

	for (int i = 0; i < LIMIT_MW; i++)
		check_eq(mw_create(f->pd, IBV_MW_TYPE_1, &mw[i]), 0);
	check_eq(mw_create(f->pd, IBV_MW_TYPE_1, &more), ENOMEM);
	check_reason("ibv_alloc_mw: all 65536");
	for (int i = 0; i < LIMIT_MW; i++)
		check_eq(mw_destroy(mw[i]), 0);
	free(mw);
	fixture_close(f);
}

TEST(a_null_region_takes_any_address)
{
	struct fixture *f = fixture_open(16);
	struct key_ask a = { .pdn = f->pd->pdn, .va = UINT64_MAX - 3, .len = LIMIT_MSG };
	uint64_t from, to, none;
	struct mr *mr;

	check_eq(mr_create_null(f->pd, &mr), 0);
	check_eq(mr->ib.rkey, 0);
	a.key = mr->ib.lkey;
	quiesce_enter();
	check_eq(key_check(f->hca.keys, &a, &from), KEY_OK);
	a.need = W;
	check_eq(key_check(f->hca.keys, &a, &to), KEY_OK);
	a.need = RR;
	check_eq(key_check(f->hca.keys, &a, &none), KEY_NO_RIGHT);
	a.need = 0;
	a.pdn++;
	check_eq(key_check(f->hca.keys, &a, &none), KEY_WRONG_PD);
	quiesce_exit();
	check_eq(((uint8_t *)(uintptr_t)from)[LIMIT_MSG - 1], 0);
	memset((uint8_t *)(uintptr_t)to, 7, 1 << 20);
	check_eq(((uint8_t *)(uintptr_t)to)[(1U << 30)], 7); /* the same pages again */
	check_eq(((uint8_t *)(uintptr_t)from)[0], 0);
	check_eq(mr_destroy(mr), 0);
	fixture_close(f);
}

RUN_TESTS(unit_test(a_window_lives_from_bind_to_invalidation),
	  unit_test(a_region_that_changes_is_not_judged), unit_test(every_tag_of_a_window_is_a_key),
	  unit_test(max_mw_windows_can_be_allocated_and_not_one_more),
	  unit_test(a_null_region_takes_any_address))
