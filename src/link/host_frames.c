// SPDX-License-Identifier: MIT
/* Ethernet frames inside the host: each process that wants any gets a copy, and steers it by its
 * own rules. Unlike multicast a frame waits for room: a receiver that polls loses none to a full
 * ring. */
#include <errno.h>
#include "link/host_state.h"
#include "util/quiesce.h"

enum { OURSELVES = 1, OTHERS }; /* frame_way.next: then contact 0, 1, … */

void host_frames_want(struct host *h, int delta)
{
	fetch_add_acq_rel(&h->page->frames, (uint32_t)delta);
}

/* @d may have no room; with @w it waits there. */
static int give(struct dest *d, const struct seg *s, struct frame_way *way, struct waiter *w)
{
	int err = d->ops->send(d, s, w);

	if (err != EAGAIN || !w)
		return 0; /* who is gone goes without */
	fetch_add_relaxed(&d->refs, 1);
	way->at = d;
	return EAGAIN;
}

static int give_contact(struct contact *c, const struct seg *s, struct frame_way *way,
			struct waiter *w)
{
	if (!c || load_acquire(&c->state) != CONTACT_UP || !c->home ||
	    !load_relaxed(&c->page->frames))
		return 0;
	return give(&c->home->d, s, way, w);
}

static int give_others(struct host *h, const struct seg *s, struct frame_way *way, struct waiter *w)
{
	int err = 0;

	quiesce_enter();
	while (way->next - OTHERS < load_acquire(&h->top)) {
		err = give_contact(load_acquire(&h->contact[way->next - OTHERS]), s, way, w);
		if (err)
			break;
		way->next++;
	}
	quiesce_exit();
	return err;
}

/* True: @w waits for contacts that come up. Whether any does is looked up after each look at the
 * names until none does. */
static bool meeting(struct host *h, struct waiter *w)
{
	if (host_cast_look(h))
		store_relaxed(&h->frames_look, 1);
	if (likely(!load_relaxed(&h->frames_look)))
		return false;
	store_relaxed(&h->frames_look, 0); /* before the look: who sets it now means later ones */
	full_fence();
	if (!host_cast_wait(h, w))
		return false;
	store_relaxed(&h->frames_look, 1);
	return true;
}

int host_frame_send(struct host *h, const struct seg *s, struct frame_way *way, struct waiter *w)
{
	int err = 0;

	if (!way->next) {
		if (meeting(h, w)) {
			fetch_add_relaxed(&h->all.refs, 1);
			way->at = &h->all;
			return EAGAIN;
		}
		way->next = OURSELVES;
	}
	if (way->next == OURSELVES) {
		if (load_relaxed(&h->page->frames))
			err = give(&h->own.d, s, way, w);
		if (err)
			return err;
		way->next = OTHERS;
	}
	err = give_others(h, s, way, w);
	if (!err)
		way->next = 0;
	return err;
}
