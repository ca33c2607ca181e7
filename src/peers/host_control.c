// SPDX-License-Identifier: MIT
/* What is not for each message: contacts begin, are served, and end. One thread at a time. */
#include <sys/epoll.h>
#include "peers/contact_alive.h"
#include "peers/contact_end.h"
#include "peers/contact_grow.h"
#include "peers/contact_hello.h"
#include "peers/contact_ring.h"
#include "peers/host_ask.h"
#include "peers/host_cast.h"
#include "peers/host_resume.h"
#include "peers/host_state.h"
#include "peers/host_strangers.h"

enum { EVENTS = 64 };

static void serve(struct host *h, uint64_t now)
{
	struct epoll_event ev;

	/* One at a time: serving one may end another. */
	for (int i = 0; i < EVENTS && epoll_wait(h->epoll, &ev, 1, 0) == 1; i++) {
		struct watch *w = ev.data.ptr;

		w->ready(w, now);
	}
}

static void end_all_pending(struct host *h, uint64_t now)
{
	struct contact *c, *next;

	for (c = h->pending; c; c = next) {
		next = c->next;
		if (c->broken || (now >= c->deadline && !contact_put_off(h, c, now)))
			contact_end_pending(h, c, now);
		else
			host_sooner(h, c->deadline);
	}
}

static void contact_tend(struct contact *c, uint64_t now)
{
	contact_tell(c, now);
	contact_ring_anew(c, now);
	contact_grow(c, now);
	contact_share_ask(c);
	contact_share_tend(c, now);
}

static void tend_up(struct host *h, struct contact *c, uint64_t now)
{
	contact_look_alive(c, now);
	if (load_acquire(&c->broken))
		contact_end_up(h, c, now);
	else
		contact_tend(c, now);
}

static void tend_contacts(struct host *h, uint64_t now)
{
	for (uint32_t i = 0; i < h->top; i++) {
		struct contact *c = h->contact[i];

		if (c && c->state == CONTACT_UP)
			tend_up(h, c, now);
		else if (c && c->state == CONTACT_RETIRED)
			contact_end_retired(h, c, now);
	}
}

void host_control(struct host *h, uint64_t now)
{
	bool risen;

	if (mutex_trylock(&h->control))
		return;
	store_relaxed(&h->deadline, UINT64_MAX);
	store_release(&h->chores, 0);
	full_fence(); /* a chore that is announced from here on is a new one */
	host_watch_again(h, now);
	serve(h, now);
	host_ask_targets(h, now);
	contact_end_leaving(h, now);
	end_all_pending(h, now);
	tend_contacts(h, now);
	host_strangers_look(h);
	risen = h->risen && h->cfg.peer_up;
	h->risen = false;
	mutex_unlock(&h->control);
	if (risen)
		h->cfg.peer_up(h->cfg.arg);
	host_resume(h);
	host_cast_resume(h);
}

uint64_t host_deadline(struct host *h)
{
	return load_acquire(&h->chores) ? 0 : load_relaxed(&h->deadline);
}
