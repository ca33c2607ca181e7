// SPDX-License-Identifier: MIT
/* Mkeys: what UMRs change and what they leave as it was, their tag, who may invalidate them; and
 * that a layout that was replaced lives as long as another thread may see it. */
#include <pthread.h>
#include <semaphore.h>
#include "fixture.h"
#include "hca/advise.h"
#include "hca/mkey/fleeting.h"
#include "hca/mkey/mkey.h"
#include "hca/mr.h"

#define MASK(bit) ((uint64_t)MLX5_WQE_UMR_CTRL_MKEY_MASK_##bit)
#define FLAG(f)	  MLX5DV_MKEY_INIT_ATTR_FLAGS_##f
#define RR	  IBV_ACCESS_REMOTE_READ
#define RW	  IBV_ACCESS_REMOTE_WRITE

static uint8_t mem[256];

static struct mkey *make(struct fixture *f, uint32_t flags)
{
	struct mlx5dv_mkey_init_attr a = { &f->pd->ib, flags, 3 };
	struct mkey *m;

	check_eq(mkey_create(f->pd, &a, &m), 0);
	check_eq(a.max_entries, 4);
	return m;
}

static struct mr *region(struct fixture *f)
{
	struct mr *mr;

	check_eq(mr_create(f->pd,
			   &(struct mr_attr){ mem, sizeof(mem), (uintptr_t)mem,
					      IBV_ACCESS_LOCAL_WRITE },
			   &mr),
		 0);
	return mr;
}

/* A list of 10 bytes at @off of the region, which may be read by peers */
static struct umr list(const struct mkey *m, const struct mr *mr, unsigned int off)
{
	return (struct umr){ .mkey = m->dv.lkey,
			     .mask = MASK(LEN) | MASK(FREE) | MASK(ACCESS_REMOTE_READ),
			     .access = RR,
			     .len = 10,
			     .listed = true,
			     .times = 1,
			     .nparts = 1,
			     .part = { { (uintptr_t)mem + off, 10, 0, mr->ib.lkey } } };
}

static const char *run(struct fixture *f, const struct umr *u)
{
	const char *why;

	quiesce_enter();
	why = mkey_umr(f->hca.keys, u, f->pd->pdn);
	quiesce_exit();
	return why;
}

/* Where the first byte lies, or 0: the access is refused with @v. */
static uint64_t first(struct fixture *f, uint32_t key, uint64_t va, unsigned int need,
		      enum key_verdict v)
{
	struct key_ask a = { key, f->pd->pdn, va, 10, need, 1 };
	uint64_t addr = 0;

	quiesce_enter();
	check_eq(key_check(f->hca.keys, &a, &addr), v);
	quiesce_exit();
	return addr;
}

static void close_all(struct fixture *f, struct mkey *m, struct mr *mr)
{
	check_eq(mkey_destroy(m), 0);
	if (mr)
		check_eq(mr_destroy(mr), 0);
	fixture_close(f);
}

TEST(a_umr_changes_what_its_mask_names)
{
	struct fixture *f = fixture_open(16);
	struct mkey *m = make(f, FLAG(INDIRECT));
	struct mr *mr = region(f);
	uint32_t key = m->dv.lkey;
	struct umr u = list(m, mr, 5);

	first(f, key, 0, RR, KEY_UNBOUND);
	check(run(f, &u) == NULL);
	check_eq(first(f, key, 0, RR, KEY_APART), (uintptr_t)mem + 5);
	first(f, key, 0, RW, KEY_NO_RIGHT);
	first(f, key, 1, RR, KEY_RANGE);
	u = (struct umr){ .mkey = key, .mask = MASK(START_ADDR), .start = 100, .len = 3 };
	check(run(f, &u) == NULL);
	check_eq(first(f, key, 100, RR, KEY_APART), (uintptr_t)mem + 5);
	u = (struct umr){ .mkey = key, .mask = MASK(ACCESS_REMOTE_WRITE), .access = RW };
	check(run(f, &u) == NULL);
	check_eq(first(f, key, 100, RR | RW, KEY_APART), (uintptr_t)mem + 5);
	u = (struct umr){ .mkey = key, .mask = MASK(ACCESS_REMOTE_READ) };
	check(run(f, &u) == NULL);
	first(f, key, 100, RR, KEY_NO_RIGHT);
	u = (struct umr){ .mkey = key, .mask = MASK(FREE), .free = true };
	check(run(f, &u) == NULL);
	first(f, key, 100, RW, KEY_UNBOUND);
	u.free = false;
	check(run(f, &u) == NULL);
	check_eq(first(f, key, 100, RW, KEY_APART), (uintptr_t)mem + 5);
	u = (struct umr){ .mkey = key, .mask = MASK(LEN), .len = 11 };
	check(run(f, &u) != NULL); /* than its list */
	check_eq(first(f, key, 100, RW, KEY_APART), (uintptr_t)mem + 5);
	close_all(f, m, mr);
}

