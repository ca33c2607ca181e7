// SPDX-License-Identifier: MIT
#include "driver/ring_memory.h"
#include <errno.h>
#include <infiniband/mlx5dv.h>
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
#define RECORD	    ((size_t)8) /* two words */
#define WHOLE	    ((uintptr_t)1 << 32) /* in kept.shown: one thing that takes all of the page */
#define TRIES	    10000000

/* Pages with rings that programs know; few programs have any. A forked child leaves what it
 * inherits here alone, since the copy of the lock may never be released. */
static struct {
	struct spin lock; /* guards the table; nothing faults under it */
	uint32_t epoch; /* of the process that filled it */
	uint32_t renewing; /* the epoch in which a thread last began to empty it; atomic */
	struct hash shown; /* numbers of pages → things in them: WHOLE, or 1 for less than a page */
} kept;

/* Which of the program's functions has made a ring, and takes it back. */
struct lent {
	uint32_t epoch; /* of the process that called it */
	struct pd *pd; /* NULL: the context's functions */
	uint64_t type;
	struct context_memory memory;
};

/* Empties the table in a forked child: one thread does it, others wait for that thread, but not for
 * one of the parent. */
static void renew(void)
{
	uint32_t now = fork_epoch(), was = load_relaxed(&kept.renewing);

	if (load_acquire(&kept.epoch) == now) /* (A) */
		return;
	if (was == now || !cas_acq_rel(&kept.renewing, &was, now)) {
		while (load_acquire(&kept.epoch) != now) /* (A) */
			sched_yield();
		return;
	}
	spin_init(&kept.lock);
	hash_init(&kept.shown);
	store_release(&kept.epoch, now); /* (A) */
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

static bool zeros_at(uintptr_t page, int flags)
{
	return mmap((void *)page, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags,
		    -1, 0) != MAP_FAILED;
}

/* Rights that the program has taken are given back: an adapter does not ask for them. Not where
 * something of the program's may be in the page: the fault is its handler's. What has no memory any
 * more gets zeros, which are no WQE, so that the queue fails and not the process. */
static bool mend(const siginfo_t *info, uintptr_t page, bool whole)
{
	if (info->si_signo == SIGBUS) /* its file is shorter now */
		return info->si_code == BUS_ADRERR && zeros_at(page, MAP_FIXED);
	if (info->si_code == SEGV_MAPERR) /* EEXIST: another thread has had the same fault */
		return zeros_at(page, MAP_FIXED_NOREPLACE) || errno == EEXIST;
	return info->si_code == SEGV_ACCERR && whole &&
	       (!mprotect((void *)page, PAGE, PROT_READ | PROT_WRITE) || zeros_at(page, MAP_FIXED));
}

/* The device, or the program, reads or writes a page of rings that the program has taken away. */
static bool came_back(const siginfo_t *info, ucontext_t *ctx)
{
	uintptr_t page = (uintptr_t)info->si_addr & ~(uintptr_t)(PAGE - 1);
	uintptr_t things;
	bool mended;
	int was;

	(void)ctx;
	if (!fork_is_ours(load_acquire(&kept.epoch)) || !lock_for_a_while())
		return false;
	things = (uintptr_t)hash_get(&kept.shown, page / PAGE);
	spin_unlock(&kept.lock);
	if (!things)
		return false;
	was = errno;
	mended = mend(info, page, things >= WHOLE);
	errno = was;
	return mended;
}

/* --- pages with rings; under the lock --- */

/* @more: things, or as many less, modulo 2^64. ENOMEM: for a page that was not shown yet. */
static int count_page(uintptr_t page, uintptr_t more)
{
	uintptr_t n = (uintptr_t)hash_del(&kept.shown, page) + more;

	return n ? hash_put(&kept.shown, page, (void *)n) : 0;
}

/* What @bytes from @p on are in @page. */
static uintptr_t share(const uint8_t *p, size_t bytes, uintptr_t page)
{
	uintptr_t from = (uintptr_t)p, at = page * PAGE;

	return at >= from && at + PAGE <= from + bytes ? WHOLE : 1;
}

static void unshow(const uint8_t *p, size_t bytes)
{
	uintptr_t end = ((uintptr_t)p + bytes - 1) / PAGE;

	for (uintptr_t page = (uintptr_t)p / PAGE; page <= end; page++)
		count_page(page, -share(p, bytes, page));
}

static int show(const uint8_t *p, size_t bytes)
{
	uintptr_t first = (uintptr_t)p / PAGE, page = first;
	uintptr_t end = ((uintptr_t)p + bytes - 1) / PAGE;
	int err = 0;

	guard_trap_watch(came_back);
	for (; page <= end && !err; page++)
		err = count_page(page, share(p, bytes, page));
	if (err)
		for (page--; page > first; page--)
			count_page(page - 1, -share(p, bytes, page - 1));
	return err;
}

static void hand_back(const struct lent *l, uint8_t *p)
{
	if (l->pd)
		pd_memory_free(l->pd, p, l->type);
	else
		l->memory.free(p, l->memory.data);
}

/* EEXIST: there is a ring already. */
static int show_lent(const uint8_t *p, size_t bytes)
{
	int err;

	renew();
	spin_lock(&kept.lock);
	err = (uintptr_t)hash_get(&kept.shown, (uintptr_t)p / PAGE) >= WHOLE ? EEXIST
									     : show(p, bytes);
	spin_unlock(&kept.lock);
	return err;
}

/* When it fails the memory goes back. */
static int lend(uint8_t *p, size_t bytes, const struct lent *from, struct ring_memory *out)
{
	struct lent *l = malloc(sizeof(*l));
	int err = l ? show_lent(p, bytes) : ENOMEM;

	if (err) {
		hand_back(from, p);
		free(l);
		return err;
	}
	*l = *from;
	l->epoch = fork_epoch();
	*out = (struct ring_memory){ .at = p, .bytes = bytes };
	out->from = l;
	return 0;
}

/* Not what a child inherits, which may share it with its parent, or not have it. */
static void give_back(const struct ring_memory *m)
{
	if (fork_is_ours(m->from->epoch)) {
		spin_lock(&kept.lock);
		unshow(m->at, m->bytes);
		spin_unlock(&kept.lock);
		hand_back(m->from, m->at);
	}
	free(m->from);
}

int ring_memory_alloc(size_t size, struct ring_memory *out)
{
	void *p;

	if (size >= OWN_MAPPING) {
		p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED)
			return ENOMEM;
	} else {
		p = aligned_alloc(64, (size + 63) & ~(size_t)63);
		if (!p)
			return ENOMEM;
		memset(p, 0, size);
	}
	*out = (struct ring_memory){ p, size, NULL };
	return 0;
}

