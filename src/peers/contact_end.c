// SPDX-License-Identifier: MIT
#include "peers/contact_end.h"
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include "peers/contact_claim.h"
#include "peers/contact_ring.h"
#include "peers/contact_talk.h"
#include "peers/host_contacts.h"
#include "peers/host_state.h"
#include "peers/host_target.h"
#include "util/quiesce.h"
#include "util/uncancelled.h"

enum { BUDGET = 64, LAST_RECORDS = 2 * RING_MAX / RING_LINE };

/* Delivers what the peer published before it ended; not all that one publishes which goes on. What
 * lacks a receive does not stay: the ring is soon gone. */
static void last_words(struct contact *c)
{
	unsigned int left = LAST_RECORDS, done;
	bool patient = host_patience(false);

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
	host_patience(patient);
}

/* All destinations that lead to @c are dead. */
static void bury_targets(struct host *h, struct contact *c)
{
	struct target *t;

	for (unsigned int slot = 0; slot < NUMBER_SLOTS; slot++) {
		t = host_target_now(h, slot);
		if (t && load_relaxed(&t->state) == TARGET_UP && t->c == c) {
			t->deadline = 0;
			host_target_settle(t, TARGET_DEAD, NULL);
			if (c->n_buried < HOST_PAGE_SLOTS)
				c->buried[c->n_buried++] = (uint16_t)slot;
		}
		host_target_put(t);
	}
}

/* What waits for an answer of the peer hears that none will come. */
static void report(struct host *h, const struct contact *c)
{
	for (unsigned int i = 0; i < c->n_buried && h->cfg.peer_dead; i++)
		h->cfg.peer_dead(h->cfg.arg, c->buried[i]);
}

/* A peer that leaves first waits until none of its threads is in our memory. */
static bool peer_left(const struct contact *c)
{
	struct pollfd conn = { .fd = c->conn.fd, .events = POLLRDHUP };
	int got;

	UNCANCELLED(got, poll(&conn, 1, 0));
	return got > 0 || !remote_alive(c->remote);
}

/* No thread of ours is in its rings or its memory. The peer hears of the end, and leaves. */
static void retire(struct host *h, struct contact *c)
{
	c->retires = false;
	shutdown(c->conn.fd, SHUT_WR);
	host_sooner(h, 0); /* contact_end_retired() is due */
}

/* Before @c is out of contact[]: a child that is forked meanwhile closes the descriptors of all
 * contacts that it finds. */
static void add_leaving(struct host *h, struct contact *c)
{
	c->next = h->leaving;
	h->leaving = c;
}

static void pending_leaves(struct host *h, struct contact *c)
{
	mutex_lock(&h->names_lock);
	host_contacts_off_pending(h, c);
	add_leaving(h, c);
	mutex_unlock(&h->names_lock);
	host_contacts_unlist(h, c);
}

/* A fork() comes before it or behind it. */
static void off_leaving(struct host *h, struct contact **at)
{
	struct contact *c = *at;

	mutex_lock(&h->names_lock);
	*at = c->next;
	if (!c->retires)
		contact_hang_up(c);
	mutex_unlock(&h->names_lock);
}

/* False: a thread of ours may still be inside. */
static bool gone(struct host *h, struct contact **at, uint64_t now)
{
	struct contact *c = *at;

	if (!host_quiet(h, &c->grace, now))
		return false;
	report(h, c);
	c->n_buried = 0;
	off_leaving(h, at);
	if (c->retires)
		retire(h, c);
	else
		contact_free(c);
	return true;
}

/* @c is the first of those that leave. From now on no thread finds its way in. Those that are
 * inside may put something into the rings: what waits for an answer hears of the end when they have
 * left, and, if that lasts, at once. */
static void end(struct host *h, struct contact *c, uint64_t now)
{
	host_mute(h, &c->conn);
	host_mute(h, &c->pidfd);
	contact_claim_free(c);
	if (!gone(h, &h->leaving, now))
		report(h, c);
}

void contact_end_leaving(struct host *h, uint64_t now)
{
	struct contact **p = &h->leaving, *c;

	while ((c = *p))
		if (!gone(h, p, now))
			p = &c->next;
}

void contact_end_retired(struct host *h, struct contact *c, uint64_t now)
{
	if (c->retires)
		return;
	if (!peer_left(c)) {
		host_sooner(h, now + HOST_LIVENESS_NS);
		return;
	}
	add_leaving(h, c);
	host_contacts_unlist(h, c);
	end(h, c, now);
}

void contact_end_up(struct host *h, struct contact *c, uint64_t now)
{
	c->retires = contact_reaches(c) && !peer_left(c);
	last_words(c);
	store_relaxed(&h->ups, h->ups - 1);
	bury_targets(h, c);
	add_leaving(h, c);
	if (c->retires)
		store_release(&c->state, CONTACT_RETIRED); /* is_inside() still sees it */
	else
		host_contacts_unlist(h, c);
	end(h, c, now);
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

void contact_end_pending(struct host *h, struct contact *c, uint64_t now)
{
	pending_leaves(h, c);
	ask_again(h, c);
	end(h, c, now);
}

static void leave_fd(int *fd)
{
	contact_talk_close(fd, 1);
	*fd = -1;
}

/* The peer believes that what comes through the connection is the parent's. */
static void abandon(struct contact *c)
{
	if (c->remote)
		remote_leave(c->remote);
	leave_fd(&c->memory);
	leave_fd(&c->conn.fd);
	leave_fd(&c->pidfd.fd);
	leave_fd(&c->bell);
	if (c->claim)
		leave_fd(&c->claim->owner.fd);
}

static void abandon_list(struct contact *c)
{
	for (; c; c = c->next)
		abandon(c);
}

void contact_leave_all(struct host *h)
{
	abandon_list(h->pending);
	abandon_list(h->leaving);
	for (uint32_t i = 0; i < h->top; i++)
		if (h->contact[i])
			abandon(h->contact[i]);
}

void contact_end_all(struct host *h)
{
	struct contact *c;

	while ((c = h->pending))
		pending_leaves(h, c);
	for (uint32_t i = 0; i < h->top; i++) {
		c = h->contact[i];
		if (!c)
			continue;
		if (!c->retires) /* else it is in the list */
			add_leaving(h, c);
		host_contacts_unlist(h, c);
	}
	quiesce_wait();
	for (; (c = h->leaving); contact_free(c))
		off_leaving(h, &h->leaving);
}
