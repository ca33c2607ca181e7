// SPDX-License-Identifier: MIT
/* Contacts: begun, served, ended. All of it under host->control, in whatever thread came first. */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include "link/fault.h"
#include "peers/host_state.h"
#include "util/log.h"
#include "util/quiesce.h"

enum { EVENTS = 64, LAST_RECORDS = 2 * RING_MAX / RING_LINE };

void host_chore(struct host *h)
{
	if (!load_relaxed(&h->chores) && !xchg_acq_rel(&h->chores, 1))
		host_ring_self(h);
}

static void accept_ready(struct watch *w, uint64_t now)
{
	struct listener *l = container_of(w, struct listener, watch);
	int conn = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (conn >= 0)
		contact_accept(l->host, conn, now);
	else if (errno != EAGAIN)
		log_debug("a contact was not accepted: %s", strerror(errno));
}

int host_listen(struct host *h, struct listener *l)
{
	return host_watch(h, &l->watch, accept_ready);
}

static void serve(struct host *h, uint64_t now)
{
	struct epoll_event ev;

	/* One at a time: serving one may end another. */
	for (int i = 0; i < EVENTS && epoll_wait(h->epoll, &ev, 1, 0) == 1; i++) {
		struct watch *w = ev.data.ptr;

		w->ready(w, now);
	}
}

/* Is it being made from their side? Then ours is not needed. */
static bool coming(const struct host *h, unsigned int slot)
{
	for (uint32_t i = 0; i < h->top; i++)
		if (h->contact[i] && h->contact[i]->slot == slot && !h->contact[i]->broken)
			return true;
	return false;
}

static void ask(struct host *h, struct target *t, uint64_t now)
{
	int err;

	if (!t->deadline)
		t->deadline = now + HOST_CONTACT_NS;
	if (now >= t->deadline) {
		host_target_settle(t, TARGET_DEAD, NULL);
		return;
	}
	if (now < t->retry)
		return;
	t->retry = now + HOST_RETRY_NS;
	if (coming(h, t->slot))
		return;
	err = h->alone ? ECONNREFUSED : contact_ask(h, t, now);
	if (!err) {
		host_target_settle(t, TARGET_ASKING, NULL);
	} else if (err != EAGAIN) {
		log_debug("slot %u does not answer: %s", t->slot, strerror(err));
		t->deadline = 0;
		host_target_settle(t, TARGET_DEAD, NULL);
	}
}

static void sooner(struct host *h, uint64_t at)
{
	if (at < h->deadline)
		store_relaxed(&h->deadline, at);
}

static void ask_targets(struct host *h, uint64_t now)
{
	struct target *t;

	for (unsigned int slot = 0; slot < NUMBER_SLOTS; slot++) {
		if (!load_relaxed(&h->target[slot]))
			continue;
		t = host_target_now(h, slot);
		if (load_relaxed(&t->state) == TARGET_WANTED)
			ask(h, t, now);
		if (load_relaxed(&t->state) == TARGET_WANTED)
			sooner(h, t->retry < t->deadline ? t->retry : t->deadline);
		host_target_put(t);
	}
}

static void off_pending(struct host *h, struct contact *c)
{
	for (struct contact **p = &h->pending; *p; p = &(*p)->next) {
		if (*p != c)
			continue;
		*p = c->next;
		return;
	}
}

/* Many peers: they tell by mail which ring has something. */
static void use_mail(struct host *h)
{
	uint32_t old = load_relaxed(&h->page->mode);

	while (!cas_acq_rel(&h->page->mode, &old, old | HOST_MODE_MAIL))
		;
	full_fence(); /* who has not seen it has stored its record already */
	for (uint32_t i = 0; i < h->top; i++)
		if (h->contact[i])
			fetch_or_acq_rel(&h->mail[i / 64], UINT64_C(1) << i % 64);
}

void host_contact_up(struct contact *c)
{
	struct host *h = c->host;

	off_pending(h, c);
	host_target_settle(c->home, TARGET_UP, c);
	if (c->asked && c->asked != c->home)
		host_target_settle(c->asked, TARGET_UP, c);
	/* last: from here on its records are read, and what they refer to is fetched by @home */
	store_release(&c->state, CONTACT_UP); /* pairs with drain_one() */
	host_target_put(c->asked);
	c->asked = NULL;
	h->ups++;
	if (h->ups > HOST_DIRECT_PEERS)
		use_mail(h);
}