TEST(a_tag_changes_only_where_it_may)
{
	struct fixture *f = fixture_open(16);
	struct mkey *m = make(f, FLAG(INDIRECT)), *tagged;
	struct mr *mr = region(f);
	struct umr u = list(m, mr, 0);
	uint32_t key = m->dv.lkey;

	u.mask |= MASK(MKEY);
	u.variant = (uint8_t)(key + 1);
	check(run(f, &u) != NULL);
	check_eq(mkey_destroy(m), 0);
	tagged = make(f, FLAG(INDIRECT) | FLAG(UPDATE_TAG));
	key = tagged->dv.lkey;
	u.mkey = key;
	u.variant = (uint8_t)(key + 1);
	check(run(f, &u) == NULL);
	first(f, key, 0, RR, KEY_UNKNOWN);
	first(f, (key & ~0xffU) | u.variant, 0, RR, KEY_APART);
	check(run(f, &u) != NULL); /* by the key that it had */
	close_all(f, tagged, mr);
}

static const char *invalidate(struct fixture *f, uint32_t key, uint32_t pdn, bool remote)
{
	const char *why;

	quiesce_enter();
	why = fleeting_invalidate(f->hca.keys, &(struct invalidation){ key, pdn, 1, remote });
	quiesce_exit();
	return why;
}

TEST(who_may_invalidate_an_mkey)
{
	struct fixture *f = fixture_open(16);
	struct mkey *m = make(f, FLAG(INDIRECT));
	struct mr *mr = region(f);
	struct umr u = list(m, mr, 0);
	uint32_t key = m->dv.lkey, pdn = f->pd->pdn;

	check(invalidate(f, key, pdn, false) != NULL); /* it is free */
	check(run(f, &u) == NULL);
	check(invalidate(f, key, pdn + 1, false) != NULL);
	check(invalidate(f, key ^ 1, pdn, false) != NULL);
	check(invalidate(f, mr->ib.rkey, pdn, false) != NULL);
	check(invalidate(f, key, pdn, true) != NULL); /* a peer, without REMOTE_INVALIDATE */
	first(f, key, 0, RR, KEY_APART);
	check(invalidate(f, key, pdn, false) == NULL);
	first(f, key, 0, RR, KEY_UNBOUND);
	check_eq(mkey_destroy(m), 0);
	m = make(f, FLAG(INDIRECT) | FLAG(REMOTE_INVALIDATE));
	u = list(m, mr, 0);
	check(run(f, &u) == NULL);
	check(invalidate(f, m->dv.rkey, pdn, true) == NULL);
	close_all(f, m, mr);
}

TEST(an_access_by_a_peer_shuts_changes_out)
{
	struct fixture *f = fixture_open(16);
	struct mkey *m = make(f, FLAG(INDIRECT));
	struct spin *lock;

	quiesce_enter();
	lock = fleeting_enter(f->hca.keys, m->dv.rkey);
	check(lock == &m->lock);
	check(!spin_trylock(&m->lock));
	fleeting_leave(lock);
	check(spin_trylock(&m->lock));
	spin_unlock(&m->lock);
	quiesce_exit();
	close_all(f, m, NULL);
}

