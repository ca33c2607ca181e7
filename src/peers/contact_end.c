// SPDX-License-Identifier: MIT
#include "peers/contact_end.h"
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include "peers/contact_ring.h"
#include "peers/contact_talk.h"
#include "peers/host_contacts.h"
#include "peers/host_state.h"
#include "peers/host_target.h"
#include "util/quiesce.h"
#include "util/uncancelled.h"

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

/* A peer that leaves first waits until none of its threads is in our memory. */
static bool peer_left(const struct contact *c)
{
	struct pollfd conn = { .fd = c->conn.fd, .events = POLLRDHUP };
	int got;

	UNCANCELLED(got, poll(&conn, 1, 0));
	return got > 0 || !remote_alive(c->remote);
}

static void take_out(struct host *h, struct contact *c)
{
	host_contacts_unlist(h, c);
	quiesce_wait();
	contact_free(c);
}

void contact_end_retired(struct host *h, struct contact *c, uint64_t now)
{
	if (peer_left(c))
		take_out(h, c);
	else
		host_sooner(h, now + HOST_LIVENESS_NS);
}

/* No thread of ours is in its rings or its memory. The peer hears of the end, and leaves. */
static void retire(struct host *h, struct contact *c)
{
	host_mute(h, &c->conn);
	host_mute(h, &c->pidfd);
	shutdown(c->conn.fd, SHUT_WR);
	host_sooner(h, 0); /* contact_end_retired() is due */
}

void contact_end_up(struct host *h, struct contact *c)
{
	bool retires = contact_reaches(c) && !peer_left(c);
	unsigned int slots[HOST_PAGE_SLOTS], n;

	last_words(c);
	store_relaxed(&h->ups, h->ups - 1);
	n = bury_targets(h, c, slots);
	if (retires)
		store_release(&c->state, CONTACT_RETIRED); /* is_inside() still sees it */
	else
		host_contacts_unlist(h, c);
	quiesce_wait(); /* then no thread of ours is in its rings or its memory */
	for (unsigned int i = 0; i < n && h->cfg.peer_dead; i++)
		h->cfg.peer_dead(h->cfg.arg, slots[i]);
	if (retires)
		retire(h, c);
	else
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
	take_out(h, c);
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
		if (h->contact[i])
			take_out(h, h->contact[i]);
	}
}
