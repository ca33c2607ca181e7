// SPDX-License-Identifier: MIT
/* Records through the rings of a contact, and waking the peer for them. Any thread. */
#pragma once
#include "peers/contact.h"

enum { CONTACT_WANTED_MANY = 4 }; /* waits for space before a ring is doubled */

extern __thread struct contact_patience {
	bool on, left; /* host_patience(), host_has_left() */
} contact_patience __attribute__((tls_model("initial-exec")));
unsigned int contact_drain(struct contact *c, unsigned int budget); /* in a quiesce section */
/* The contact is a stranger's: from now on only segments that it may send are delivered. To be
 * called before the first record. */
void contact_sieve(struct contact *c);
bool contact_readable(const struct contact *c); /* a record is there, or the peer waits for space */
void contact_watch_ring(struct contact *c); /* sets poll and owed; under in_lock */
/* Wakes the peer for a record in its ring, or for space in ours. @even_polled: also while its
 * program polls, since the program need not poll for this record. */
void contact_wake(struct contact *c, bool even_polled);
/* Rings again where a ring has failed. Under host->control; @now: ns. */
void contact_ring_anew(struct contact *c, uint64_t now);
bool contact_has_space(struct contact *c);
/* link_ops.taken, in a quiesce section. */
bool contact_has_taken(struct contact *c, struct link_mark *mark);

/* Under in_lock; unmap_old() in contact_grow.c reads in_old.map without it. */
static inline void contact_set_old(struct contact *c, const struct ring_end *e)
{
	c->in_old.ring = e->ring;
	c->in_old.len = e->len;
	store_relaxed(&c->in_old.map, e->map);
}