static sem_t inside, leave;

static void *reader(void *arg)
{
	quiesce_enter();
	sem_post(&inside);
	sem_wait(&leave);
	quiesce_exit();
	return arg;
}

static unsigned int kept(const struct mkey *m)
{
	unsigned int n = 0;

	for (const struct mkey_layout *l = m->old; l; l = l->next)
		n++;
	for (const struct mkey_layout *l = m->newly; l; l = l->next)
		n++;
	return n;
}

TEST(a_replaced_layout_lives_as_long_as_a_reader)
{
	struct fixture *f = fixture_open(16);
	struct mkey *m = make(f, FLAG(INDIRECT));
	struct mr *mr = region(f);
	struct umr u = list(m, mr, 0);
	pthread_t t;

	sem_init(&inside, 0, 0);
	sem_init(&leave, 0, 0);
	check(run(f, &u) == NULL);
	check_eq(pthread_create(&t, NULL, reader, NULL), 0);
	sem_wait(&inside);
	for (unsigned int i = 1; i <= 5; i++) {
		check(run(f, &u) == NULL);
		check_eq(kept(m), i);
	}
	sem_post(&leave);
	check_eq(pthread_join(t, NULL), 0);
	check(run(f, &u) == NULL);
	check(run(f, &u) == NULL);
	check(run(f, &u) == NULL);
	check(kept(m) <= 1);
	close_all(f, m, mr);
}

/* T10-DIF of 512 B blocks on the wire, for an mkey whose memory is data alone */
static struct umr signing(const struct mkey *m)
{
	return (struct umr){
		.mkey = m->dv.lkey,
		.mask = MASK(BSF_ENABLE),
		.is_signed = true,
		.brings_sig = true,
		.sig = { .wire = { .guard = CHECKSUM_CRC16, .block = 512, .field = 8 } }
	};
}

/* A pattern that takes the region's first 10 bytes 100 times: 1000 bytes, of which 512 are a
 * block */
static struct umr long_list(const struct mkey *m, const struct mr *mr)
{
	struct umr u = list(m, mr, 0);

	u.times = 100;
	u.len = 1000;
	return u;
}

static const struct mkey_layout *layout_at(struct fixture *f, uint32_t key, uint64_t va,
					   uint64_t *off)
{
	struct key_ask a = { key, f->pd->pdn, va, 10, RR, 1 };
	const struct mkey_layout *l;

	quiesce_enter();
	l = key_signature(f->hca.keys, &a, off);
	quiesce_exit();
	return l;
}

/* What moves data by the one goes on by it. */
TEST(another_signature_of_the_same_list_has_a_layout_of_its_own)
{
	struct fixture *f = fixture_open(16);
	struct mkey *m = make(f, FLAG(INDIRECT) | FLAG(BLOCK_SIGNATURE));
	struct mr *mr = region(f);
	struct umr u = signing(m), l = long_list(m, mr);
	const struct mkey_layout *before;

	check(run(f, &l) == NULL);
	check(run(f, &u) == NULL);
	before = m->now.layout;
	u.sig.wire.block = 4096;
	check(run(f, &u) == NULL);
	check(m->now.layout != before);
	check_eq(m->now.layout->sig.wire.block, 4096);
	close_all(f, m, mr);
}

