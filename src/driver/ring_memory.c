// SPDX-License-Identifier: MIT
#include "driver/ring_memory.h"
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "hca/device.h"
#include "hca/pd.h"
#include "obs/explain.h"
#include "util/fork.h"
#include "util/guard_trap.h"
#include "util/hash.h"

/* Smaller rings share pages of the heap: 10,000 QPs must not cost a page each. */
#define OWN_MAPPING (64 << 10)
#define PAGE	    ((size_t)4096)
#define LINE	    ((size_t)64)
#define RENEWING    UINT32_MAX
#define TRIES	    10000000

/* Rings that a program's functions have made, and pages that programs know; few programs have any.
 * A forked child leaves what it inherits here alone, since the copy of the lock may never be
 * released. */
static struct {
	struct spin lock; /* guards the tables; nothing faults under it */
	uint32_t epoch; /* of the process that filled them */
	uint32_t count; /* of by_address; atomic */
	struct hash by_address; /* → struct lent */
	struct hash shown; /* numbers of the pages of ring_pages → their struct's *at */
} kept;

struct lent {
	struct pd *pd; /* NULL: the context's functions have made it */
	uint64_t type;
	struct context_memory memory;
};

/* Empties the table in a forked child: one thread does it, others wait for that thread. */
static void renew(void)
{
	uint32_t now = fork_epoch(), was = load_acquire(&kept.epoch);

	if (was == now)
		return;
	if (was == RENEWING || !cas_acq_rel(&kept.epoch, &was, RENEWING)) {
		while (load_acquire(&kept.epoch) != now) /* (A) */
			sched_yield();
		return;
	}
	spin_init(&kept.lock);
	hash_init(&kept.by_address);
	hash_init(&kept.shown);
	store_relaxed(&kept.count, 0);
	store_release(&kept.epoch, now); /* (A) */
}

static void hand_back(const struct lent *l, uint8_t *p)
{
	if (l->pd)
		pd_memory_free(l->pd, p, l->type);
	else
		l->memory.free(p, l->memory.data);
}

/* When it fails the memory goes back. */
static int lend(uint8_t *p, const struct lent *from, uint8_t **out)
{
	struct lent *l = malloc(sizeof(*l));
	int err;

	if (!l) {
		hand_back(from, p);
		return ENOMEM;
	}
	*l = *from;
	renew();
	spin_lock(&kept.lock);
	err = hash_put(&kept.by_address, (uintptr_t)p, l);
	spin_unlock(&kept.lock);
	if (err) {
		hand_back(l, p);
		free(l);
	} else {
		fetch_add_relaxed(&kept.count, 1);
		*out = p;
	}
	return err;
}

