// SPDX-License-Identifier: MIT
/* Spin lock for sections of a few hundred instructions; a copy is the only system call inside. A
 * waiting thread gives its time slice away after about 1000 looks, since the thread that has the
 * lock may have lost its core. Uncontended, lock and unlock are one atomic exchange and one release
 * store. All zero is unlocked; works in memory shared between processes. */
#pragma once
#include "util/barrier.h"

struct spin {
	uint32_t word; /* 0: unlocked, 1: locked */
};

void spin_wait(struct spin *s); /* spin_lock()'s slow half */

static inline void spin_init(struct spin *s)
{
	store_relaxed(&s->word, 0);
}

static inline bool spin_trylock(struct spin *s)
{
	return !load_relaxed(&s->word) && !xchg_acquire(&s->word, 1); /* (A) */
}

/* At this moment; a hint. */
static inline bool spin_is_locked(const struct spin *s)
{
	return load_relaxed(&s->word);
}

static inline void spin_lock(struct spin *s)
{
	if (unlikely(xchg_acquire(&s->word, 1))) /* (A) */
		spin_wait(s);
}

static inline void spin_unlock(struct spin *s)
{
	store_release(&s->word, 0); /* pairs with (A): the next thread sees what this one wrote */
}
