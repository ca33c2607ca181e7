// SPDX-License-Identifier: MIT
#include <errno.h>
#include <unistd.h>
#include "peers/contact.h"
#include "peers/contact_hello.h"
#include "peers/host_state.h"
#include "peers/ring_seg.h"
#include "util/log.h"
#include "util/quiesce.h"
#include "util/sealed.h"

enum { WANTED_MANY = 4 }; /* waits for space before a ring is doubled */

static const uint64_t nothing; /* the poll word of a contact that is not read any more */
static const uint32_t nobody; /* and who waits for space in its ring */

int ring_end_make(struct ring_end *e, uint32_t size, int *fd)
{
	int err;

	e->len = RING_CTL + size;
	err = sealed_make("softhca-ring", e->len, SEALED_ALLOCATED, fd, &e->map);
	if (!err)
		ring_init(&e->ring, e->map, size);
	return err;
}

int ring_end_map(struct ring_end *e, uint32_t size, int fd)
{
	int err;

	if (size < RING_MIN || size > RING_MAX || (size & (size - 1)))
		return EPROTO;
	e->len = RING_CTL + size;
	err = sealed_map(fd, e->len, true, &e->map);
	if (!err)
		ring_init(&e->ring, e->map, size);
	return err;
}

void ring_end_unmap(struct ring_end *e)
{
	sealed_unmap(e->map, e->len);
	*e = (struct ring_end){ 0 };
}

void contact_break(struct contact *c, const char *why)
{
	if (xchg_acq_rel(&c->broken, CONTACT_BROKEN) == CONTACT_BROKEN)
		return;
	log_warn("process in slot %u (pid %d): %s; the contact is ended", c->slot, (int)c->pid,
		 why);
	host_chore(c->host);
}

bool contact_readable(const struct contact *c)
{
	return load_acquire(load_acquire(&c->poll)) ||
	       unlikely(load_relaxed(load_acquire(&c->owed)));
}

/* In its mailbox, so that a peer with many contacts finds us. */
static void mail(struct contact *c)
{
	uint64_t *word = &c->mail[c->mail_bit / 64], bit = UINT64_C(1) << c->mail_bit % 64;

	if (!(load_relaxed(word) & bit))
		fetch_or_acq_rel(word, bit);
}

static void ring_bell(struct contact *c)
{
	const uint64_t one = 1;

	if (write(c->bell, &one, sizeof(one)) < 0)
		log_debug("the doorbell of slot %u is full", c->slot);
}

void contact_wake(struct contact *c, bool even_polled)
{
	uint32_t mode;

	full_fence(); /* after storing a record or a position; pairs with host_set_mode()'s */
	mode = load_relaxed(&c->page->mode);
	if (mode & HOST_MODE_MAIL)
		mail(c);
	switch (mode & HOST_MODE_MASK) {
	case HOST_POLLED:
		if (even_polled)
			ring_bell(c);
		return;
	case HOST_WATCHED:
		return;
	default:
		break;
	}
	if (load_relaxed(&c->rung) != mode && xchg_acq_rel(&c->rung, mode) != mode)
		ring_bell(c);
}

/* Under in_lock; unmap_old() looks at the map without it. */
static void set_old(struct contact *c, const struct ring_end *e)
{
	c->in_old.ring = e->ring;
	c->in_old.len = e->len;
	store_relaxed(&c->in_old.map, e->map);
}

/* The producer has said that it goes on in the ring we announced. */
static int moved(struct contact *c)
{
	if (!c->in_next.map || c->in_old.map)
		return EPROTO;
	set_old(c, &c->in);
	c->in = c->in_next;
	c->in_next = (struct ring_end){ 0 };
	host_chore(c->host); /* unmaps the old one */
	return 0;
}

static int take_record(struct contact *c, uint64_t word, const uint8_t *rec, uint32_t bytes,
		       struct ring_got *got)
{
	int err;

	if ((word & 15) != RING_SEG)
		return EPROTO;
	err = ring_seg_decode(word, rec, bytes, got);
	if (err)
		return err;
	got->seg.from = &c->home->d;
	c->host->cfg.deliver(c->host->cfg.arg, &got->seg);
	return 0;
}

void contact_watch_ring(struct contact *c)
{
	store_release(&c->owed, &c->in.ring.ctl->want_space);
	store_release(&c->poll, ring_next_word(&c->in.ring));
}

static void unwatch(struct contact *c)
{
	store_release(&c->owed, &nobody);
	store_release(&c->poll, &nothing);
}

