// SPDX-License-Identifier: MIT
/* What goes through the rings of a contact, and who is woken for it. Any thread. */
#pragma once
#include "peers/contact.h"

enum { CONTACT_WANTED_MANY = 4 }; /* waits for space before a ring is doubled */

unsigned int contact_drain(struct contact *c, unsigned int budget); /* in a quiesce section */
bool contact_readable(const struct contact *c); /* or owes space */
void contact_watch_ring(struct contact *c); /* sets poll and owed; under in_lock */
/* There is something in its ring, or space in ours. @even_polled: although its program polls,
 * since it need not do so for this. */
void contact_wake(struct contact *c, bool even_polled);
bool contact_has_space(struct contact *c);

/* Under in_lock; unmap_old() in contact_grow.c looks at the map without it. */
static inline void contact_set_old(struct contact *c, const struct ring_end *e)
{
	c->in_old.ring = e->ring;
	c->in_old.len = e->len;
	store_relaxed(&c->in_old.map, e->map);
}
