// SPDX-License-Identifier: MIT
#include "peers/host_ask.h"
#include <errno.h>
#include <string.h>
#include "link/number.h"
#include "obs/explain.h"
#include "peers/contact_hello.h"
#include "peers/host_contacts.h"
#include "peers/host_names.h"
#include "peers/host_state.h"
#include "peers/host_target.h"
#include "util/log.h"

/* Nothing else tells a side that only receives. Once for each process that cannot be reached. */
static void say_another_version(unsigned int slot, unsigned int layout)
{
	reason("QPs 0x%x to 0x%x of this host are out of reach: their process runs on another "
	       "version of softhca (layout %u), which this one cannot reach; start all programs of "
	       "a host on one version",
	       number_make(slot, 0), number_make(slot, NUMBER_INDEXES - 1), layout);
}

/* That process may have ended before it is asked who it was. */
static void refused(struct target *t)
{
	unsigned int layout;

	if (load_relaxed(&t->layout))
		return;
	layout = host_names_foreign_layout(t->slot);
	if (layout)
		say_another_version(t->slot, layout);
	store_relaxed(&t->layout, layout ? (int)layout : -1);
}

/* The peer's handshake has a deadline of its own. */
static void wait_for_peer(struct target *t, uint64_t now)
{
	t->retry = now + HOST_RETRY_NS;
	if (t->deadline < t->retry)
		t->deadline = t->retry;
}

static void ask(struct host *h, struct target *t, uint64_t now)
{
	int err;

	if (!t->deadline)
		t->deadline = now + HOST_CONTACT_NS;
	if (host_contacts_coming(h, t->slot)) {
		wait_for_peer(t, now);
		return;
	}
	if (now >= t->deadline) {
		t->error = ETIMEDOUT;
		host_target_settle(t, TARGET_DEAD, NULL);
		return;
	}
	if (now < t->retry)
		return;
	t->retry = now + HOST_RETRY_NS;
	err = h->alone ? ECONNREFUSED : contact_ask(h, t, now);
	if (!err) {
		host_target_settle(t, TARGET_ASKING, NULL);
	} else if (err != EAGAIN) {
		log_debug("slot %u does not answer: %s", t->slot, strerror(err));
		t->deadline = 0;
		t->error = err;
		if (err == ECONNREFUSED)
			refused(t);
		host_target_settle(t, TARGET_DEAD, NULL);
	}
}

/* @dead was wanted while senders waited on it; a process may have its slot yet. */
static void replace(struct host *h, struct target *dead, uint64_t now)
{
	struct target *t;

	if (host_wait_any(&dead->waiters)) {
		fetch_or_acq_rel(&h->wanted[dead->slot / 64], UINT64_C(1) << dead->slot % 64);
		host_sooner(h, now + HOST_RETRY_NS);
	} else if (!host_target(h, dead->slot, true, &t)) {
		host_target_put(t);
	}
}

static void ask_slot(struct host *h, unsigned int slot, uint64_t now)
{
	uint64_t *word = &h->wanted[slot / 64], bit = UINT64_C(1) << slot % 64;
	struct target *t;

	/* First: what is wanted from now on sets it again, perhaps on a new target. */
	fetch_and_acq_rel(word, ~bit);
	t = host_target_now(h, slot);
	if (!t)
		return;
	if (load_relaxed(&t->state) == TARGET_WANTED)
		ask(h, t, now);
	else if (load_relaxed(&t->state) == TARGET_DEAD)
		replace(h, t, now);
	if (load_relaxed(&t->state) == TARGET_WANTED) {
		fetch_or_acq_rel(word, bit);
		host_sooner(h, t->retry < t->deadline ? t->retry : t->deadline);
	}
	host_target_put(t);
}

void host_ask_targets(struct host *h, uint64_t now)
{
	for (unsigned int i = 0; i < NUMBER_SLOTS / 64; i++)
		for (uint64_t w = load_relaxed(&h->wanted[i]); w; w &= w - 1)
			ask_slot(h, i * 64 + (unsigned int)__builtin_ctzll(w), now);
}
