// SPDX-License-Identifier: MIT
/* The thread of connection management, its descriptors and timers. It starts with the first
 * channel, and in a forked child anew. All but cm_start() under cm.lock. */
#pragma once
#include "cm/cm_state.h"

int cm_start(void); /* ENODEV: there is no device */
void cm_clear(void); /* all lists and tables are empty; before the thread starts */
/* The thread calls @ready under cm.lock when w->fd is readable or its peer has closed it. A copy of
 * what is watched takes its place: the first one must be forgotten. */
int cm_watch(struct cm_watch *w, void (*ready)(struct cm_watch *w));
/* Off: the thread does not look at it until it is on again. */
void cm_watch_switch(const struct cm_watch *w, bool on);
void cm_unwatch(struct cm_watch *w); /* and closes it; fine when it is not watched */
void cm_timer(struct timer *t, uint64_t at); /* UINT64_MAX: stops it */

bool cm_ours(const struct cm_id *id); /* false: it is a parent process'; under cm.lock */
/* Takes cm.lock for a call on @id. With a reason, and no lock: EIO, it is a parent process';
 * EINVAL, the program destroys it. */
int cm_enter(const struct cm_id *id, const char *call);
void cm_leave(void);