/* Up to @budget records; *notify: the producer waits for the space. Under in_lock. */
static int drain(struct contact *c, unsigned int budget, unsigned int *done, bool *notify)
{
	struct ring_got got;
	const uint8_t *rec;
	uint32_t bytes;
	uint64_t word;
	int err = 0;

	got.seg = (struct seg){ 0 };
	got.ext = 0;
	while (*done < budget) {
		err = ring_peek(&c->in.ring, &word, &rec, &bytes);
		if (err)
			break;
		if ((word & 15) == RING_MOVED) {
			err = moved(c);
		} else {
			err = take_record(c, word, rec, bytes, &got);
			*notify |= ring_advance(&c->in.ring, bytes);
			(*done)++;
		}
		if (err)
			break;
	}
	*notify |= ring_settle(&c->in.ring);
	return err;
}

unsigned int contact_drain(struct contact *c, unsigned int budget)
{
	unsigned int done = 0;
	bool notify = false;
	int err;

	if (!contact_readable(c) || !spin_trylock(&c->in_lock))
		return 0;
	err = load_relaxed(&c->broken) == CONTACT_BROKEN ? EPROTO
							 : drain(c, budget, &done, &notify);
	if (err == EPROTO)
		unwatch(c);
	else
		contact_watch_ring(c);
	if (notify) {
		store_relaxed(&c->wanted, c->wanted + 1); /* wish() looks at it without the lock */
		if (c->wanted >= WANTED_MANY && c->in.ring.size < RING_MAX)
			host_chore(c->host);
	}
	spin_unlock(&c->in_lock);
	if (err == EPROTO)
		contact_break(c, "what it wrote into the ring is not valid");
	if (notify)
		contact_wake(c, false);
	return done;
}

/* Tells the consumer, in the old ring's last record, to go on in the offered one. Under
 * out_lock. */
static bool begin_next(struct contact *c)
{
	uint8_t *rec;

	if (!c->out_next.map || ring_reserve(&c->out.ring, RING_LINE, &rec))
		return false;
	ring_publish(&c->out.ring, ring_word(RING_MOVED, RING_LINE, 0));
	ring_end_unmap(&c->out);
	c->out = c->out_next;
	c->out_next = (struct ring_end){ 0 };
	return true;
}

bool contact_has_space(struct contact *c)
{
	bool moved_on, space;

	spin_lock(&c->out_lock);
	moved_on = begin_next(c);
	space = ring_has_space(&c->out.ring);
	spin_unlock(&c->out_lock);
	if (moved_on)
		contact_wake(c, false);
	return space;
}

int contact_take_ring(struct contact *c, uint32_t size, int fd)
{
	struct ring_end next;
	int err = ring_end_map(&next, size, fd);
	bool taken;

	if (err)
		return err;
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

static void unmap_old(struct contact *c)
{
	struct ring_end old, none = { 0 };

	if (!load_relaxed(&c->in_old.map))
		return; /* nor is the lock taken from who drains; moved() sends us again */
	spin_lock(&c->in_lock);
	old = c->in_old;
	set_old(c, &none);
	spin_unlock(&c->in_lock);
	if (old.map)
		quiesce_wait(); /* somebody may be looking at its next word */
	ring_end_unmap(&old);
}

static uint32_t wish(struct contact *c)
{
	uint32_t size = 0;

	if (load_relaxed(&c->wanted) < WANTED_MANY)
		return 0;
	spin_lock(&c->in_lock);
	if (c->wanted >= WANTED_MANY && !c->in_next.map && !c->in_old.map &&
	    c->in.ring.size < RING_MAX)
		size = c->in.ring.size * 2;
	spin_unlock(&c->in_lock);
	return size;
}

void contact_grow(struct contact *c)
{
	struct ring_end next;
	uint32_t size;
	int fd;

	unmap_old(c);
	size = wish(c);
	if (!size)
		return;
	if (ring_end_make(&next, size, &fd))
		return; /* no memory now: the small one goes on */
	spin_lock(&c->in_lock); /* before the peer can say MOVED */
	c->in_next = next;
	store_relaxed(&c->wanted, 0);
	spin_unlock(&c->in_lock);
	if (contact_offer_ring(c, size, fd)) {
		spin_lock(&c->in_lock);
		c->in_next = (struct ring_end){ 0 };
		spin_unlock(&c->in_lock);
		ring_end_unmap(&next);
	}
	close(fd);
}
