// SPDX-License-Identifier: MIT
#include "engine/unrung.h"
#include "engine/unrung_look.h"
#include "engine/wake.h"
#include "util/clock.h"
#include "util/page_trap.h"

#define NAP_FIRST 20000ULL /* ns: after a look that has found something */
#define NAP_LAST  1000000ULL /* while nothing comes */

/* An engine thread that looks all the time would take the lock again before anybody else. */
static void come(struct node *n)
{
	fetch_add_relaxed(&n->unrung.comers, 1);
	pthread_mutex_lock(&n->unrung.lock);
	fetch_sub_acq_rel(&n->unrung.comers, 1);
}

void unrung_add(struct unrung *u, bool (*look)(struct unrung *u))
{
	struct node *n = node_self();

	come(n);
	if (!unrung_is(u)) {
		u->look = look;
		list_add_tail(&n->unrung.all, &u->at);
		store_release(&u->node, n);
		store_relaxed(&n->unrung.nap, NAP_FIRST);
		store_relaxed(&n->unrung.due, 0);
	}
	pthread_mutex_unlock(&n->unrung.lock);
	wake_engine(n);
}

void unrung_del(struct unrung *u)
{
	struct node *n = load_acquire(&u->node);

	if (likely(!n))
		return;
	come(n);
	list_del(&u->at);
	store_release(&u->node, NULL);
	if (list_empty(&n->unrung.all))
		store_relaxed(&n->unrung.due, UINT64_MAX);
	pthread_mutex_unlock(&n->unrung.lock);
}

void unrung_soon(void)
{
	struct node *n = node_self();

	if (!n || load_relaxed(&n->unrung.due) == UINT64_MAX)
		return;
	store_release(&n->unrung.due, 0); /* (A) */
	wake_engine(n);
}

void unrung_spins(enum unrung_spin how)
{
	store_relaxed(&node_self()->unrung.spin, how);
}

void unrung_ask(void)
{
	struct node *n = node_self();

	if (n && !load_relaxed(&n->unrung.asked))
		store_relaxed(&n->unrung.asked, true);
}

static bool look_at_all(struct node *n)
{
	struct list *at;
	bool found = false;

	list_for_each(at, &n->unrung.all)
	{
		struct unrung *u = container_of(at, struct unrung, at);

		found |= u->look(u);
	}
	if (found)
		store_relaxed(&n->unrung.asked, true);
	return found;
}

bool unrung_look_now(struct node *n)
{
	bool found;

	if (unlikely(load_relaxed(&n->unrung.comers)))
		return false;
	pthread_mutex_lock(&n->unrung.lock);
	found = look_at_all(n);
	pthread_mutex_unlock(&n->unrung.lock);
	return found;
}

void unrung_look(struct node *n)
{
	uint64_t due = unrung_due(n), looking = UINT64_MAX - 1, nap, next;

	if (likely(due == UINT64_MAX) || due > clock_now())
		return;
	page_trap_recheck();
	pthread_mutex_lock(&n->unrung.lock);
	xchg_acq_rel(&n->unrung.due,
		     looking); /* (A) what comes from now on asks for another look */
	nap = look_at_all(n) ? NAP_FIRST : n->unrung.nap * 2;
	if (nap > NAP_LAST)
		nap = NAP_LAST;
	n->unrung.nap = nap;
	next = list_empty(&n->unrung.all) ? UINT64_MAX : clock_now() + nap;
	cas_acq_rel(&n->unrung.due, &looking, next);
	pthread_mutex_unlock(&n->unrung.lock);
}