static bool gone(const struct contact *c)
{
	return !c->remote || !remote_alive(c->remote);
}

void host_pid_ready(struct watch *w, uint64_t now)
{
	struct contact *c = container_of(w, struct contact, pidfd);

	(void)now;
	if (gone(c))
		contact_left(c);
	else
		host_unwatch(c->host, w); /* it is not the process whose memory we have */
}

/* What a peer published before it ended arrives. */
static void last_words(struct contact *c)
{
	quiesce_enter();
	for (unsigned int n = 0; n < LAST_RECORDS && contact_readable(c); n++)
		if (!contact_drain(c, EVENTS))
			sched_yield(); /* another thread has it in hand */
	if (c->host->cfg.drained)
		c->host->cfg.drained(c->host->cfg.arg);
	quiesce_exit();
}

/* All destinations that lead to @c; how many. */
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

static void unlist(struct host *h, struct contact *c)
{
	if (c->index == NUMBER_SLOTS)
		return;
	store_release(&h->contact[c->index], NULL);
	while (h->top && !h->contact[h->top - 1])
		store_release(&h->top, h->top - 1);
}

static void end_up(struct host *h, struct contact *c)
{
	unsigned int slots[HOST_PAGE_SLOTS], n;

	last_words(c);
	h->ups--;
	n = bury_targets(h, c, slots);
	unlist(h, c);
	quiesce_wait(); /* nobody of us is in its rings or its memory any more */
	for (unsigned int i = 0; i < n && h->cfg.peer_dead; i++)
		h->cfg.peer_dead(h->cfg.arg, slots[i]);
	contact_free(c);
}

/* A handshake that came to nothing: whom it was for is asked again, until its deadline. */
static void end_pending(struct host *h, struct contact *c)
{
	off_pending(h, c);
	if (c->asked && load_relaxed(&c->asked->state) == TARGET_ASKING) {
		host_target_settle(c->asked, TARGET_WANTED, NULL);
		sooner(h, c->asked->retry);
	}
	unlist(h, c);
	quiesce_wait();
	contact_free(c);
}

static void end_all_pending(struct host *h, uint64_t now)
{
	struct contact *c, *next;

	for (c = h->pending; c; c = next) {
		next = c->next;
		if (c->broken || now >= c->deadline)
			end_pending(h, c);
		else
			sooner(h, c->deadline);
	}
}

/* Where the kernel tells us nothing about the process (no pid, and its connection may be held by a
 * forked child) its memory is asked now and then. */
static void look_alive(struct host *h, struct contact *c, uint64_t now)
{
	if (c->pidfd.fd >= 0 || !c->remote)
		return;
	if (now >= c->deadline) {
		if (gone(c))
			contact_left(c);
		c->deadline = now + HOST_LIVENESS_NS;
	}
	sooner(h, c->deadline);
}

static void contact_tend(struct contact *c)
{
	contact_grow(c);
	contact_share_ask(c);
}

static void tend_contacts(struct host *h, uint64_t now)
{
	for (uint32_t i = 0; i < h->top; i++) {
		struct contact *c = h->contact[i];

		if (!c || c->state != CONTACT_UP)
			continue;
		look_alive(h, c, now);
		if (load_acquire(&c->broken))
			end_up(h, c);
		else
			contact_tend(c);
	}
}

void host_control(struct host *h, uint64_t now)
{
	fault_progress();
	if (pthread_mutex_trylock(&h->control))
		return;
	store_relaxed(&h->deadline, UINT64_MAX);
	store_release(&h->chores, 0);
	full_fence(); /* a chore that is announced from here on is a new one */
	serve(h, now);
	ask_targets(h, now);
	end_all_pending(h, now);
	tend_contacts(h, now);
	pthread_mutex_unlock(&h->control);
	host_resume(h);
	host_cast_resume(h);
}

uint64_t host_deadline(struct host *h)
{
	uint64_t own = load_acquire(&h->chores) ? 0 : load_relaxed(&h->deadline);
	uint64_t late = fault_deadline();

	return own < late ? own : late;
}

void host_end_contacts(struct host *h)
{
	while (h->pending)
		end_pending(h, h->pending);
	for (uint32_t i = 0; i < h->top; i++) {
		struct contact *c = h->contact[i];

		if (!c)
			continue;
		unlist(h, c);
		quiesce_wait();
		contact_free(c);
	}
}