/* From the context's functions. */
static int context_memory(const struct context *ctx, size_t size, struct ring_memory *out)
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
	return lend(p, size, &l, out);
}

int ring_memory_alloc_in(struct pd *pd, uint64_t type, size_t size, struct ring_memory *out)
{
	return ring_memory_alloc_on(pd ? pd->ctx : NULL, pd, type, size, out);
}

int ring_memory_alloc_on(struct context *ctx, struct pd *pd, uint64_t type, size_t size,
			 struct ring_memory *out)
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
	return lend(p, whole, &l, out);
}

int ring_memory_record(struct context *ctx, struct pd *pd, uint32_t **dbrec,
		       struct ring_memory *out)
{
	const struct lent l = { .pd = pd, .type = MLX5DV_RES_TYPE_DBR };
	int err;
	uint8_t *p = pd_memory_alloc(pd, RECORD, RECORD, l.type, &err);

	if (likely(!p && (err || !ctx->memory.alloc)))
		return err;
	err = p ? lend(p, RECORD, &l, out) : context_memory(ctx, LINE, out);
	if (!err)
		*dbrec = (uint32_t *)out->at;
	return err;
}

void ring_memory_free(struct ring_memory *m)
{
	if (!m->at)
		return;
	if (m->from)
		give_back(m);
	else if (m->bytes >= OWN_MAPPING)
		munmap(m->at, m->bytes);
	else
		free(m->at);
	*m = (struct ring_memory){ 0 };
}

struct pd *ring_memory_keep(struct pd *pd)
{
	if (!pd->memory.free)
		return NULL;
	pd_get(pd);
	return pd;
}

void ring_memory_release(struct pd *pd)
{
	if (pd)
		pd_put(pd);
}

int ring_pages_make(size_t rings, struct ring_pages *out)
{
	size_t record = (rings + LINE - 1) & ~(LINE - 1);
	size_t bytes = (record + LINE + PAGE - 1) & ~(PAGE - 1);
	uint8_t *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int err;

	if (p == MAP_FAILED)
		return ENOMEM;
	renew();
	spin_lock(&kept.lock);
	err = show(p, bytes);
	spin_unlock(&kept.lock);
	if (err)
		munmap(p, bytes);
	else
		*out = (struct ring_pages){ p, bytes, (uint32_t *)(p + record), fork_epoch() };
	return err;
}

/* A program may keep a child from its rings (MADV_DONTFORK): what is there may be the child's. */
void ring_pages_free(struct ring_pages *p)
{
	if (!p->at || !fork_is_ours(p->epoch))
		return;
	spin_lock(&kept.lock);
	unshow(p->at, p->bytes);
	spin_unlock(&kept.lock);
	munmap(p->at, p->bytes);
	p->at = NULL;
}
