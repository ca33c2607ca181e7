// SPDX-License-Identifier: MIT
/* Ending contacts. A contact is freed when no thread of this process is in its rings or the peer's
 * memory any more. Mostly that is so at once; else contact_end_leaving() is due from time to time,
 * and host->deadline says so. Under host->control, outside any quiesce section. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct contact;
struct host;

/* A contact that was up: delivers the records that the peer has published, then reports its slots
 * as dead (host_config.peer_dead). A peer that has not left and may access our memory may be in the
 * middle of a copy: the contact is retired, and host_revoke() looks at its hazards. */
void contact_end_up(struct host *h, struct contact *c, uint64_t now);
/* Frees a retired contact once the peer has left. */
void contact_end_retired(struct host *h, struct contact *c, uint64_t now);
/* A handshake whose deadline has come: is our HELLO still unread, since the peer is stopped or has
 * no core? Then the connection stays, for the next destination that asks. Another HELLO would
 * add to the descriptors in flight, of which a user may have RLIMIT_NOFILE (unix(7)). */
bool contact_put_off(struct host *h, struct contact *c, uint64_t now);
/* A handshake that failed: this process asks the one in that slot again, until its deadline. */
void contact_end_pending(struct host *h, struct contact *c, uint64_t now);
void contact_end_leaving(struct host *h, uint64_t now); /* those that have ended before */
/* In a forked child, which inherits the contacts of its parent: none reaches a peer's memory, or
 * the peer. Under names_lock. */
void contact_leave_all(struct host *h);
void contact_end_all(struct host *h); /* without a callback, for host_destroy() */
