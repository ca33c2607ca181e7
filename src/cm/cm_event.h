// SPDX-License-Identifier: MIT
/* Channels and the events in them. Under cm.lock but for cm_channel_next(). */
#pragma once
#include "cm/cm_state.h"

int cm_channel_create(struct cm_channel **out, int *fd);
void cm_channel_destroy(struct cm_channel *ch); /* its ids are gone; drops what is queued */
int cm_channel_next(struct cm_channel *ch, struct cm_news *out);
/* An empty event for the channel of @id, to be filled in; NULL: no memory, or the program has
 * destroyed the channel: it is lost. */
struct cm_event *cm_event_new(struct cm_id *id, int event, int status);
void cm_event_queue(struct cm_event *e);
/* Both, for an event of which no call waits to say that there is no memory: then it comes as soon
 * as there is. @fill adds what it shows, and is the same for all events of an id. */
void cm_event_raise(struct cm_id *id, int event, int status,
		    void (*fill)(const struct cm_id *id, struct cm_event *e));
/* The events of @id leave its channel for @out, the caller's to free. @join: only those of the join
 * with that context; NULL: all. */
void cm_event_purge(struct cm_id *id, const void *join, struct list *out);
void cm_event_move(struct cm_id *id, struct cm_channel *to);
bool cm_event_waits(const struct cm_id *id);
