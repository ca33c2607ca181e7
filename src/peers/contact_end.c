// SPDX-License-Identifier: MIT
#include "peers/contact_end.h"
#include <sched.h>
#include "peers/contact_ring.h"
#include "peers/contact_talk.h"
#include "peers/host_contacts.h"
#include "peers/host_state.h"
#include "peers/host_target.h"
#include "util/quiesce.h"

enum { BUDGET = 64, LAST_RECORDS = 2 * RING_MAX / RING_LINE };

/* Delivers what the peer published before it ended; not all that one publishes which goes on. */
static void last_words(struct contact *c)
{
	unsigned int left = LAST_RECORDS, done;

	quiesce_enter();
	while (left && contact_readable(c)) {
		done = contact_drain(c, left < BUDGET ? left : BUDGET);
		if (!done)
			sched_yield(); /* another thread drains it */
		left -= done ? done : 1;
	}
	if (c->host->cfg.drained)
		c->host->cfg.drained(c->host->cfg.arg);
	quiesce_exit();
}

/* All destinations that lead to @c are dead; their slots, and how many. */
static unsigned int bury_targets(struct host *h, const struct contact *c, unsigned int *slots)
{
	unsigned int n = 0;
	struct target *t;

	for (unsigned int slot = 0; slot < NUMBER_SLOTS; slot++) {
		t = host_target_now(h, slot);
		if (t && load_relaxed(&t->state) == TARGET_UP && t->c == c) {
			t->deadline = 0;
			host_target_settle(t, TARGET_DEAD, NULL);
			if (n < HOST_PAGE_SLOTS)
				slots[n++] = slot;
		}
		host_target_put(t);
	}
	return n;
}

void contact_end_up(struct host *h, struct contact *c)
{
	unsigned int slots[HOST_PAGE_SLOTS], n;

	last_words(c);
	store_relaxed(&h->ups, h->ups - 1);
	n = bury_targets(h, c, slots);
	host_contacts_unlist(h, c);
	quiesce_wait(); /* then no thread of ours is in its rings or its memory */
	for (unsigned int i = 0; i < n && h->cfg.peer_dead; i++)
		h->cfg.peer_dead(h->cfg.arg, slots[i]);
	contact_free(c);
}

static void ask_again(struct host *h, const struct contact *c)
{
	if (!c->asked || load_relaxed(&c->asked->state) != TARGET_ASKING)
		return;
	host_target_settle(c->asked, TARGET_WANTED, NULL);
	host_sooner(h, c->asked->retry);
}

bool contact_put_off(struct host *h, struct contact *c, uint64_t now)
{
	if (c->broken || c->state != CONTACT_ASKED || !contact_talk_unread(c->conn.fd))
		return false;
	ask_again(h, c);
	c->deadline = now + HOST_CONTACT_NS;
	return true;
}

void contact_end_pending(struct host *h, struct contact *c)
{
	host_contacts_off_pending(h, c);
	ask_again(h, c);
	host_contacts_unlist(h, c);
	quiesce_wait();
	contact_free(c);
}

void contact_leave_all(struct host *h)
{
	for (struct contact *c = h->pending; c; c = c->next)
		if (c->remote)
			remote_leave(c->remote);
	for (uint32_t i = 0; i < h->top; i++)
		if (h->contact[i] && h->contact[i]->remote)
			remote_leave(h->contact[i]->remote);
}

void contact_end_all(struct host *h)
{
	while (h->pending)
		contact_end_pending(h, h->pending);
	for (uint32_t i = 0; i < h->top; i++) {
		struct contact *c = h->contact[i];

		if (!c)
			continue;
		host_contacts_unlist(h, c);
		quiesce_wait();
		contact_free(c);
	}
}
