// SPDX-License-Identifier: MIT
#include "driver/ring_memory.h"
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "hca/pd.h"
#include "util/fork.h"
#include "util/hash.h"

/* Smaller rings share pages of the heap: 10,000 QPs must not cost a page each. */
#define OWN_MAPPING (64 << 10)
#define PAGE	    ((size_t)4096)
#define RENEWING    UINT32_MAX

/* Rings that a program's functions have made; few programs have any. A forked child leaves what it
 * inherits here alone, since the copy of the lock may never be released. */
static struct {
	struct spin lock; /* guards by_address */
	uint32_t epoch; /* of the process that filled it */
	uint32_t count; /* atomic */
	struct hash by_address; /* → struct lent */
} lent_rings;

struct lent {
	struct pd *pd;
	uint64_t type;
};

/* Empties the table in a forked child: one thread does it, others wait for that thread. */
static void renew(void)
{
	uint32_t now = fork_epoch(), was = load_acquire(&lent_rings.epoch);

	if (was == now)
		return;
	if (was == RENEWING || !cas_acq_rel(&lent_rings.epoch, &was, RENEWING)) {
		while (load_acquire(&lent_rings.epoch) != now) /* (A) */
			sched_yield();
		return;
	}
	spin_init(&lent_rings.lock);
	hash_init(&lent_rings.by_address);
	store_relaxed(&lent_rings.count, 0);
	store_release(&lent_rings.epoch, now); /* (A) */
}

static int lend(uint8_t *p, struct pd *pd, uint64_t type)
{
	struct lent *l = malloc(sizeof(*l));
	int err;

	if (!l)
		return ENOMEM;
	*l = (struct lent){ pd, type };
	renew();
	spin_lock(&lent_rings.lock);
	err = hash_put(&lent_rings.by_address, (uintptr_t)p, l);
	spin_unlock(&lent_rings.lock);
	if (err)
		free(l);
	else
		fetch_add_relaxed(&lent_rings.count, 1);
	return err;
}

/* True: a program's function had made it, and has it back. */
static bool give_back(uint8_t *p)
{
	struct lent *l;

	if (likely(!load_relaxed(&lent_rings.count)))
		return false;
	if (!fork_is_ours(load_acquire(&lent_rings.epoch))) /* (A) */
		return true; /* inherited: its origin is not known any more, and it stays */
	spin_lock(&lent_rings.lock);
	l = hash_del(&lent_rings.by_address, (uintptr_t)p);
	spin_unlock(&lent_rings.lock);
	if (!l)
		return false;
	fetch_sub_acq_rel(&lent_rings.count, 1);
	pd_memory_free(l->pd, p, l->type);
	free(l);
	return true;
}

int ring_memory_alloc_in(struct pd *pd, uint64_t type, size_t size, uint8_t **out)
{
	int err;
	uint8_t *p = pd_memory_alloc(pd, (size + PAGE - 1) & ~(PAGE - 1), PAGE, type, &err);

	if (!p)
		return err ? err : ring_memory_alloc(size, out);
	err = lend(p, pd, type);
	if (err) {
		pd_memory_free(pd, p, type);
		return err;
	}
	*out = p;
	return 0;
}

int ring_memory_alloc(size_t size, uint8_t **out)
{
	void *p;

	if (size >= OWN_MAPPING) {
		p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED)
			return ENOMEM;
		*out = p;
		return 0;
	}
	p = aligned_alloc(64, (size + 63) & ~(size_t)63);
	if (!p)
		return ENOMEM;
	memset(p, 0, size);
	*out = p;
	return 0;
}

void ring_memory_free(uint8_t *p, size_t size)
{
	if (!p || give_back(p))
		return;
	if (size >= OWN_MAPPING)
		munmap(p, size);
	else
		free(p);
}
