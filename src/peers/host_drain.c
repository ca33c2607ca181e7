// SPDX-License-Identifier: MIT
#include "peers/contact_ring.h"
#include "peers/host_resume.h"
#include "peers/host_state.h"
#include "util/quiesce.h"

enum { LOOK_AT_ALL = 1024 /* drains by mail between two looks at each ring */ };

static unsigned int drain_one(struct host *h, uint32_t i, unsigned int budget)
{
	struct contact *c = load_acquire(&h->contact[i]); /* pairs with host_contacts_enlist() */

	if (!c || load_acquire(&c->state) != CONTACT_UP)
		return 0;
	return contact_drain(c, budget);
}

/* A few peers: looks at each ring, at another one first each time. */
static unsigned int drain_each(struct host *h, unsigned int budget)
{
	uint32_t top = load_acquire(&h->top), first = load_relaxed(&h->next);
	unsigned int done = 0;

	if (first >= top)
		first = 0;
	for (uint32_t i = first; i < top && done < budget; i++)
		done += drain_one(h, i, budget - done);
	for (uint32_t i = 0; i < first && done < budget; i++)
		done += drain_one(h, i, budget - done);
	store_relaxed(&h->next, first + 1);
	return done;
}

static bool readable(struct host *h, uint32_t i)
{
	struct contact *c = load_acquire(&h->contact[i]);

	return c && load_acquire(&c->state) == CONTACT_UP && contact_readable(c);
}

/* A ring that was found without a mail bit is empty: only a stranger's is looked at again. */
static void found_empty(struct host *h, uint32_t i)
{
	const struct contact *c = load_acquire(&h->contact[i]);
	uint64_t bit = UINT64_C(1) << i % 64;

	if (c && !c->name.stranger && load_relaxed(&h->unmailed[i / 64]) & bit)
		fetch_and_acq_rel(&h->unmailed[i / 64], ~bit);
}

/* Those of a word that are in @mask. */
static unsigned int drain_word(struct host *h, unsigned int word, uint64_t mask,
			       unsigned int budget)
{
	uint64_t bits = (load_relaxed(&h->mail[word]) | load_relaxed(&h->unmailed[word])) & mask;
	unsigned int done = 0;

	for (; bits && done < budget; bits &= bits - 1) {
		uint64_t bit = bits & -bits;
		uint32_t i = word * 64 + (uint32_t)__builtin_ctzll(bits);
		unsigned int got;

		fetch_and_acq_rel(&h->mail[word],
				  ~bit); /* before the look: a peer that writes now sets it */
		full_fence();
		got = drain_one(h, i, budget - done);
		if (got)
			store_relaxed(&h->next, i + 1);
		done += got;
		if (readable(h, i))
			fetch_or_acq_rel(&h->mail[word], bit);
		else
			found_empty(h, i);
	}
	return done;
}

/* Each process of our user can wipe mail bits out: every LOOK_AT_ALL-th time all rings are looked
 * at. What is found is marked where no peer can write. */
static void look_at_all(struct host *h)
{
	uint32_t top = load_acquire(&h->top), drains = load_relaxed(&h->drains) + 1;

	store_relaxed(&h->drains, drains);
	for (uint32_t i = 0; i < top && drains % LOOK_AT_ALL == 0; i++)
		if (readable(h, i))
			fetch_or_acq_rel(&h->unmailed[i / 64], UINT64_C(1) << i % 64);
}

/* Many peers: looks at the rings of those that have set their mail bit, and of strangers. Begins
 * behind the one that was read last, which may have taken all of the budget. */
static unsigned int drain_mail(struct host *h, unsigned int budget)
{
	uint32_t first = load_relaxed(&h->next);
	unsigned int word = first / 64 % HOST_MAIL_WORDS, done;
	uint64_t behind = UINT64_MAX << first % 64;

	look_at_all(h);
	done = drain_word(h, word, behind, budget);
	for (unsigned int i = 1; i < HOST_MAIL_WORDS && done < budget; i++)
		done += drain_word(h, (word + i) % HOST_MAIL_WORDS, UINT64_MAX, budget - done);
	if (done < budget)
		done += drain_word(h, word, ~behind, budget - done);
	return done;
}

static bool by_mail(struct host *h)
{
	return load_relaxed(&h->page->mode) & HOST_MODE_MAIL;
}

/* A program that sends to itself without pause refills the queue faster than it is emptied: the
 * rings have at least half of the budget. */
unsigned int host_drain(struct host *h, unsigned int budget)
{
	unsigned int done;

	contact_patience.left = false;
	quiesce_enter();
	done = loopback_drain(&h->own, budget - budget / 2);
	done += by_mail(h) ? drain_mail(h, budget - done) : drain_each(h, budget - done);
	if (done < budget && loopback_pending(&h->own))
		done += loopback_drain(&h->own, budget - done);
	quiesce_exit();
	host_resume(h);
	return done;
}

bool host_patience(bool on)
{
	bool was = contact_patience.on;

	contact_patience.on = on;
	return was;
}

bool host_has_left(void)
{
	return contact_patience.left;
}

bool host_has_own(struct host *h)
{
	return loopback_pending(&h->own);
}

bool host_own_waits(const struct host *h)
{
	return host_wait_any(&h->own.waiters);
}

bool host_has_inbound(struct host *h)
{
	uint32_t top = load_acquire(&h->top);
	bool yes = loopback_pending(&h->own);

	quiesce_enter();
	for (uint32_t i = 0; i < top && !yes; i++)
		yes = readable(h, i);
	quiesce_exit();
	return yes || host_waiters_can_go_on(h);
}
