// SPDX-License-Identifier: MIT
#include "peers/contact_grow.h"
#include <errno.h>
#include <unistd.h>
#include "peers/contact_ring.h"
#include "peers/contact_talk.h"
#include "peers/host_state.h"
#include "util/quiesce.h"

int contact_take_ring(struct contact *c, uint32_t size, int fd)
{
	struct ring_end next;
	int err = ring_end_map(&next, size, fd);
	bool taken;

	if (err) /* no memory now: the small ring goes on */
		return err == EPROTO ? EPROTO : 0;
	spin_lock(&c->out_lock);
	taken = !c->out_next.map && size > c->out.ring.size;
	if (taken)
		c->out_next = next;
	spin_unlock(&c->out_lock);
	if (!taken) {
		ring_end_unmap(&next);
		return EPROTO;
	}
	contact_has_space(c);
	return 0;
}

/* False: a thread that drains has the lock, as long as a copy lasts. */
static bool lock_or_later(struct contact *c, uint64_t now)
{
	if (spin_trylock(&c->in_lock))
		return true;
	host_sooner(c->host, now + HOST_GRACE_NS);
	return false;
}

static void unmap_old(struct contact *c, uint64_t now)
{
	struct ring_end old, none = { 0 };

	if (!load_relaxed(&c->in_old.map))
		return; /* leaves the lock to threads that drain; moved() comes back with a chore */
	if (!lock_or_later(c, now))
		return;
	spin_unlock(&c->in_lock); /* the drain that has gone on in the new ring is over */
	/* a thread may be looking at its next word */
	if (!host_quiet(c->host, &c->in_old_grace, now) || !lock_or_later(c, now))
		return;
	old = c->in_old;
	contact_set_old(c, &none);
	spin_unlock(&c->in_lock);
	ring_end_give_back(&old);
}

static uint32_t wish(struct contact *c, uint64_t now)
{
	uint32_t size = 0;

	if (load_relaxed(&c->wanted) < CONTACT_WANTED_MANY || !lock_or_later(c, now))
		return 0;
	if (c->wanted >= CONTACT_WANTED_MANY && !c->in_next.map && !c->in_old.map &&
	    c->in.ring.size < RING_MAX)
		size = c->in.ring.size * 2;
	spin_unlock(&c->in_lock);
	return size;
}

/* The offer did not leave: a peer that has gone on in that ring meanwhile lies. */
static void take_back(struct contact *c, struct ring_end *offered)
{
	bool still;

	spin_lock(&c->in_lock);
	still = c->in_next.map == offered->map;
	if (still)
		c->in_next = (struct ring_end){ 0 };
	spin_unlock(&c->in_lock);
	if (still)
		ring_end_give_back(offered);
	else
		contact_break(c, "it goes on in a ring that was not offered to it");
}

/* Before the peer can say MOVED. */
static bool await(struct contact *c, const struct ring_end *next, uint64_t now)
{
	if (!lock_or_later(c, now))
		return false;
	c->in_next = *next;
	store_relaxed(&c->wanted, 0);
	spin_unlock(&c->in_lock);
	return true;
}

void contact_grow(struct contact *c, uint64_t now)
{
	struct ring_end next;
	uint32_t size;
	int fd;

	unmap_old(c, now);
	size = wish(c, now);
	if (!size)
		return;
	if (ring_end_make(&next, size, &fd))
		return; /* no memory now: the small ring goes on */
	if (!await(c, &next, now))
		ring_end_give_back(&next);
	else if (contact_talk_ring(c, size, fd))
		take_back(c, &next);
	close(fd);
}
