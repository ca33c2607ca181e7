// SPDX-License-Identifier: MIT
/* An entry of the host's epoll set: host_control() calls ready(), under host->control. */
#pragma once
#include <stdint.h>

struct host;

struct watch {
	void (*ready)(struct watch *w, uint64_t now);
	int fd; /* -1: none */
	struct watch *rests; /* the next one that does; host->resting */
};

/* Adds @w, level triggered; the caller has set w->fd. 0 or a positive errno. */
int host_watch(struct host *h, struct watch *w, void (*ready)(struct watch *w, uint64_t now));
/* It stays ready, and is about to be closed: ready() is not called again. */
void host_mute(struct host *h, const struct watch *w);
/* accept() on @w has failed, and errno says why. Where it lacks a descriptor the connection stays
 * in the queue, so @w rests: ready() is called again in a while. */
void host_not_accepted(struct host *h, struct watch *w, uint64_t now);
void host_watch_again(struct host *h, uint64_t now); /* those that have rested */
void host_unwatch(struct host *h, struct watch *w); /* and closes w->fd; fine when that is -1 */
