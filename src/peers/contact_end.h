// SPDX-License-Identifier: MIT
/* Contacts end: nobody of this process is in their rings or the peer's memory any more when they
 * are freed. Under host->control, outside any quiesce section. */
#pragma once

struct contact;
struct host;

/* One that was up: what the peer published before is delivered, then its slots are said to be
 * dead. */
void contact_end_up(struct host *h, struct contact *c);
/* A handshake that came to nothing: the process in that slot is asked again, until its deadline. */
void contact_end_pending(struct host *h, struct contact *c);
void contact_end_all(struct host *h); /* without a word to anybody: host_destroy() */
