// SPDX-License-Identifier: MIT
/* An entry of the host's epoll set: host_control() calls ready(), under host->control. */
#pragma once
#include <stdint.h>

struct host;

struct watch {
	void (*ready)(struct watch *w, uint64_t now);
	int fd; /* -1: none */
};

/* Level triggered; w->fd is set already. */
int host_watch(struct host *h, struct watch *w, void (*ready)(struct watch *w, uint64_t now));
void host_unwatch(struct host *h, struct watch *w); /* and closes its fd; fine when it is -1 */