/* True: a program's function had made it, and has it back. */
static bool give_back(uint8_t *p)
{
	struct lent *l;

	if (likely(!load_relaxed(&kept.count)))
		return false;
	if (!fork_is_ours(load_acquire(&kept.epoch))) /* (A) */
		return true; /* inherited: its origin is not known any more, and it stays */
	spin_lock(&kept.lock);
	l = hash_del(&kept.by_address, (uintptr_t)p);
	spin_unlock(&kept.lock);
	if (!l)
		return false;
	fetch_sub_acq_rel(&kept.count, 1);
	hand_back(l, p);
	free(l);
	return true;
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

/* From the context's functions. */
static int context_memory(const struct context *ctx, size_t size, uint8_t **out)
{
	const struct lent l = { .memory = ctx->memory };
	uint8_t *p = l.memory.alloc(size, l.memory.data);

	if (!p || (uintptr_t)p % LINE) {
		if (p)
			hand_back(&l, p);
		return refuse(ENOMEM,
			      "the alloc function of mlx5dv_set_context_attr gave %p for %zu B; it "
			      "has to be aligned to %zu",
			      (void *)p, size, LINE);
	}
	memset(p, 0, size);
	return lend(p, &l, out);
}

int ring_memory_alloc_in(struct pd *pd, uint64_t type, size_t size, uint8_t **out)
{
	return ring_memory_alloc_on(pd ? pd->ctx : NULL, pd, type, size, out);
}

int ring_memory_alloc_on(struct context *ctx, struct pd *pd, uint64_t type, size_t size,
			 uint8_t **out)
{
	size_t whole = (size + PAGE - 1) & ~(PAGE - 1);
	const struct lent l = { .pd = pd, .type = type };
	int err;
	uint8_t *p = pd_memory_alloc(pd, whole, PAGE, type, &err);

	if (err)
		return err;
	if (!p && ctx && ctx->memory.alloc)
		return context_memory(ctx, whole, out);
	if (!p)
		return ring_memory_alloc(size, out);
	return lend(p, &l, out);
}

int ring_memory_record(struct context *ctx, uint32_t *own, uint32_t **out)
{
	uint8_t *p;
	int err;

	*out = own;
	if (likely(!ctx->memory.alloc))
		return 0;
	err = context_memory(ctx, LINE, &p);
	if (!err)
		*out = (uint32_t *)p;
	return err;
}

void ring_memory_record_free(uint32_t *record, const uint32_t *own)
{
	if (record != own)
		give_back((uint8_t *)record);
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

bool ring_memory_lent(uint8_t *p)
{
	bool lent;

	if (likely(!load_relaxed(&kept.count)))
		return false;
	renew();
	spin_lock(&kept.lock);
	lent = hash_get(&kept.by_address, (uintptr_t)p);
	spin_unlock(&kept.lock);
	return lent;
}

struct pd *ring_memory_hold(struct pd *pd)
{
	if (!pd->memory.free)
		return NULL;
	pd_get(pd);
	return pd;
}

void ring_memory_release(struct pd *held)
{
	if (held)
		pd_put(held);
}

/* Not for ever: a fault inside a call that has the lock is a crash, and shall be seen as one. */
static bool lock_for_a_while(void)
{
	unsigned int tries = 0;

	while (!spin_trylock(&kept.lock))
		if (++tries == TRIES)
			return false;
	return true;
}

/* A program has unmapped pages that it was shown, and the device reads or writes there: zeros take
 * their place, which are no WQE, so that the queue fails and not the process. */
static bool came_back(const siginfo_t *info, ucontext_t *ctx)
{
	uintptr_t page = (uintptr_t)info->si_addr & ~(uintptr_t)(PAGE - 1);
	bool ours;
	int was;

	(void)ctx;
	if (info->si_code != SEGV_MAPERR || !fork_is_ours(load_acquire(&kept.epoch)) ||
	    !lock_for_a_while())
		return false;
	ours = hash_get(&kept.shown, page / PAGE);
	spin_unlock(&kept.lock);
	if (!ours)
		return false;
	was = errno;
	ours = mmap((void *)page, PAGE, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != MAP_FAILED ||
	       errno == EEXIST; /* another thread has had the same fault */
	errno = was;
	return ours;
}

static void unshow(const struct ring_pages *p)
{
	spin_lock(&kept.lock);
	for (size_t at = 0; at < p->bytes; at += PAGE)
		hash_del(&kept.shown, (uintptr_t)(p->at + at) / PAGE);
	spin_unlock(&kept.lock);
}

static int show(const struct ring_pages *p)
{
	int err = 0;

	renew();
	spin_lock(&kept.lock);
	for (size_t at = 0; at < p->bytes && !err; at += PAGE)
		err = hash_put(&kept.shown, (uintptr_t)(p->at + at) / PAGE, p->at);
	guard_trap_watch(came_back);
	spin_unlock(&kept.lock);
	if (err)
		unshow(p);
	return err;
}

int ring_pages_make(size_t rings, struct ring_pages *out)
{
	size_t record = (rings + LINE - 1) & ~(LINE - 1);
	size_t bytes = (record + LINE + PAGE - 1) & ~(PAGE - 1);
	uint8_t *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ring_pages made = { p, bytes, (uint32_t *)(p + record) };

	if (p == MAP_FAILED)
		return ENOMEM;
	if (show(&made)) {
		munmap(p, bytes);
		return ENOMEM;
	}
	*out = made;
	return 0;
}

void ring_pages_free(struct ring_pages *p)
{
	if (!p->at)
		return;
	if (fork_is_ours(load_acquire(&kept.epoch))) /* (A) */
		unshow(p);
	munmap(p->at, p->bytes);
	p->at = NULL;
}
