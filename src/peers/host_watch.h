// SPDX-License-Identifier: MIT
/* An entry of the host's epoll set: host_control() calls ready(), under host->control. */
#pragma once
#include <stdint.h>

struct host;

struct watch {
	void (*ready)(struct watch *w, uint64_t now);
	int fd; /* -1: none */
};

/* Adds @w, level triggered; the caller has set w->fd. 0 or a positive errno. */
int host_watch(struct host *h, struct watch *w, void (*ready)(struct watch *w, uint64_t now));
/* It stays ready, and is about to be closed: ready() is not called again. */
void host_mute(struct host *h, const struct watch *w);
void host_unwatch(struct host *h, struct watch *w); /* and closes w->fd; fine when that is -1 */
