// SPDX-License-Identifier: MIT
#include "peers/host_target.h"
#include <errno.h>
#include <stdlib.h>
#include "peers/host_bell.h"
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

/* After its state: who clears the bit then looks at the state. */
static void mark_wanted(struct target *t)
{
	fetch_or_acq_rel(&t->host->wanted[t->slot / 64], UINT64_C(1) << t->slot % 64);
}

/* A dead one makes place for a new process, unless a sender still waits on it to hear of the
 * death. */
static bool replaceable(const struct target *t)
{
	return !t || (load_relaxed(&t->state) == TARGET_DEAD && !host_wait_any(&t->waiters));
}

/* The target of @slot, but for one that makes place; a reference. */
static struct target *target_of(struct host *h, unsigned int slot)
{
	struct target *t;

	spin_lock(&h->table_lock);
	t = h->target[slot];
	if (replaceable(t))
		t = NULL;
	else
		fetch_add_relaxed(&t->d.refs, 1);
	spin_unlock(&h->table_lock);
	return t;
}

/* The same, or a new one. NULL: no memory. */
static struct target *target_make(struct host *h, unsigned int slot)
{
	struct target *fresh = target_new(h, slot), *t, *old = NULL;

	if (!fresh)
		return NULL;
	spin_lock(&h->table_lock);
	t = h->target[slot];
	if (replaceable(t)) {
		old = t;
		t = fresh;
		if (old && !old->cookie)
			t->layout = load_relaxed(&old->layout);
		h->target[slot] = t;
		fresh = NULL;
	}
	fetch_add_relaxed(&t->d.refs, 1);
	spin_unlock(&h->table_lock);
	host_target_put(old);
	host_target_put(fresh);
	return t;
}

/* A dead one is wanted, too: senders have yet to hear of its death, and then another takes its
 * place (host_ask.c). */
static void want(struct target *t)
{
	uint32_t idle = TARGET_IDLE, state = load_relaxed(&t->state);

	if (state == TARGET_DEAD ||
	    (state == TARGET_IDLE && cas_acq_rel(&t->state, &idle, TARGET_WANTED))) {
		mark_wanted(t);
		host_chore(t->host);
	}
}

int host_target(struct host *h, unsigned int slot, bool wanted, struct target **out)
{
	struct target *t = target_of(h, slot);

	if (!t)
		t = target_make(h, slot);
	if (!t)
		return ENOMEM;
	if (wanted)
		want(t);
	*out = t;
	return 0;
}

static bool same_process(struct target *t, const struct target *old)
{
	return load_acquire(&t->state) == TARGET_UP && t->cookie == old->cookie &&
	       t->pid == old->pid;
}

int host_target_again(struct host *h, const struct target *old, struct target **out)
{
	struct target *t;
	int err = host_target(h, old->slot, true, &t);

	if (err)
		return err;
	if (t == old || (old->cookie && !same_process(t, old))) {
		host_target_put(t);
		return EAGAIN;
	}
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
	if (state == TARGET_UP) {
		t->c = c;
		t->cookie = c->cookie;
		t->pid = c->name.pid;
		store_relaxed(&t->d.process, c->number);
		t->host->risen |= t->host->buried;
	}
	if (state == TARGET_DEAD) {
		t->host->buried = true;
		store_relaxed(&t->d.max_ref, 0);
		store_relaxed(&t->d.process, 0);
		store_relaxed(&t->d.dead, true);
	}
	store_release(&t->state, state); /* pairs with try_send() in shm.c */
	if (state == TARGET_WANTED)
		mark_wanted(t);
}
