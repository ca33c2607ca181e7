// SPDX-License-Identifier: MIT
#include "peers/host_resume.h"
#include "peers/host_target.h"
#include "peers/shm.h"

/* Calls the waiters that are listed now while there is room; true when the list is empty then. */
static bool resume_waiters(struct target *t)
{
	uint32_t n = host_wait_count(&t->waiters);

	while (n && shm_can_go_on(t) && host_wait_call(&t->waiters))
		n--;
	return !host_wait_any(&t->waiters);
}

static void resume_slot(struct host *h, unsigned int slot)
{
	struct target *t;

	/* First: a sender that waits from now on sets it again, perhaps on a new target. */
	fetch_and_acq_rel(&h->waiting[slot / 64], ~(UINT64_C(1) << slot % 64));
	t = host_target_now(h, slot);
	if (!t)
		return;
	if (!resume_waiters(t))
		host_resume_later(h, slot);
	host_target_put(t);
}

void host_resume_all(struct host *h)
{
	uint32_t words = xchg_acq_rel(&h->waiting_words, 0); /* pairs with host_resume_later() */

	for (; words; words &= words - 1) {
		unsigned int i = (unsigned int)__builtin_ctz(words);

		for (uint64_t w = load_relaxed(&h->waiting[i]); w; w &= w - 1)
			resume_slot(h, i * 64 + (unsigned int)__builtin_ctzll(w));
	}
}
_Static_assert(NUMBER_SLOTS / 64 <= 32, "a bit for each word");

static bool slot_can_go_on(struct host *h, unsigned int slot)
{
	struct target *t = host_target_now(h, slot);
	bool yes = t && host_wait_any(&t->waiters) && shm_can_go_on(t);

	host_target_put(t);
	return yes;
}

bool host_waiters_can_go_on(struct host *h)
{
	bool yes = false;

	for (unsigned int i = 0; i < NUMBER_SLOTS / 64; i++)
		for (uint64_t w = load_relaxed(&h->waiting[i]); w && !yes; w &= w - 1)
			yes = slot_can_go_on(h, i * 64 + (unsigned int)__builtin_ctzll(w));
	return yes;
}
