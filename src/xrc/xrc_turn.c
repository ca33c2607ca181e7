// SPDX-License-Identifier: MIT
#include "xrc/xrc_turn.h"
#include <errno.h>
#include <sched.h>
#include <time.h>
#include "engine/path.h"
#include "engine/turn.h"
#include "obs/explain.h"
#include "xrc/xrc_member.h"

enum {
	SPINS = 64, /* tries before other threads get the core */
	TRIES = 256,
	CALL_MS = 2000, /* that a call waits */
};

/* The member @dead died in its turn, and how far it came is not known. True: the turn is ours
 * now. */
static bool take_over(struct xrc_target *x, uint32_t dead)
{
	struct xrc_shared *t = xrc_turn_shared(x);

	if (!cas_acq_rel(&t->turn, &dead, x->domain->word))
		return false;
	t->state.state = IBV_QPS_ERR;
	t->moves++;
	t->died = dead;
	x->e.q.cause = reason("XRC target QP 0x%x: a process of its domain died while it worked on "
			      "it, so what it has received is not known: it is in ERR; take it "
			      "through RESET and connect both sides anew",
			      t->qpn);
	return true;
}

bool xrc_turn_begin(struct xrc_target *x)
{
	struct xrc_shared *t = xrc_turn_shared(x);

	for (unsigned int i = 0; i < TRIES; i++) {
		uint32_t owner = 0;

		if (likely(cas_acq_rel(&t->turn, &owner, x->domain->word))) {
			x->inside = true;
			return true;
		}
		if (i < SPINS) {
			cpu_relax();
			continue;
		}
		if (!(i % SPINS) && !xrc_member_lives(x->domain, owner) && take_over(x, owner)) {
			x->inside = true;
			return true;
		}
		sched_yield();
	}
	return false;
}

void xrc_turn_end(struct xrc_target *x)
{
	x->inside = false;
	store_release(&xrc_turn_shared(x)->turn, 0); /* pairs with xrc_turn_begin() of the next */
}

int xrc_turn_call(struct xrc_target *x, const char *call)
{
	const struct timespec nap = { .tv_nsec = 1000000 };

	for (unsigned int ms = 0; ms < CALL_MS; ms++) {
		quiesce_enter();
		turn_take(&x->e);
		if (xrc_turn_begin(x))
			return 0;
		turn_leave(&x->e);
		quiesce_exit();
		nanosleep(&nap, NULL);
	}
	return refuse(ETIMEDOUT,
		      "%s: a process of the XRC domain has been at work on QP 0x%x for %d ms; let "
		      "it go on (is it stopped?)",
		      call, x->e.q.qp.qpn, CALL_MS);
}

void xrc_turn_return(struct xrc_target *x)
{
	xrc_turn_end(x);
	turn_leave(&x->e);
	quiesce_exit();
}

int xrc_turn_catch_up(struct xrc_target *x, uint64_t now)
{
	struct xrc_shared *t = xrc_turn_shared(x);
	bool moved = t->gen != x->gen || t->moves != x->moves;
	int err;

	if (likely(t->last == x->domain->word && !moved))
		return 0;
	if (moved) {
		tqp_settle(&x->e.q); /* answers wait there to leave together */
		path_swap(&x->e, NULL);
	}
	err = xrc_load(&x->e.q, &t->state, moved, now);
	if (err)
		return err;
	x->e.q.qp.qpn = x->e.q.qp.shown = t->qpn;
	x->gen = t->gen;
	x->moves = t->moves;
	t->last = x->domain->word;
	return 0;
}