TEST(an_mkey_with_a_signature_has_the_range_of_the_wire)
{
	struct fixture *f = fixture_open(16);
	struct mkey *m = make(f, FLAG(INDIRECT) | FLAG(BLOCK_SIGNATURE));
	struct mr *mr = region(f);
	struct umr u = signing(m), l = long_list(m, mr);
	uint32_t key = m->dv.lkey;
	uint64_t off;

	u.mask |= MASK(FREE);
	check(run(f, &u) != NULL); /* it has no list yet */
	check(run(f, &l) == NULL);
	first(f, key, 990, RR, KEY_APART);
	check(layout_at(f, key, 990, &off) == NULL);
	check(run(f, &u) == NULL);
	first(f, key, 990, RR, KEY_SIGNED);
	first(f, key, 998, RR, KEY_SIGNED);
	first(f, key, 999, RR, KEY_RANGE);
	first(f, key, 990, RW, KEY_NO_RIGHT);
	first(f, key, 990, RR | IBV_ACCESS_REMOTE_ATOMIC, KEY_NO_RIGHT);
	u = (struct umr){
		.mkey = key, .mask = MASK(START_ADDR) | MASK(LEN), .start = 64, .len = 512
	};
	check(run(f, &u) == NULL);
	first(f, key, 64 + 510, RR, KEY_SIGNED);
	first(f, key, 64 + 511, RR, KEY_RANGE);
	check(layout_at(f, key, 64 + 510, &off) == m->now.layout);
	check_eq(off, 510);
	check_eq(m->now.layout->mem, 512);
	check_eq(m->now.layout->sig.wire.block, 512);
	u = (struct umr){ .mkey = key, .mask = MASK(BSF_ENABLE) }; /* none from now on */
	check(run(f, &u) == NULL);
	first(f, key, 64 + 502, RR, KEY_APART);
	first(f, key, 64 + 503, RR, KEY_RANGE);
	close_all(f, m, mr);
}

TEST(a_signature_needs_an_mkey_that_was_made_for_one)
{
	struct fixture *f = fixture_open(16);
	struct mkey *m = make(f, FLAG(INDIRECT)), *able;
	struct mlx5dv_mkey_err e;
	struct mr *mr = region(f);
	struct umr u = signing(m), l = long_list(m, mr);

	check(run(f, &l) == NULL);
	check(run(f, &u) != NULL);
	u.brings_sig = false;
	check(run(f, &u) != NULL);
	first(f, m->dv.lkey, 0, RR, KEY_APART);
	check_eq(mkey_check(m, &e), EINVAL);
	able = make(f, FLAG(INDIRECT) | FLAG(BLOCK_SIGNATURE));
	u = signing(able);
	l = long_list(able, mr);
	check(run(f, &l) == NULL);
	u.mask = 0; /* brought, but not enabled */
	check(run(f, &u) != NULL);
	u.mask = MASK(BSF_ENABLE);
	check(run(f, &u) == NULL);
	check_eq(mkey_check(able, &e), 0);
	check_eq(e.err_type, MLX5DV_MKEY_NO_ERR);
	/* beneath another */
	l = list(m, mr, 0);
	l.part[0] = (struct umr_part){ 0, 10, 0, able->dv.lkey };
	check(run(f, &l) == NULL);
	first(f, m->dv.lkey, 0, RR, KEY_BENEATH);
	check_eq(mkey_destroy(able), 0);
	close_all(f, m, mr);
}

TEST(an_mkey_is_no_region)
{
	struct fixture *f = fixture_open(16);
	struct mkey *m = make(f, FLAG(INDIRECT));
	struct ibv_sge sg = { 0, 1, m->dv.lkey };
	struct mr *mr;

	check_eq(mr_advise(f->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sg, 1), EINVAL);
	check_reason("is an mkey's");
	check_eq(mr_import(f->pd, m->dv.lkey >> 8, &mr), EINVAL);
	close_all(f, m, NULL);
}

RUN_TESTS(unit_test(an_mkey_is_no_region), unit_test(a_umr_changes_what_its_mask_names),
	  unit_test(a_tag_changes_only_where_it_may), unit_test(who_may_invalidate_an_mkey),
	  unit_test(an_access_by_a_peer_shuts_changes_out),
	  unit_test(a_replaced_layout_lives_as_long_as_a_reader),
	  unit_test(another_signature_of_the_same_list_has_a_layout_of_its_own),
	  unit_test(an_mkey_with_a_signature_has_the_range_of_the_wire),
	  unit_test(a_signature_needs_an_mkey_that_was_made_for_one))
