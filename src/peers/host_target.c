// SPDX-License-Identifier: MIT
/* Destinations of other processes' slots. */
#include <errno.h>
#include <stdlib.h>
#include "peers/host_state.h"
#include "peers/shm.h"

void host_target_put(struct target *t)
{
	if (t && fetch_sub_acq_rel(&t->d.refs, 1) == 1)
		free(t);
}

static struct target *target_new(struct host *h, unsigned int slot)
{
	struct target *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->d = (struct dest){ .ops = &shm_ops,
			      .refs = 1,
			      .max_seg = HOST_MAX_SEG,
			      .inline_max = HOST_INLINE_MAX,
			      .same_host = true };
	t->host = h;
	t->slot = slot;
	t->state = TARGET_IDLE;
	host_wait_init(&t->waiters);
	return t;
}

/* A dead one makes place for a new process, unless somebody still waits on it to hear of the
 * death. */
static bool replaceable(const struct target *t)
{
	return !t || (load_relaxed(&t->state) == TARGET_DEAD && !host_wait_any(&t->waiters));
}

int host_target(struct host *h, unsigned int slot, bool wanted, struct target **out)
{
	struct target *fresh = target_new(h, slot), *t, *old = NULL;
	uint32_t idle = TARGET_IDLE;

	if (!fresh)
		return ENOMEM;
	spin_lock(&h->table_lock);
	t = h->target[slot];
	if (replaceable(t)) {
		old = t;
		t = fresh;
		store_relaxed(&h->target[slot], t); /* others look for NULL without the lock */
		fresh = NULL;
	}
	fetch_add_relaxed(&t->d.refs, 1);
	spin_unlock(&h->table_lock);
	host_target_put(old);
	host_target_put(fresh);
	if (wanted && load_relaxed(&t->state) == TARGET_IDLE &&
	    cas_acq_rel(&t->state, &idle, TARGET_WANTED))
		host_chore(h);
	*out = t;
	return 0;
}

struct target *host_target_now(struct host *h, unsigned int slot)
{
	struct target *t;

	spin_lock(&h->table_lock);
	t = h->target[slot];
	if (t)
		fetch_add_relaxed(&t->d.refs, 1);
	spin_unlock(&h->table_lock);
	return t;
}

void host_target_settle(struct target *t, enum target_state state, struct contact *c)
{
	if (state == TARGET_UP)
		t->c = c;
	if (state == TARGET_DEAD) {
		store_relaxed(&t->d.max_ref, 0);
		store_relaxed(&t->d.dead, true);
	}
	store_release(&t->state, state); /* pairs with try_send() in shm.c */
}

static bool can_go_on(void *arg)
{
	return shm_can_go_on(arg);
}

static void resume_slot(struct host *h, unsigned int slot)
{
	uint64_t *word = &h->waiting[slot / 64], bit = UINT64_C(1) << slot % 64;
	struct target *t;

	/* First: who waits from now on sets it again, perhaps on a new target of the slot. */
	fetch_and_acq_rel(word, ~bit);
	t = host_target_now(h, slot);
	if (!t)
		return;
	if (!host_wait_resume(&t->waiters, can_go_on, t))
		fetch_or_acq_rel(word, bit);
	host_target_put(t);
}

void host_resume_all(struct host *h)
{
	for (unsigned int i = 0; i < NUMBER_SLOTS / 64; i++)
		for (uint64_t w = load_relaxed(&h->waiting[i]); w; w &= w - 1)
			resume_slot(h, i * 64 + (unsigned int)__builtin_ctzll(w));
}

bool host_target_can_go_on(struct host *h, unsigned int slot)
{
	struct target *t = host_target_now(h, slot);
	bool yes = t && host_wait_any(&t->waiters) && shm_can_go_on(t);

	host_target_put(t);
	return yes;
}
