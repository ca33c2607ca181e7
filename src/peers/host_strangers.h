// SPDX-License-Identifier: MIT
/* How many contacts other users' processes have with this one, and whether they may have more: each
 * contact, and each connection that may become one, costs two descriptors and one of the places
 * that our own user's processes need (docs/design/security.md). Under host->control. */
#pragma once
#include <stdbool.h>

struct contact;
struct host;
struct trust_name;

/* May there be one more connection with the stranger @name? If not, that is counted, and a reason
 * says so. @asked: this process has begun it. */
bool host_strangers_admit(struct host *h, const struct trust_name *name, bool asked);
/* A contact is about to be freed. If a stranger has not read all that it was sent, its connection
 * is shut down, not closed, and counts on: the descriptors in it are our user's (unix(7),
 * ETOOMANYREFS). */
void host_strangers_keep(struct contact *c);
void host_strangers_look(struct host *h); /* closes those that have been read, or closed, since */
void host_strangers_forget(struct host *h); /* closes all */
/* The user of the stranger @name has tried to keep us waiting, which costs a few threads: its
 * processes are not heard again. With HOST_BARRED such users, none of any other user is.
 * Processes of our own user are passed over. */
void host_strangers_bar(struct host *h, const struct trust_name *name);
bool host_strangers_barred(const struct host *h, const struct trust_name *name);
