// SPDX-License-Identifier: MIT
/* The contacts of a host: those whose handshake is under way (host->pending), and those whose
 * hazards revocations look at (host->contact[]). Under host->control. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct contact;
struct host;

/* The contact in host->contact[] with the process that has @cookie and the first slot @slot, and is
 * a stranger or not as @like is (other users' ids may look like ours); NULL: none. A cookie alone
 * does not identify a process: any peer may repeat ours. */
struct contact *host_contacts_known(struct host *h, const struct contact *like, uint64_t cookie,
				    unsigned int slot);
/* Our own handshake with the process in @slot; NULL: none is under way. */
struct contact *host_contacts_asking(struct host *h, unsigned int slot);
/* Is the process in @slot making a contact from its side, so that ours is not needed? */
bool host_contacts_coming(const struct host *h, unsigned int slot);

/* A place in host->contact[], so that revocations look at its hazards. ENOSPC. */
int host_contacts_enlist(struct contact *c);
void host_contacts_unlist(struct host *h, struct contact *c); /* fine without a place */
void host_contacts_off_pending(struct host *h, struct contact *c);
/* The destination that @c has asked for leads to @up, unless it is dead meanwhile. */
void host_contacts_answered(const struct contact *c, struct contact *up);
/* The handshake is complete: its destinations are up, and its records are read from now on. */
void host_contacts_up(struct contact *c);
