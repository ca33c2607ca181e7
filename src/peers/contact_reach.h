// SPDX-License-Identifier: MIT
/* Who reaches whose memory. */
#pragma once
#include "peers/contact.h"

/* Each the other's, as both have proved. The peer's payloads may be fetched: it refers to memory
 * only once it heeds our hazards. Access without its doing waits for contact->mutual. */
static inline bool contact_reaches(const struct contact *c)
{
	return c->remote && load_acquire(&c->trusted);
}
