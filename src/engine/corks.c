// SPDX-License-Identifier: MIT
#include "engine/corks.h"
#include "engine/wake.h"

enum {
	CLOSE = 20000, /* ns from one post to the next that may wait for more */
	DELAY = 50000, /* ns */
	BURSTS_MOST = 4096, /* the same for a program whose polls come too late each time */
};

bool corks_used;

/* The first post behind a poll: did the burst before it end in time? */
static void judge(struct eqp *e)
{
	struct eqp_cork *c = &e->cork;

	if (load_relaxed(&c->late)) {
		store_relaxed(&c->late, false);
		c->bursts = 0;
		c->need = c->need < BURSTS_MOST ? c->need * 2 : BURSTS_MOST;
	} else if (c->waited) {
		c->need = c->need / 2;
	} else if (c->posts && c->bursts < c->need) {
		c->bursts++;
	}
	if (!c->need)
		c->need = 1;
	c->waited = false;
	c->posts = 0;
}

/* Have polls come behind all its last bursts of posts? */
static bool polls_follow(struct eqp *e)
{
	const struct node *n = e->node;
	uint32_t polls = load_relaxed(&n->poll_seq) + load_relaxed(&n->glances);
	struct eqp_cork *c = &e->cork;

	if (c->polls != polls) {
		c->polls = polls;
		judge(e);
		return false;
	}
	if (c->posts < UINT16_MAX)
		c->posts++;
	return c->need && c->bursts >= c->need && !load_relaxed(&c->late);
}

static void list(struct eqp *e)
{
	struct node *n = e->node;

	if (load_acquire(&e->cork.listed)) /* pairs with corks_unlist() */
		return;
	store_relaxed(&e->cork.listed, true); /* only under the QP's turn */
	fetch_add_relaxed(&n->corks, 1);
	e->cork.next = load_relaxed(&n->corked);
	if (!e->cork.next)
		store_relaxed(&n->cork_end, load_relaxed(&e->cork.last) + DELAY);
	/* seq_cst: before corks_wait() looks who would end it */
	while (!cas_seq_cst(&n->corked, &e->cork.next, e))
		;
}

/* A thread that is blocked or rests does not poll, and the engine thread leaves it what is due: the
 * list is looked at in its time. */
static bool others_sleep(const struct node *n)
{
	return load_relaxed(&n->led) || load_seq_cst(&n->resting);
}

bool corks_wait(struct tqp *q, uint64_t now)
{
	struct eqp *e = to_eqp(q);
	struct node *n = e->node;
	bool close = now - load_relaxed(&e->cork.last) < CLOSE;

	store_relaxed(&e->cork.last, now);
	if (unlikely(!load_relaxed(&corks_used)))
		store_relaxed(&corks_used, true);
	if (!polls_follow(e) || !close || others_sleep(n) || load_relaxed(&n->corks) >= CORKS_MOST)
		return false;
	/* An engine thread that sleeps keeps no deadline: it finds that the program polls, and naps
	 * from then on. */
	if (unlikely(load_relaxed(&n->asleep) != LOOP_AWAKE)) {
		wake_kick(n);
		return false;
	}
	list(e);
	if (load_seq_cst(&n->asleep) != LOOP_AWAKE || others_sleep(n))
		return false; /* they may have looked at the list before */
	e->cork.waited = true;
	return true;
}

uint64_t corks_deadline(const struct node *n)
{
	return likely(!load_relaxed(&n->corked)) ? UINT64_MAX : load_relaxed(&n->cork_end);
}

struct eqp *corks_take_all(struct node *n)
{
	return xchg_acq_rel(&n->corked, NULL);
}

struct eqp *corks_unlist(struct eqp *e, uint64_t now)
{
	struct eqp *next = e->cork.next;

	if (now >= load_relaxed(&e->cork.last) + DELAY)
		store_relaxed(&e->cork.late, true);
	fetch_sub_acq_rel(&e->node->corks, 1);
	store_release(&e->cork.listed, false);
	return next;
}
