// SPDX-License-Identifier: MIT
/* Segments for every process: each one that wants such segments gets a copy, and finds the QPs that
 * it is for. The sender waits for room, so a receiver that polls loses none to a full ring. A
 * receiver that is late gets those that fit. */
#include <errno.h>
#include "peers/contact.h"
#include "peers/host_cast.h"
#include "peers/host_state.h"
#include "util/quiesce.h"
#include "util/rand.h"

enum { OURSELVES = 1, OTHERS }; /* cast_way.next: then contact 0, 1, … */

void host_cast_want(struct host *h, enum host_cast what, int delta)
{
	fetch_add_acq_rel(&h->page->wants[what], (uint32_t)delta);
}

void host_cast_meet(struct host *h)
{
	if (host_cast_look(h))
		store_relaxed(&h->cast_look, 1);
}

uint32_t host_cast_circle(const struct host *h)
{
	uint64_t own = h->page->cookie, all = (uint64_t)HOST_LAYOUT << 32 | h->uid;

	return (uint32_t)rand_mix(h->alone ? &own : &all);
}

static bool wanted(const struct host_page *page, const struct seg *s)
{
	return load_relaxed(&page->wants[s->op == FRAME_OP ? HOST_FRAMES : HOST_GROUPS]) != 0;
}

/* @d may have no room; with @w it waits there. */
static int give(struct dest *d, const struct seg *s, struct cast_way *way, struct waiter *w)
{
	int err = d->ops->send(d, s, w);

	if (err != EAGAIN || !w)
		return 0; /* a process that is gone goes without */
	fetch_add_relaxed(&d->refs, 1);
	way->at = d;
	return EAGAIN;
}

static int give_contact(struct contact *c, const struct seg *s, struct cast_way *way,
			struct waiter *w)
{
	struct dest *d;

	if (!c || load_acquire(&c->state) != CONTACT_UP || !c->home || c->name.stranger ||
	    !wanted(c->page, s))
		return 0;
	d = &c->home->d;
	if (likely(!load_relaxed(&c->late)))
		return give(d, s, way, w);
	if (!d->ops->send(d, s, NULL))
		store_relaxed(&c->late, false);
	return 0;
}

/* The next process has had its time. */
static void skip(struct host *h, struct cast_way *way)
{
	struct contact *c;

	way->late = false;
	if (way->next >= OTHERS) {
		quiesce_enter();
		c = load_acquire(&h->contact[way->next - OTHERS]);
		if (c)
			store_relaxed(&c->late, true);
		quiesce_exit();
	}
	way->next++;
}

static int give_others(struct host *h, const struct seg *s, struct cast_way *way, struct waiter *w)
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
	host_cast_meet(h);
	if (likely(!load_relaxed(&h->cast_look)))
		return false;
	store_relaxed(&h->cast_look,
		      0); /* before the look: it may be set again for contacts that begin later */
	full_fence();
	if (!host_cast_wait(h, w))
		return false;
	store_relaxed(&h->cast_look, 1);
	return true;
}

int host_cast_send(struct host *h, const struct seg *s, struct cast_way *way, struct waiter *w)
{
	int err = 0;

	if (unlikely(way->late))
		skip(h, way);
	if (!way->next) {
		if (meeting(h, w)) {
			fetch_add_relaxed(&h->all.refs, 1);
			way->at = &h->all;
			return EAGAIN;
		}
		way->next = OURSELVES;
	}
	if (way->next == OURSELVES) {
		if (wanted(h->page, s))
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
