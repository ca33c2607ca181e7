// SPDX-License-Identifier: MIT
#include "peers/contact_ring.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include "peers/contact_talk.h"
#include "peers/host_bell.h"
#include "peers/host_state.h"
#include "peers/ring_seg.h"
#include "util/log.h"
#include "util/uncancelled.h"

static const uint64_t nothing; /* poll points here once the contact is not read any more */
static const uint32_t nobody; /* and owed here */
static const char beyond_ours[] = "it moved its position in the ring beyond ours";

bool contact_readable(const struct contact *c)
{
	return load_acquire(load_acquire(&c->poll)) ||
	       unlikely(load_relaxed(load_acquire(&c->owed)));
}

/* Sets our bit in its mail page, so that a peer with many contacts finds our ring. */
static void mail(struct contact *c)
{
	uint64_t *word = &c->mail[c->mail_bit / 64], bit = UINT64_C(1) << c->mail_bit % 64;

	if (!(load_relaxed(word) & bit))
		fetch_or_acq_rel(word, bit);
}

/* False: the peer may sleep on. */
static bool ring_bell(struct contact *c)
{
	const struct contact_message rung = { .kind = CONTACT_RUNG };
	const uint64_t one = 1;
	int bell = load_acquire(&c->bell), err = 0; /* pairs with refer() */
	int was = uncancelled_begin();

	if (unlikely(bell < 0)) /* never waits: who has not read it yet is rung already */
		err = contact_talk_send(c->conn.fd, &rung, NULL, 0);
	else if (write(bell, &one, sizeof(one)) < 0)
		err = errno;
	uncancelled_end(was);
	if (!err || err == EAGAIN) /* what it has not read yet wakes it as well */
		return true;
	log_debug("slot %u was not rung: %s", c->slot, strerror(err));
	return false;
}

/* What has failed is tried anew by host_control(), since the next record may be long in coming. */
static void ring(struct contact *c)
{
	if (likely(ring_bell(c)))
		return;
	store_relaxed(&c->rung, 0); /* the number of no arming */
	if (!xchg_acq_rel(&c->unheard, 1))
		host_chore(c->host);
}

void contact_ring_anew(struct contact *c, uint64_t now)
{
	if (likely(!load_relaxed(&c->unheard)))
		return;
	store_relaxed(&c->unheard, 0); /* first: what fails from here on is a chore of its own */
	if (ring_bell(c))
		return;
	store_relaxed(&c->unheard, 1);
	host_sooner(c->host, now + HOST_RETRY_NS);
}

void contact_wake(struct contact *c, bool even_polled)
{
	uint32_t mode;

	full_fence(); /* after storing a record or a position; pairs with host_set_mode()'s */
	mode = load_relaxed(&c->page->mode);
	if (mode & HOST_MODE_MAIL && c->mail)
		mail(c);
	switch (mode & HOST_MODE_MASK) {
	case HOST_POLLED:
		if (even_polled)
			ring(c);
		return;
	case HOST_WATCHED:
		return;
	default:
		break;
	}
	if (load_relaxed(&c->rung) != mode && xchg_acq_rel(&c->rung, mode) != mode)
		ring(c);
}

/* The producer has said that it goes on in the ring that we have offered. */
static int moved(struct contact *c)
{
	if (!c->in_next.map || c->in_old.map)
		return EPROTO;
	contact_set_old(c, &c->in);
	c->in = c->in_next;
	c->in_next = (struct ring_end){ 0 };
	host_chore(c->host); /* unmaps the old one */
	return 0;
}

static void from_stranger(void *arg, const struct seg *s)
{
	const struct contact *c = arg;

	if (trust_segment(s))
		c->host->cfg.deliver(c->host->cfg.arg, s);
}

void contact_sieve(struct contact *c)
{
	c->deliver = from_stranger;
	c->deliver_arg = c;
}

__thread struct contact_patience contact_patience __attribute__((tls_model("initial-exec")));

static bool stays(const struct contact *c, const struct seg *s)
{
	const struct host_config *cfg = &c->host->cfg;

	return cfg->lacks_receive && cfg->lacks_receive(cfg->arg, s);
}

/* EAGAIN: the record stays for now. */
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
	if (unlikely(contact_patience.on) && stays(c, &got->seg)) {
		contact_patience.left = true;
		return EAGAIN;
	}
	c->deliver(c->deliver_arg, &got->seg);
	return 0;
}

void contact_watch_ring(struct contact *c)
{
	store_release(&c->owed, &c->in.ring.ctl->want);
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
			if (unlikely(err == EAGAIN))
				break;
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
		if (c->wanted >= CONTACT_WANTED_MANY && c->in.ring.size < RING_MAX)
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
	c->out_moves++;
	c->out_next = (struct ring_end){ 0 };
	return true;
}

/* The question in the ring has been answered, or there is none: it is asked anew. */
static void ask_anew(struct contact *c, bool told)
{
	if (told && c->asked_in == c->out_moves)
		c->answered = c->question;
	if (told || c->asked_in != c->out_moves)
		c->question++;
	c->asked_in = c->out_moves;
}

bool contact_has_taken(struct contact *c, struct link_mark *mark)
{
	struct link_mark was = *mark;
	bool told, yes;
	int err;

	spin_lock(&c->out_lock);
	err = ring_ask(&c->out.ring, &told);
	ask_anew(c, told);
	yes = was.process == c->number && was.ring == c->out_moves && c->answered >= was.asked &&
	      c->out.ring.seen >= was.at;
	*mark = (struct link_mark){ c->number, c->out.ring.pos, c->question, c->out_moves };
	spin_unlock(&c->out_lock);
	if (err == EPROTO)
		contact_break(c, beyond_ours);
	contact_wake(c, true);
	return yes && !err;
}

bool contact_has_space(struct contact *c)
{
	bool next, anew;
	int err;

	spin_lock(&c->out_lock);
	next = begin_next(c);
	err = ring_moved_on(&c->out.ring, &anew);
	spin_unlock(&c->out_lock);
	if (err == EPROTO)
		contact_break(c, beyond_ours);
	else if (next || anew)
		contact_wake(c, false);
	return err != EAGAIN;
}
